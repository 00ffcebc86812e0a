"""A step machine of the lineage protocol whose decisions are those of the real code.

Actors: two takers, a duplicate executor of the first one's attempt, one guard a started epoch, one retention run. Each
step is one operation on the store (a listing, a create-if-absent, a deletion) or one local step; every actor may
stop for ever or crash (lose what it knows and begin again with the same nonce) between any two. `without` names the
steps that are left out: each of them must make an invariant fail.

A node's death and its proof are one step: a process that is dead without proof is one that takes no more steps. The
operator's word may be wrong: then the process lives on, and only its commits must not count. The message layer is
not trusted: whatever came of (c), an executor sends its grant to the node it wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from struct import Struct
from typing import ClassVar, NamedTuple

from backends.errors import NoProofError
from backends.ids import CheckpointId
from backends.records.lineage import Claim, Continues, ContinuesKind, Proof
from backends.store import retention
from backends.store.format.manifests import Listing
from backends.store.lineage import Lineage
from backends.store.port import ObjectInfo

UID = "abcdefghij0123456789"
AT = "2027-01-15T08:00:00.000Z"
STEPS = (
    "void", "proof", "proof_names_the_last", "claim", "choose_after_claim", "chain_only", "continues_once",
    "named_guard", "start_once", "look_after_manifest", "retention_looks", "retention_lists_first",
)  # fmt: skip

Id = tuple[int, int]  # epoch, seq
Cont = tuple[ContinuesKind, Id | None, str, str]  # kind, checkpoint, node, nonce


class BrokenError(AssertionError):
    """An invariant does not hold."""


class Exec(NamedTuple):
    """A taker or its duplicate."""

    pc: str  # off, settle, void, look, claim, choose, continue, done, gone
    nonce: str  # `t1`, `t2`; `d` for a duplicate whose original has begun again with a fresh one
    epoch: int = 0  # epoch being made void, claimed or decided
    proof: int = -1  # epoch whose death is proven; -1: none
    choice: Id | None = None


class Proc(NamedTuple):
    """A started incarnation of the job."""

    epoch: int
    node: str
    alive: bool
    pc: str  # run, look (manifest written, not yet reported), frozen
    seq: int


class Keep(NamedTuple):
    """The retention run."""

    pc: str  # off, listed, looked, delete, gone
    listed: frozenset[Id] = frozenset()
    seen: Book | None = None
    doomed: tuple[Id, ...] = ()


class State(NamedTuple):
    """Everything."""

    book: Book
    saves: frozenset[Id]
    reported: frozenset[Id]
    procs: frozenset[Proc]
    dead: frozenset[str]  # nodes
    execs: tuple[Exec, ...]
    grants: frozenset[tuple[int, str, str]]  # epoch, node, nonce
    checked: frozenset[tuple[int, str]]
    started: frozenset[tuple[int, str]]  # local records, synced
    words: frozenset[int]  # epochs whose death the operator asserted wrongly
    keep: Keep


@dataclass(frozen=True)
class Bounds:
    """How far to look."""

    epochs: int = 4
    first_saves: int = 2  # saves of epoch 1
    later_saves: int = 1
    words: int = 1
    executors: tuple[str, ...] = ("t1", "t2", "t1dup")
    retention: bool = True


class Book:
    """Claims and continues, interned: equal ones are the same object, so that states compare fast."""

    _known: ClassVar[dict[tuple[tuple[str, ...], tuple[Cont | None, ...]], Book]] = {}

    def __init__(self, claims: tuple[str, ...], conts: tuple[Cont | None, ...]) -> None:
        self.claims = claims  # nonce of epoch 1, 2, …
        self.conts = conts
        self._chains: dict[tuple[frozenset[Id], int], tuple[Id, ...]] = {}

    @classmethod
    def of(cls, claims: tuple[str, ...], conts: tuple[Cont | None, ...]) -> Book:
        """The one book with this content."""
        found = cls._known.get((claims, conts))
        if found is None:
            found = cls._known[(claims, conts)] = cls(claims, conts)
        return found

    def with_continues(self, epoch: int, cont: Cont) -> Book:
        """The book after a create of an epoch's continues that succeeded."""
        return Book.of(self.claims, (*self.conts[: epoch - 1], cont, *self.conts[epoch:]))

    def renamed(self, old: str, new: str) -> Book:
        """The book with one nonce for another."""
        conts = tuple(cont if cont is None or cont[3] != old else (*cont[:3], new) for cont in self.conts)
        return Book.of(tuple(new if nonce == old else nonce for nonce in self.claims), conts)

    @cached_property
    def lineage(self) -> Lineage:
        """The real lineage."""
        proof = Proof("first", 0, "", "", "model", AT)
        claims = {n: Claim(UID, n, nonce, nonce, AT, proof) for n, nonce in enumerate(self.claims, 1)}
        conts = {}
        for number, cont in enumerate(self.conts, 1):
            if cont is not None:
                kind, save, node, nonce = cont
                place = None if kind == "void" else node
                text = None if save is None else f"{save[0]}.{save[1]}"
                conts[number] = Continues(UID, number, kind, text, place, place, nonce, nonce, AT)
        return Lineage(UID, claims, conts)

    @cached_property
    def highest(self) -> int:
        """The real highest epoch."""
        return self.lineage.highest

    @cached_property
    def settled(self) -> bool:
        """Whether the real code holds the highest epoch settled."""
        return self.lineage.settled(self.lineage.highest)

    @cached_property
    def current(self) -> Continues | None:
        """The real last non-void continues."""
        return self.lineage.current()

    def chain(self, saves: frozenset[Id], below: int) -> tuple[Id, ...]:
        """The real order of choice."""
        found = self._chains.get((saves, below))
        if found is None:
            real = self.lineage.chain((CheckpointId(*save) for save in saves), below)
            found = self._chains[(saves, below)] = tuple((identity.epoch, identity.seq) for identity in real)
        return found

    @cached_property
    def reach(self) -> tuple[int, dict[int, float]]:
        """By the letter, apart from the code: the last non-void epoch, and how far each epoch counts."""
        return self.reach_below(99)

    def reach_below(self, below: int) -> tuple[int, dict[int, float]]:
        """The same, as it was for whoever decided epoch `below`."""
        live = [
            n for n, cont in enumerate(self.conts, 1) if n < below and cont is not None and cont[0] != "void"
        ]
        reach: dict[int, float] = {}
        epoch, limit = live[-1], float("inf")
        while True:
            reach[epoch] = limit
            cont = self.conts[epoch - 1]
            if cont is None or cont[1] is None:
                return live[-1], reach
            epoch, limit = cont[1]


