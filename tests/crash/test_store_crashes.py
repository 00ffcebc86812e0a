"""Every file operation of a full cycle × every fault: what was reported is never lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from backends.fakes.fileops import FAULTS, FaultKind, SimulatedOps
from backends.ids import CheckpointId
from backends.records.strict import loads
from backends.store import layout, retention, takeover
from backends.store.commit import Committer
from backends.store.format.manifests import Listing, list_job
from backends.store.port import ObjectStore
from tests.support.crashes import CHANGING, Outcome, World, cycle, fingerprint, judge, prepared
from tests.support.store import UID, Bench


class Judge:
    """Judges each different outcome once and counts."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.counts: Counter[str] = Counter()

    def __call__(self, world: World, files: SimulatedOps) -> None:
        self.counts["outcomes"] += 1
        mark = fingerprint(world, files)
        if mark not in self.seen:
            self.seen.add(mark)
            self.counts += judge(world.copy(), files)

    def shown(self) -> str:
        """How often each invariant was looked at."""
        return ", ".join(f"{name} {self.counts[name]}" for name in ("I1", "I2", "I3", "I4", "I5", "I9"))


def points(calls: list[str], kind: FaultKind) -> list[int]:
    """Where the fault may strike: a crash only at operations that change something, errors at every one."""
    return [
        number
        for number, call in enumerate(calls, 1)
        if not kind.startswith("crash") or call.partition(" ")[0] in CHANGING
    ]


def run_all(
    directory: Path, kind: FaultKind, cuts: int, every: int = 1, *, first: int = 0, for_good: bool = False
) -> tuple[int, Judge]:
    """The fault at every point; after a crash, the killed process's files and those of power cuts."""
    base, files = prepared(directory)
    calls = cycle(base, files, 0, kind).calls
    places = points(calls, kind)[first::every]
    judged = Judge()
    for place in places:
        outcome = cycle(base, files, place, kind, for_good=for_good)
        assert outcome.crashed == kind.startswith("crash")
        judged(outcome.world, outcome.files.copy())
        for after in outcome.files.survivals(cuts, seed=place):
            judged(outcome.world, after)
    return len(places), judged


def judge_all(outcomes: list[Outcome]) -> None:
    """One after the other."""
    for outcome in outcomes:
        judge(outcome.world, outcome.files.copy())


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
def test_no_fault_at_any_operation_loses_what_was_reported(
    kind: FaultKind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Errors strike at every other point, EIO where ENOSPC does not; `prove` strikes at each with each.
    every = {"EDQUOT": 6, "ENOSPC": 2, "EIO": 2, "timed_out_but_done": 3}.get(kind, 1)
    cuts = 6 if kind.startswith("crash") else 1
    found, judged = run_all(tmp_path, kind, cuts=cuts, every=every, first=int(kind == "EIO"))
    with capsys.disabled():
        print(
            f"\ncrash points, {kind}: {found}, outcomes {judged.counts['outcomes']}, different {len(judged.seen)}; "
            f"0 violations, looked at: {judged.shown()}"
        )
    assert found >= 40
    assert all(judged.counts[name] for name in ("I1", "I2", "I3", "I4", "I5"))
    assert kind.startswith("crash") or judged.counts["I9"] > found


@pytest.mark.prove
@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("for_good", [False, True])
def test_no_fault_with_many_power_cuts(kind: FaultKind, for_good: bool, tmp_path: Path) -> None:
    found, judged = run_all(tmp_path, kind, cuts=200, for_good=for_good)
    assert judged.counts["outcomes"] > found


@pytest.mark.parametrize("kind", ["ENOSPC", "EIO"])
def test_a_fault_that_stays_loses_nothing(kind: FaultKind, tmp_path: Path) -> None:
    found, judged = run_all(tmp_path, kind, cuts=2, every=3, for_good=True)
    assert judged.counts["outcomes"] > found


@pytest.mark.parametrize("bug", ["sync_dir", "sync"])
def test_a_missing_sync_is_found(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedOps, bug, lambda self, path: None)
    with pytest.raises(AssertionError):
        run_all(tmp_path, "crash_after", cuts=6)


def test_reporting_before_the_manifest_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = World.save

    def eager(world: World, bench: Bench, epoch: int, seq: int) -> None:
        world.reported.append(CheckpointId(epoch, seq))
        real(world, bench, epoch, seq)

    base, files = prepared(tmp_path)
    monkeypatch.setattr(World, "save", eager)
    outcomes = [cycle(base, files, place, "crash_before") for place in range(1, 40)]
    with pytest.raises(AssertionError):
        judge_all(outcomes)


def test_trusting_the_pointer_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = list_job

    def pointed(store: ObjectStore, uid: str) -> Listing:
        hint = CheckpointId.parse(loads(store.read(layout.latest(uid)), what="latest")["checkpoint"])
        found = real(store, uid)
        return Listing(
            uid, {identity: info for identity, info in found.manifests.items() if identity == hint}
        )

    base, files = prepared(tmp_path)
    calls = cycle(base, files, 0, "ENOSPC").calls
    place = next(number for number, call in enumerate(calls, 1) if call == f"rename {layout.latest(UID)}")
    judge_all([cycle(base, files, place, "ENOSPC")])
    monkeypatch.setattr(takeover, "list_job", pointed)
    with pytest.raises(AssertionError):
        judge_all([cycle(base, files, place, "ENOSPC")])


def test_a_commit_without_a_look_at_the_epoch_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, files = prepared(tmp_path)
    judge_all([cycle(base, files, 0, "EIO")])
    monkeypatch.setattr(Committer, "_check_fence", lambda self, identity: ())
    with pytest.raises(AssertionError, match=r"off the chain: \[.*seq=4"):
        judge_all([cycle(base, files, 0, "EIO")])


def test_deleting_the_old_before_the_new_is_committed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = World.save

    def hasty(world: World, bench: Bench, epoch: int, seq: int) -> None:
        for identity in list_job(bench.store, UID).checkpoints:
            bench.store.delete(layout.checkpoint(UID, identity))
        real(world, bench, epoch, seq)

    base, files = prepared(tmp_path)
    monkeypatch.setattr(World, "save", hasty)
    with pytest.raises(AssertionError, match=r"was reported|were reported"):
        judge_all([cycle(base, files, place, "crash_before") for place in range(5, 60, 6)])


def test_retention_without_its_rules_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MIN_VERIFIED", 0)
    monkeypatch.setattr(retention, "keepers", lambda chain, known, policy: {})
    monkeypatch.setattr(retention, "head", lambda listing: CheckpointId(9, 9))
    monkeypatch.setattr(retention, "refusal", lambda found, lineage, known: None)
    with pytest.raises(AssertionError):
        run_all(tmp_path, "crash_before", cuts=2)
