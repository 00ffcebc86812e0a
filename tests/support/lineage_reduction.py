"""Reductions of the lineage model: far fewer states, the same verdict.

`Reduced.image` maps a state to the one that stands for it; the reduced exploration takes all the model's steps, from
images only. That is sound when an image can do all that the state can: no violation is then lost. (It may do more; a
false alarm would show.) `REST_ON` tells which steps of the protocol the argument for a rule needs; a rule is not used
where one of them is left out. `tests/model` holds them to it: within smaller bounds the image of *every* state of the
unreduced exploration must be among those that the reduced one visits, for each rule alone and for all together, and
both must give the same verdict with any one step left out. A fault of the real code that amounts to leaving out a step
may hide from a rule that rests on it; the unreduced explorations of the same tests are there to find it.

executors   Between its settle and its claim an executor writes the void, the death it proves and the claim. Void and
            claim are create-if-absent, and the claim succeeds only while what was read still holds: reads made at
            that moment would have read the same. So it goes from settle to claim at once; what a crash on the way
            leaves behind (a void, a death, a word) is an outcome too. Without a claim it then knows nothing. One
            whose epoch is decided or overtaken can write nothing any more: (c) finds its object there, and its grant
            names another guard or an epoch that is behind. It begins afresh at once.
            What is left is the owner of an undecided epoch and perhaps its duplicate; all others are alike. So they
            may change names: the owner is the first taker, so is the guard of a decided epoch. A duplicate with a
            nonce of its own is just another taker; one that has chosen nothing may as well begin later, and the
            image lets one begin with every attempt. (That any number of takers is covered comes for nothing.)
past        No step reads grants that the real `may_start` refuses now (a claim is never taken back), records of
            starts that no grant asks for again, dead nodes that no word can concern, dead processes of epochs that
            nothing can start, nor whether a process lives that stands still and that the operator called dead.
frozen      A process that is behind and has written its manifest can only freeze. One that is behind and has no save
            left to write, or with `orphans` only such as are off the chain, changes nothing any more.
reported    Chains are cut from the top: while the newest reported save is kept, all are.
orphans     A save off the chain stays off it. Where the newest of a listing is an orphan, retention removes nothing;
            without the orphan it may remove more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.lineage_model import (
    STEPS,
    Book,
    BrokenError,
    Cont,
    Exec,
    Keep,
    Machine,
    Proc,
    State,
    startable,
)

_TAKEOVER = frozenset(STEPS[: STEPS.index("look_after_manifest")]) - {"chain_only"}
REST_ON = {  # in the order of their use
    "executors": _TAKEOVER,
    "frozen": frozenset({"claim", "look_after_manifest"}),
    "past": _TAKEOVER,
    "reported": _TAKEOVER | {"chain_only"},
    "orphans": frozenset(STEPS) - {"look_after_manifest"},
}


@dataclass
class Reduced(Machine):
    """The machine on images."""

    rules: frozenset[str] = field(default=frozenset(REST_ON))

    def __post_init__(self) -> None:
        self.rules = frozenset(rule for rule in self.rules if not REST_ON[rule] & self.without)

    def first(self) -> State:
        return self.image(super().first())

    def steps(self, state: State) -> Iterator[State]:
        yield from map(self.image, super().steps(state))

    def image(self, state: State) -> State:
        """The state that stands for this one."""
        for rule in REST_ON:
            if rule in self.rules:
                state = getattr(self, f"_{rule}")(state)
        return state

    def _executor(self, state: State, number: int, each: Exec) -> Iterator[State]:
        todo = list(super()._executor(state, number, each))
        if "executors" not in self.rules:
            yield from todo
            return
        # What a duplicate does before it has chosen is left out of images: it goes on until then.
        passing = (
            ("settle", "void", "look", "claim", "choose") if each.pc == "off" else ("void", "look", "claim")
        )
        while todo:
            after = todo.pop()
            yield after
            begun = after.execs[number]
            if begun.pc in passing:
                todo.extend(self.advance(after, number, begun))

    def _executors(self, state: State) -> State:
        book, top = state.book, state.book.highest
        owner = book.claims[top - 1] if book.conts[top - 1] is None else None
        for name, each in zip(self.bounds.executors, state.execs, strict=True):
            grant = (each.epoch, f"{name}@{each.epoch}", each.nonce)
            if each.pc == "continue" and startable(book.lineage, grant):
                raise BrokenError(f"{each} may be started although its epoch is decided: {state}")
        owners = [each for each in state.execs if each.nonce == owner and each.pc not in ("off", "gone")]
        # Two choices of one attempt: which of the two executors made which makes no difference.
        chosen = sorted(
            (each.choice for each in owners if each.pc == "continue" and each.choice), reverse=True
        )
        active = [Exec("continue", "t1", top, -1, choice) for choice in chosen]
        if owners and not active:
            active = [Exec("choose", "t1", top)]
        execs = []
        for name in self.bounds.executors:
            idle = Exec("off", "t1") if name == "t1dup" else Exec("settle", name)
            execs.append(active.pop(0) if active and name != "t2" else idle)
        claims = tuple("t1" if owners and epoch == top else "x" for epoch in range(1, top + 1))
        return self._named(state, claims)._replace(execs=tuple(execs))

    def _named(self, state: State, claims: tuple[str, ...]) -> State:
        """The guards of decided epochs with the first taker's names, nonces of the past without any."""
        names: dict[str, str] = {}
        conts: list[Cont | None] = []
        for epoch, cont in enumerate(state.book.conts, 1):
            if cont is not None and cont[0] == "checkpoint":
                names[cont[2]] = f"t1@{epoch}"
                conts.append((*cont[:2], f"t1@{epoch}", "x"))
            else:
                conts.append(cont)

        def pairs(found: frozenset[tuple[int, str]]) -> frozenset[tuple[int, str]]:
            return frozenset((epoch, names.get(node, node)) for epoch, node in found)

        return state._replace(
            book=Book.of(claims, tuple(conts)),
            procs=frozenset(each._replace(node=names.get(each.node, each.node)) for each in state.procs),
            dead=frozenset(names.get(node, node) for node in state.dead),
            grants=frozenset((epoch, names[node], "x") for epoch, node, _ in self._tidy(state).grants),
            checked=pairs(state.checked),
            started=pairs(state.started),
        )

    def _past(self, state: State) -> State:
        current = state.book.current
        assert current is not None  # epoch 1 is never void
        done = state.started | state.checked
        grants = frozenset(
            grant
            for grant in self._tidy(state).grants
            if grant[1] not in state.dead and grant[:2] not in done
        )
        pending = {grant[0] for grant in grants} | {epoch for epoch, _ in state.checked}
        still = (
            each._replace(alive=False) if each.pc == "frozen" and each.epoch in state.words else each
            for each in state.procs
        )
        procs = frozenset(each for each in still if each.alive or each.epoch in pending)
        asked = pending | {each.epoch for each in procs} | {current.epoch}
        words = frozenset(
            epoch if epoch in asked else -number for number, epoch in enumerate(sorted(state.words))
        )
        dead = state.dead & {current.target} if len(words) < self.bounds.words else frozenset()
        return state._replace(grants=grants, started=frozenset(), procs=procs, words=words, dead=dead)

    def _frozen(self, state: State) -> State:
        procs = (
            each._replace(pc="frozen", seq=0) if self._still(state, each) else each for each in state.procs
        )
        return state._replace(procs=frozenset(procs))

    def _still(self, state: State, process: Proc) -> bool:
        if not process.alive or process.epoch == state.book.highest:
            return False
        if process.pc == "look":
            return state.book.lineage.newer_claim(process.epoch) is not None
        reach = state.book.reach[1].get(process.epoch, 0) if "orphans" in self.rules else 99
        return process.seq >= min(self.most(process.epoch), reach)

    def _reported(self, state: State) -> State:
        return state._replace(reported=frozenset(sorted(state.reported)[-1:]))

    def _orphans(self, state: State) -> State:
        reach = state.book.reach[1]
        # Off the chain by the letter and by the real code: a fault there must not be hidden.
        saves = frozenset(save for save in state.saves if save[1] <= reach.get(save[0], 0))
        saves |= frozenset(state.book.chain(state.saves, state.book.highest + 1))
        keep = state.keep
        if keep.pc == "listed":
            listed = keep.listed & saves
            idle = len(listed) < 2 or max(keep.listed) not in listed
            keep = Keep("off") if idle else Keep("listed", listed)
        elif keep.pc == "delete":
            doomed = tuple(save for save in keep.doomed if save in saves)
            keep = Keep("delete", doomed=doomed) if doomed else Keep("off")
        return state._replace(saves=saves, keep=keep)