@cache
def doomed_by(listed: frozenset[Id], book: Book, look: bool) -> tuple[Id, ...]:
    """What the real retention would remove: everything verified, only the newest has to stay."""
    ids = [CheckpointId(*save) for save in listed]
    infos = {
        identity: ObjectInfo(f"jobs/{UID}/checkpoints/{identity}/manifest.json", 1, 0.0) for identity in ids
    }
    known = {identity: retention.Known(True, True) for identity in ids}
    if not look and ids:  # pretend that the head's epoch is the highest
        top = max(ids).epoch
        book = Book.of(book.claims[:top], book.conts[:top])
    kept, retention.MIN_VERIFIED = retention.MIN_VERIFIED, 1
    try:
        decided = retention.plan(Listing(UID, infos), known, book.lineage, retention.Policy(1, 0.0), 1e9)
    finally:
        retention.MIN_VERIFIED = kept
    return tuple((identity.epoch, identity.seq) for identity in decided.removed)


@dataclass
class Machine:
    """Explores all states within the bounds; raises BrokenError at the first broken invariant."""

    bounds: Bounds = field(default_factory=Bounds)
    without: frozenset[str] = frozenset()
    states: int = 0
    transitions: int = 0

    def first(self) -> State:
        """Epoch 1 runs on node `a`; nobody takes over yet."""
        return State(
            Book.of(("x",), (("genesis", None, "a", "x"),)), frozenset(), frozenset(),
            frozenset({Proc(1, "a", True, "run", 0)}), frozenset(),
            tuple(Exec("off", "t1") if name == "t1dup" else Exec("settle", name) for name in self.bounds.executors),
            frozenset(), frozenset(), frozenset({(1, "a")}), frozenset(),
            Keep("off" if self.bounds.retention else "gone"),
        )  # fmt: skip

    def explore(self, limit: int = 10_000_000) -> int:
        """Visit every reachable state; return how many there are."""
        self.states = 0
        for _ in self.reachable():
            self.states += 1
            if self.states > limit:
                raise RuntimeError(f"more than {limit} states")
        return self.states

    def reachable(self) -> Iterator[State]:
        """Every reachable state, once. A state is known again by the numbers of its parts: exact, no hash of it all."""
        parts: tuple[dict[object, int], ...] = tuple({} for _ in State._fields)
        layout = Struct(f"{len(parts)}I").pack

        def key(state: State) -> bytes:
            return layout(
                *(table.setdefault(part, len(table)) for table, part in zip(parts, state, strict=True))
            )

        start = self.first()
        seen = {key(start)}
        stack = [start]
        while stack:
            state = stack.pop()
            yield state
            for following in self.steps(state):
                self.transitions += 1
                mark = key(following)
                if mark not in seen:
                    seen.add(mark)
                    stack.append(following)

    def steps(self, state: State) -> Iterator[State]:
        """All states one step further."""
        for number, each in enumerate(state.execs):
            yield from self._executor(state, number, each)
        for process in state.procs:
            yield from self._guard(state, process)
        yield from self._starts(state)
        yield from self._retention(state)

    def most(self, epoch: int) -> int:
        """How many saves an epoch may write."""
        return self.bounds.first_saves if epoch == 1 else self.bounds.later_saves

    # executors

    def _executor(self, state: State, number: int, each: Exec) -> Iterator[State]:
        if each.pc == "off":  # a duplicate of the first taker's attempt may begin at any time
            if state.execs[0].pc not in ("settle", "done"):
                yield _put(state, number, Exec("settle", "t1"))
        elif each.pc == "done":
            if state.book.highest < self.bounds.epochs:
                yield self._afresh(state, number)
        elif each.pc != "gone":
            if each.pc != "settle":  # a crash loses everything but the nonce in the journal
                yield _put(state, number, Exec("settle", each.nonce))
            yield from self.advance(state, number, each)

    def advance(self, state: State, number: int, each: Exec) -> Iterator[State]:
        """What an executor under way does next."""
        step: Callable[[State, int, Exec, Book], Iterator[State]] = getattr(self, f"_at_{each.pc}")
        yield from step(state, number, each, state.book)

    def _afresh(self, state: State, number: int) -> State:
        """Begin again with a new nonce; objects under the old one are told apart from it. A duplicate ends."""
        old = state.execs[number].nonce
        if self.bounds.executors[number] == "t1dup":
            changed = state if old == "t1" else _rename(state, old, "x")
            return _put(changed, number, Exec("gone", "x"))
        sharing = [
            n
            for n, e in enumerate(state.execs)
            if n != number and e.nonce == old and e.pc not in ("off", "gone")
        ]
        changed = _rename(state, old, "d" if sharing else "x")
        for other in sharing:
            changed = _put(changed, other, changed.execs[other]._replace(nonce="d"))
        return _put(changed, number, Exec("settle", old))

    def _at_settle(self, state: State, number: int, each: Exec, book: Book) -> Iterator[State]:
        """(0), and the proof for the process that the lineage just read names."""
        own = book.lineage.own_claim(each.nonce)
        top = book.highest
        if not book.settled and (own is None or own.epoch != top) and "void" not in self.without:
            yield _put(state, number, Exec("void", each.nonce, top))
            return
        after = "choose" if "choose_after_claim" in self.without and own is None else "look"
        current = book.current
        if own is not None or "proof" in self.without or current is None or current.target is None:
            yield _put(state, number, Exec(after, each.nonce, 0, 0 if current is None else current.epoch))
            return
        proven = _put(state, number, Exec(after, each.nonce, 0, current.epoch))
        yield _kill(proven, current.target)
        words = state.words | {current.epoch}
        if len(words) <= self.bounds.words and current.target not in state.dead:
            yield proven._replace(words=words)

    def _at_void(self, state: State, number: int, each: Exec, book: Book) -> Iterator[State]:
        after = (
            book if book.conts[each.epoch - 1] else book.with_continues(each.epoch, ("void", None, "", ""))
        )
        yield _put(state, number, Exec("settle", each.nonce))._replace(book=after)

    def _at_look(self, state: State, number: int, each: Exec, book: Book) -> Iterator[State]:
        """The reading half of (a)."""
        own = book.lineage.own_claim(each.nonce)
        if own is not None:
            mine = own.epoch == book.highest
            yield (
                _put(state, number, Exec("choose", each.nonce, own.epoch))
                if mine
                else self._afresh(state, number)
            )
            return
        if not book.settled and "void" not in self.without:
            yield self._afresh(state, number)
            return
        if not {"proof", "proof_names_the_last"} & self.without:
            current = book.current
            place = current.target or "" if current is not None and current.epoch == each.proof else "?"
            try:
                book.lineage.check_proof(Proof("cloud", each.proof, place, place, "model", AT))
            except NoProofError:
                yield _put(state, number, Exec("settle", each.nonce))
                return
        if book.highest < self.bounds.epochs:
            yield _put(state, number, Exec("claim", each.nonce, book.highest + 1, -1, each.choice))

    def _at_claim(self, state: State, number: int, each: Exec, book: Book) -> Iterator[State]:
        """The writing half of (a)."""
        after = "continue" if "choose_after_claim" in self.without else "choose"
        if book.highest >= each.epoch:
            own = book.claims[each.epoch - 1] == each.nonce or "claim" in self.without
            yield _put(state, number, each._replace(pc=after)) if own else self._afresh(state, number)
            return
        claimed = Book.of((*book.claims, each.nonce), (*book.conts, None))
        yield _put(state, number, each._replace(pc=after))._replace(book=claimed)

    def _at_choose(self, state: State, number: int, each: Exec, book: Book) -> Iterator[State]:
        """(b); when nothing can be chosen a cold start is the operator's word, and the executor stops."""
        early = each.epoch == 0
        epoch = each.epoch or book.highest + 1
        open_below = any(not book.lineage.settled(n) for n in range(1, epoch))
        if open_below and not {"void", "choose_after_claim"} & self.without:
            yield self._afresh(state, number)
            return
        chain = book.chain(state.saves, epoch)
        if "chain_only" in self.without:
            chain = tuple(sorted((save for save in state.saves if save[0] < epoch), reverse=True))
        if chain:
            yield _put(state, number, each._replace(pc="look" if early else "continue", choice=chain[0]))

    def _at_continue(self, state: State, number: int, each: Exec, book: Book) -> Iterator[State]:
        """(c), and the grant to the node this executor wanted, whatever came of it."""
        node, epoch, save = f"{self.bounds.executors[number]}@{each.epoch}", each.epoch, each.choice
        free = book.conts[epoch - 1] is None or "continues_once" in self.without
        if save is not None and save[0] < epoch and free:
            book = book.with_continues(epoch, ("checkpoint", save, node, each.nonce))
            _check_choice(state._replace(book=book), epoch, save)
        following = _put(state, number, Exec("done", each.nonce))
        yield self._tidy(following._replace(book=book, grants=state.grants | {(epoch, node, each.nonce)}))

    def _tidy(self, state: State) -> State:
        """Forget grants that can never start anything, so that equal futures are equal states."""
        if {"named_guard", "start_once", "continues_once"} & self.without:
            return state
        lineage = state.book.lineage
        return state._replace(grants=frozenset(grant for grant in state.grants if startable(lineage, grant)))

    # guards

    def _starts(self, state: State) -> Iterator[State]:
        lineage = state.book.lineage
        for epoch, node, nonce in state.grants:
            if node in state.dead or (epoch, node) in state.checked:
                continue
            if (epoch, node) in state.started and "start_once" not in self.without:
                continue
            if "named_guard" not in self.without and not startable(lineage, (epoch, node, nonce)):
                continue
            yield state._replace(checked=state.checked | {(epoch, node)})
        for epoch, node in state.checked:
            start = state.book.conts[epoch - 1]
            again = sum(p.epoch == epoch for p in state.procs)
            if again > 1:
                continue
            process = Proc(epoch, node, True, "run", 0 if not again else 50)
            grants = state.grants if "start_once" in self.without else _no_grant(state.grants, epoch, node)
            following = state._replace(
                procs=state.procs | {process}, checked=state.checked - {(epoch, node)},
                started=state.started | {(epoch, node)}, grants=grants,
            )  # fmt: skip
            _check_start(following, epoch, start)
            yield following

    def _guard(self, state: State, process: Proc) -> Iterator[State]:
        if not process.alive or process.pc == "frozen":
            return

        def to(following: Proc, **changes: object) -> State:
            return state._replace(procs=state.procs - {process} | {following}, **changes)  # type: ignore[arg-type]  # fields of State by name

        if process.pc == "run" and process.seq < self.most(process.epoch):
            save = (process.epoch, process.seq + 1)
            yield to(process._replace(pc="look", seq=process.seq + 1), saves=state.saves | {save})
        elif process.pc == "look":
            behind = state.book.lineage.newer_claim(process.epoch) is not None
            if behind and not {"look_after_manifest", "claim"} & self.without:
                yield to(process._replace(pc="frozen", seq=0))
                return
            following = to(
                process._replace(pc="run"), reported=state.reported | {(process.epoch, process.seq)}
            )
            _check_reported(following)
            yield following

    # retention

    def _retention(self, state: State) -> Iterator[State]:
        keep = state.keep
        looks_first = "retention_lists_first" in self.without
        if keep.pc == "off" and looks_first:
            yield state._replace(keep=keep._replace(pc="looked", seen=state.book))
        elif keep.pc == "off" and len(state.saves) > 1:
            yield state._replace(keep=keep._replace(pc="listed", listed=state.saves))
        elif keep.pc in ("listed", "looked"):
            listed = state.saves if keep.pc == "looked" else keep.listed
            seen = keep.seen or state.book
            doomed = doomed_by(listed, seen, "retention_looks" not in self.without)
            yield state._replace(keep=Keep("delete", doomed=doomed) if doomed else Keep("off"))
        elif keep.pc == "delete":
            rest = keep.doomed[1:]
            following = state._replace(
                saves=state.saves - {keep.doomed[0]},
                keep=Keep("delete", doomed=rest) if rest else Keep("off"),
            )
            _check_kept(following)
            yield following


