"""Lineage and the steps of a takeover, on the real code and a store in memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from backends.errors import DamagedError, ExistsError, FencedError, FullError, NoProofError, NotFoundError
from backends.fakes.store import Fault, MemoryStore
from backends.ids import CheckpointId
from backends.records.lineage import Continues, Proof
from backends.records.manifest import Manifest
from backends.store import layout
from backends.store.fleetkey import FleetKey, sign_record
from backends.store.lineage import Lineage, read_lineage
from backends.store.takeover import (
    FIRST,
    Choice,
    begin,
    choose,
    claim_next,
    put_header,
    remove,
    settle,
    write_continues,
)
from backends.store.verify import verify_checkpoint
from tests.support.store import UID, Bench

AT = "2027-01-15T08:00:00.000Z"


@pytest.fixture
def bench() -> Bench:
    found = Bench()
    found.begin()
    return found


def memory(bench: Bench) -> MemoryStore:
    assert isinstance(bench.store, MemoryStore)
    return bench.store


def lineage(bench: Bench) -> Lineage:
    return read_lineage(bench.store, UID, bench.fleet.verify_key)


def pick(bench: Bench, identity: CheckpointId) -> Manifest:
    return verify_checkpoint(bench.store, UID, identity, bench.key, bench.clock).manifest


def test_the_first_start_makes_header_claim_and_genesis(bench: Bench) -> None:
    found = lineage(bench)
    assert (found.highest, found.problems) == (1, ())
    current = found.current()
    assert current is not None
    assert (current.kind, current.target, current.guard) == ("genesis", "node-a", "guard-a")
    assert found.may_start(1, "guard-a", current.nonce) == current
    for epoch, guard, nonce in (
        (1, "guard-b", current.nonce),
        (1, "guard-a", "other"),
        (2, "guard-a", current.nonce),
    ):
        with pytest.raises(NoProofError, match="may not be started here"):
            found.may_start(epoch, guard, nonce)


def test_the_first_start_may_be_repeated_by_its_own_nonce_only() -> None:
    bench = Bench()
    taker = bench.taker("n1")
    first = begin(taker, "job", "node-a", "guard-a")
    assert begin(taker, "job", "node-z", "guard-z") == first
    with pytest.raises(NoProofError):
        begin(bench.taker("n2"), "job", "node-b", "guard-b")
    with pytest.raises(ExistsError, match="belongs to job 'job'"):
        put_header(bench.taker(), "other")


def test_a_takeover_continues_from_the_newest_on_the_chain(bench: Bench, tmp_path: Path) -> None:
    for seq in (1, 2):
        bench.save(tmp_path, seq)
    taken = bench.take_over()
    assert (taken.epoch, taken.kind, taken.checkpoint, taken.guard) == (2, "checkpoint", "1.2", "guard-b")
    bench.save(tmp_path, 1, epoch=2)
    again = bench.take_over("node-c", "guard-c")
    assert (again.epoch, again.checkpoint) == (3, "2.1")
    found = lineage(bench)
    assert found.chain([CheckpointId(1, 1), CheckpointId(1, 3), CheckpointId(2, 1), CheckpointId(1, 2)], below=3) == [
        CheckpointId(2, 1), CheckpointId(1, 2), CheckpointId(1, 1)
    ]  # fmt: skip
    assert not found.on_chain(CheckpointId(1, 3))
    with pytest.raises(NoProofError, match="epoch 3 has been claimed"):
        found.may_start(2, "guard-b", taken.nonce)


def test_an_orphan_is_listed_and_never_chosen(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    bench.take_over()
    with pytest.raises(FencedError):
        bench.save(tmp_path, 2)  # refused before it writes
    orphan = Bench(store=MemoryStore(), key=bench.key, fleet=bench.fleet)
    orphan.begin()
    orphan.save(tmp_path, 2)
    for key, value in memory(orphan).objects.items():
        if "1.2/" in key:
            memory(bench).objects[key] = value  # as if written just before the look
    taker = bench.taker()
    settle(taker)
    claim = claim_next(taker, bench.proof())
    choice = choose(taker, claim, bench.key, lambda identity: pick(bench, identity))
    assert (choice.checkpoint, choice.orphans) == (CheckpointId(1, 1), (CheckpointId(1, 2),))
    with pytest.raises(NotFoundError, match=r"1\.2 is an orphan"):
        choose(taker, claim, bench.key, lambda identity: pick(bench, identity), wanted=CheckpointId(1, 2))
    with pytest.raises(NotFoundError, match=r"9\.9 is not in the store"):
        choose(taker, claim, bench.key, lambda identity: pick(bench, identity), wanted=CheckpointId(9, 9))


def test_a_damaged_newest_is_passed_over_and_the_extra_loss_told(bench: Bench, tmp_path: Path) -> None:
    for seq in (1, 2, 3):
        bench.save(tmp_path, seq)
    memory(bench).flip(layout.pack(UID, "packs", CheckpointId(1, 3), 0), 30)
    memory(bench).objects.pop(layout.pack(UID, "files", CheckpointId(1, 2), 0))
    taker = bench.taker()
    settle(taker)
    claim = claim_next(taker, bench.proof())
    choice = choose(taker, claim, bench.key, lambda identity: pick(bench, identity))
    assert choice.checkpoint == CheckpointId(1, 1)
    assert choice.extra_loss_s == pytest.approx(120.0)
    assert [identity for identity, _ in choice.skipped] == [CheckpointId(1, 3), CheckpointId(1, 2)]
    assert "packs/1.3/0" in choice.skipped[0][1]
    assert "missing" in choice.skipped[1][1]
    memory(bench).flip(layout.checkpoint(UID, CheckpointId(1, 3)), 30)
    assert choose(taker, claim, bench.key, lambda identity: pick(bench, identity)).extra_loss_s is None


def test_nothing_usable_is_said_not_guessed(bench: Bench) -> None:
    taker = bench.taker()
    settle(taker)
    claim = claim_next(taker, bench.proof())
    with pytest.raises(NotFoundError, match="there is none"):
        choose(taker, claim, bench.key, lambda identity: pick(bench, identity))
    assert write_continues(taker, claim, Choice("cold"), "node-b", "guard-b").kind == "cold"


def test_no_claim_without_proof_for_the_right_process(bench: Bench) -> None:
    taker = bench.taker()
    for proof in (
        FIRST,
        Proof("cloud", 1, "node-b", "guard-a", "aws", AT),
        Proof("cloud", 1, "node-a", "guard-z", "aws", AT),
        Proof("word", 2, "node-a", "guard-a", "ann", AT),
    ):
        with pytest.raises(NoProofError, match="may still run is epoch 1 on node-a"):
            claim_next(taker, proof)
    assert lineage(bench).highest == 1


def test_an_open_epoch_is_made_void_before_the_next_claim(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    slow = bench.taker()
    settle(slow)
    claim = claim_next(slow, bench.proof())
    quick = bench.taker()
    with pytest.raises(FencedError, match="epoch 2 was claimed meanwhile"):
        claim_next(quick, bench.proof())
    assert lineage(bench).continues.get(2) is None
    settle(quick)
    void = lineage(bench).continues[2]
    assert void is not None
    assert void.kind == "void"
    second = claim_next(quick, bench.proof())
    assert second.epoch == 3
    with pytest.raises(FencedError, match="decided by console"):
        write_continues(slow, claim, Choice("checkpoint", CheckpointId(1, 1)), "node-s", "guard-s")
    done = write_continues(quick, second, Choice("checkpoint", CheckpointId(1, 1)), "node-q", "guard-q")
    assert lineage(bench).current() == done
    with pytest.raises(NoProofError, match="void"):
        lineage(bench).may_start(2, "guard-s", slow.nonce)


def test_settle_leaves_the_takers_own_epoch_open(bench: Bench) -> None:
    taker = bench.taker()
    settle(taker)
    claim = claim_next(taker, bench.proof())
    settle(taker)
    assert 2 not in lineage(bench).continues
    assert claim_next(taker, bench.proof()) == claim


def test_a_resumed_takeover_does_not_repeat_and_obeys_the_first_answer(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    taker = bench.taker("mine")
    settle(taker)
    claim = claim_next(taker, bench.proof())
    choice = choose(taker, claim, bench.key, lambda identity: pick(bench, identity))
    first = write_continues(taker, claim, choice, "node-b", "guard-b")
    resumed = bench.taker("mine")
    settle(resumed)
    assert claim_next(resumed, Proof("word", 9, "", "", "", AT)) == claim
    assert write_continues(resumed, claim, choice, "node-c", "guard-c") == first


def test_an_overtaken_taker_is_told(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    taker = bench.taker()
    settle(taker)
    claim = claim_next(taker, bench.proof())
    choice = choose(taker, claim, bench.key, lambda identity: pick(bench, identity))
    bench.take_over("node-x", "guard-x")
    with pytest.raises(FencedError):
        write_continues(taker, claim, choice, "node-b", "guard-b")
    with pytest.raises(FencedError, match="overtaken"):
        claim_next(taker, bench.proof())


@pytest.mark.parametrize("key", ["epochs/2", "epochs/2.continues"])
def test_silence_is_settled_by_the_nonce(bench: Bench, tmp_path: Path, key: str) -> None:
    bench.save(tmp_path, 1)
    memory(bench).script = [Fault("silent_but_done", "create", key)]
    assert bench.take_over().epoch == 2
    memory(bench).script = [Fault("silent", "create", key.replace("2", "3"))]
    assert bench.take_over("node-c", "guard-c").epoch == 3


def test_a_full_store_claims_nothing(bench: Bench) -> None:
    memory(bench).script = [Fault("full", "create", "epochs/2", times=0)]
    with pytest.raises(FullError):
        claim_next(bench.taker(), bench.proof())
    memory(bench).script = []
    assert lineage(bench).highest == 1


def test_planted_objects_block_nobody_and_start_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    forged = FleetKey.new()
    planted = Continues(UID, 2, "checkpoint", "1.1", "evil", "evil", "x", "n", AT)
    memory(bench).create(layout.claim(UID, 2), b"{}")
    memory(bench).create(layout.continues(UID, 2), sign_record(planted, forged))
    memory(bench).create(layout.epochs(UID) + "notes", b"foreign")
    memory(bench).create(layout.claim(UID, 99), b"{}")
    found = lineage(bench)
    assert len(found.problems) == 3
    assert found.newer_claim(1) is None
    with pytest.raises(NoProofError):
        found.may_start(2, "evil", "n")
    taken = bench.take_over()
    assert (taken.epoch, taken.checkpoint) == (3, "1.1")


def test_a_record_of_another_epoch_or_job_is_not_believed(bench: Bench) -> None:
    memory(bench).create(layout.claim(UID, 2), memory(bench).read(layout.claim(UID, 1)))
    found = lineage(bench)
    assert found.claims[2] is None
    assert "it says" in found.problems[0]


def test_a_continues_that_cannot_be_read_needs_the_operators_word(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    bench.take_over()
    bench.save(tmp_path, 1, epoch=2)
    memory(bench).flip(layout.continues(UID, 2), 20)
    found = lineage(bench)
    assert found.doubtful == 2
    assert found.newer_claim(1) is not None
    taker = bench.taker()
    for proof in (
        FIRST,
        Proof("cloud", 1, "node-a", "guard-a", "aws", AT),
        Proof("cloud", 2, "node-b", "guard-b", "aws", AT),
    ):
        with pytest.raises(NoProofError, match="epoch 2 continues from cannot be read"):
            claim_next(taker, proof)
    claim = claim_next(taker, Proof("word", 2, "", "", "ann", AT))
    choice = choose(taker, claim, bench.key, lambda identity: pick(bench, identity))
    assert choice.checkpoint == CheckpointId(2, 1)
    memory(bench).objects.pop(layout.checkpoint(UID, CheckpointId(2, 1)))
    with pytest.raises(NotFoundError):
        choose(taker, claim, bench.key, lambda identity: pick(bench, identity))
    named = choose(taker, claim, bench.key, lambda identity: pick(bench, identity), wanted=CheckpointId(1, 1))
    assert named.checkpoint == CheckpointId(1, 1)


def test_a_damaged_claim_still_fences(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    bench.take_over()
    memory(bench).flip(layout.claim(UID, 2), 20)
    with pytest.raises(FencedError, match="epoch 2 was claimed"):
        bench.save(tmp_path, 2)
    memory(bench).objects.pop(layout.claim(UID, 2))
    with pytest.raises(FencedError):
        bench.save(tmp_path, 2)
    with pytest.raises(DamagedError, match="lost an object"):
        settle(bench.taker())


def test_a_lost_claim_stops_everything(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    bench.take_over()
    bench.take_over("node-c", "guard-c")
    memory(bench).objects.pop(layout.claim(UID, 2))
    for step in (lambda: settle(bench.taker()), lambda: claim_next(bench.taker(), FIRST)):
        with pytest.raises(DamagedError, match="epoch 2 has no claim although epoch 3"):
            step()


def test_a_zombie_is_adopted_only_with_its_own_last_commit(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    assert lineage(bench).adopts("guard-a", 1, CheckpointId(1, 1)) is None
    bench.take_over("node-a", "guard-a")
    found = lineage(bench)
    assert found.adopts("guard-a", 1, CheckpointId(1, 1)) is not None
    assert found.adopts("guard-a", 1, CheckpointId(1, 2)) is None
    assert found.adopts("guard-b", 1, CheckpointId(1, 1)) is None
    assert found.adopts("guard-a", 1, None) is None
    taker = bench.taker()
    claim_next(taker, bench.proof())
    assert lineage(bench).adopts("guard-a", 1, CheckpointId(1, 1)) is None


def test_removal_writes_a_tombstone_and_nothing_else(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    before = set(memory(bench).objects)
    remove(bench.taker(), "job")
    assert set(memory(bench).objects) - before == {layout.removed(UID)}
    remove(bench.taker(), "job")


def test_a_read_that_failed_once_does_not_cost_a_checkpoint(bench: Bench, tmp_path: Path) -> None:
    for seq in (1, 2):
        bench.save(tmp_path, seq)
    taker = bench.taker()
    settle(taker)
    claim = claim_next(taker, bench.proof())
    looks: list[CheckpointId] = []

    def verify(identity: CheckpointId) -> Manifest:
        looks.append(identity)
        if len(looks) == 1:
            raise DamagedError("the disk answered once with an error")
        return verify_checkpoint(bench.store, UID, identity, bench.key, bench.clock).manifest

    choice = choose(taker, claim, bench.key, verify)
    assert choice.checkpoint == CheckpointId(1, 2)
    assert choice.skipped == ()
    assert looks == [CheckpointId(1, 2)] * 2


def test_a_save_whose_packs_a_newer_epoch_has_retired_says_that_it_is_behind(
    bench: Bench, tmp_path: Path
) -> None:
    class Overtaken(MemoryStore):
        """The newer epoch comes, and its retention takes the packs, right after the manifest is written."""

        def create(self, key: str, data: bytes | Iterable[bytes]) -> int:
            size = super().create(key, data)
            if key == layout.checkpoint(UID, CheckpointId(1, 2)):
                bench.take_over()
                for info in self.list(f"{layout.job(UID)}/packs/1.2/"):
                    self.delete(info.key)
            return size

    bench.save(tmp_path, 1)
    store = Overtaken()
    for info in bench.store.list(""):
        store.create(info.key, bench.store.read(info.key))
    bench.store = store
    with pytest.raises(FencedError):
        bench.save(tmp_path, 2)