def _put(state: State, number: int, each: Exec) -> State:
    return state._replace(execs=(*state.execs[:number], each, *state.execs[number + 1 :]))


def _rename(state: State, old: str, new: str) -> State:
    grants = frozenset((epoch, node, new if nonce == old else nonce) for epoch, node, nonce in state.grants)
    return state._replace(book=state.book.renamed(old, new), grants=grants)


def _kill(state: State, node: str) -> State:
    """The node dies with all that runs on it."""
    procs = (p._replace(alive=False, pc="frozen", seq=0) if p.node == node else p for p in state.procs)
    return state._replace(
        dead=state.dead | {node},
        procs=frozenset(procs),
        checked=frozenset(pair for pair in state.checked if pair[1] != node),
        started=frozenset(pair for pair in state.started if pair[1] != node),
        grants=frozenset(grant for grant in state.grants if grant[1] != node),
    )


def startable(lineage: Lineage, grant: tuple[int, str, str]) -> bool:
    try:
        lineage.may_start(*grant)
    except NoProofError:
        return False
    return True


def _no_grant(
    grants: frozenset[tuple[int, str, str]], epoch: int, node: str
) -> frozenset[tuple[int, str, str]]:
    return frozenset(grant for grant in grants if grant[:2] != (epoch, node))


def _on_chain(save: Id, reach: dict[int, float]) -> bool:
    return save[1] <= reach.get(save[0], 0)


def _check_choice(state: State, epoch: int, save: Id) -> None:
    if not _on_chain(save, state.book.reach_below(epoch)[1]):
        raise BrokenError(f"orphan {save} chosen by epoch {epoch}: {state}")
    if save not in state.saves:
        raise BrokenError(f"{save} chosen by epoch {epoch} was removed: {state}")
    _check_reported(state)


def _check_reported(state: State) -> None:
    lost = [save for save in state.reported if not _on_chain(save, state.book.reach[1])]
    if lost:
        raise BrokenError(f"reported as saved and lost: {lost}: {state}")


def _check_start(state: State, epoch: int, start: Cont | None) -> None:
    same = [process for process in state.procs if process.epoch == epoch]
    if len(same) > 1:
        raise BrokenError(f"epoch {epoch} runs twice: {state}")
    for process in state.procs:
        if process.epoch < epoch and process.alive and process.epoch not in state.words:
            raise BrokenError(f"epoch {epoch} started while {process} lives, unproven: {state}")
        if (
            process.epoch > epoch
            and process.alive
            and process.epoch not in state.words
            and epoch not in state.words
        ):
            raise BrokenError(f"epoch {epoch} started although {process} runs: {state}")
    if start is None or start[0] == "void":
        raise BrokenError(f"epoch {epoch} is void and was started: {state}")


def _check_kept(state: State) -> None:
    top, reach = state.book.reach
    usable = [save for save in state.saves if _on_chain(save, reach)]
    cont = state.book.conts[top - 1]
    chosen = cont[1] if cont is not None else None
    if chosen is not None and chosen not in state.saves and not any(save[0] == top for save in state.saves):
        raise BrokenError(f"retention removed the chosen {chosen}: {state}")
    if state.reported and (not usable or max(usable) < max(state.reported)):
        raise BrokenError(f"retention removed what was reported: {state}")
