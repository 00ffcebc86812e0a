"""What may go, what never goes, and that the dry run is the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import FullError, UsageError
from backends.fakes.store import Fault, MemoryStore
from backends.ids import CheckpointId
from backends.records.lineage import Claim, Continues
from backends.records.strict import canonical, loads
from backends.store import layout, retention
from backends.store.format.manifests import Listing, list_job
from backends.store.lineage import Lineage
from backends.store.port import ObjectInfo
from backends.store.retention import Known, Plan, Policy, look, make_plan, plan, run
from backends.store.takeover import FIRST, claim_next, settle
from tests.support.store import UID, Bench

AT = "2027-01-15T08:00:00.000Z"
DAY = 86400.0


@pytest.fixture
def bench() -> Bench:
    found = Bench()
    found.begin()
    return found


def memory(bench: Bench) -> MemoryStore:
    assert isinstance(bench.store, MemoryStore)
    return bench.store


def decide(
    bench: Bench, keep_last: int = 1, min_age_s: float = 0.0, pinned: tuple[CheckpointId, ...] = ()
) -> Plan:
    policy = Policy(keep_last, min_age_s, frozenset(pinned))
    return make_plan(bench.store, UID, bench.key, bench.fleet.verify_key, policy, bench.clock)


def fill(bench: Bench, directory: Path, count: int, *, verified: bool = True) -> None:
    for seq in range(1, count + 1):
        memory(bench).now = bench.clock.now
        bench.save(directory, seq)
        if verified:
            bench.verified(CheckpointId(1, seq))
        bench.clock.sleep(600)


def ids(*seqs: int) -> tuple[CheckpointId, ...]:
    return tuple(CheckpointId(1, seq) for seq in seqs)


def test_old_ones_go_manifest_first_and_the_run_is_the_plan(bench: Bench, tmp_path: Path) -> None:
    fill(bench, tmp_path, 5)
    decided = decide(bench, keep_last=2)
    assert decided.removed == ids(3, 2, 1)
    assert decided.keys[0].endswith("checkpoints/1.3/manifest.json")
    assert decided.keys[1].endswith("checkpoints/1.3/verified")
    assert all("packs/" in key or "files/" in key for key in decided.keys[2:5])
    assert decided.freed_bytes == sum(len(memory(bench).objects[key][0]) for key in decided.keys)
    before = set(memory(bench).objects)
    calls = len(memory(bench).calls)
    assert run(bench.store, decided, bench.clock) == decided.keys
    assert [key for op, key in memory(bench).calls[calls:] if op == "delete"] == list(decided.keys)
    assert before - set(memory(bench).objects) == set(decided.keys)
    assert list_job(bench.store, UID).checkpoints == list(ids(4, 5))
    assert decide(bench, keep_last=2).keys == ()


def test_two_verified_stay_whatever_the_policy(bench: Bench, tmp_path: Path) -> None:
    fill(bench, tmp_path, 4)
    assert decide(bench, keep_last=1).removed == ids(2, 1)


def test_unverified_saves_push_nothing_out(bench: Bench, tmp_path: Path) -> None:
    fill(bench, tmp_path, 2)
    for seq in range(3, 9):
        bench.save(tmp_path, seq)
    decided = decide(bench, keep_last=1)
    assert decided.removed == ()
    assert {kept.checkpoint for kept in decided.kept} >= set(ids(1, 2))


def test_without_verification_nothing_goes(bench: Bench, tmp_path: Path) -> None:
    fill(bench, tmp_path, 4, verified=False)
    assert decide(bench).removed == ()


def test_a_verified_record_not_signed_by_the_fleet_counts_for_nothing(bench: Bench, tmp_path: Path) -> None:
    fill(bench, tmp_path, 4, verified=False)
    forger = Bench(store=bench.store, key=bench.key)
    for seq in range(1, 5):
        forger.verified(CheckpointId(1, seq))
    assert decide(bench).removed == ()


def test_young_pinned_and_future_ones_stay(bench: Bench, tmp_path: Path) -> None:
    fill(bench, tmp_path, 5)
    assert decide(bench, min_age_s=DAY).removed == ()
    assert decide(bench, min_age_s=2000.0).removed == ids(2, 1)
    assert decide(bench, pinned=ids(1)).removed == ids(3, 2)
    for key in [k for k in memory(bench).objects if "1.2/" in k]:
        memory(bench).objects[key] = (memory(bench).objects[key][0], bench.clock.now + 7200)
    assert decide(bench).removed == ids(3, 1)


def test_what_is_not_understood_stays_and_newer_formats_stop_it_all(bench: Bench, tmp_path: Path) -> None:
    fill(bench, tmp_path, 5)
    memory(bench).flip(layout.checkpoint(UID, CheckpointId(1, 2)), 40)
    foreign = [f"jobs/{UID}/README.txt", f"jobs/{UID}/checkpoints/9/manifest.json", f"jobs/{UID}/packs/x/0"]
    for key in foreign:
        memory(bench).create(key, b"?")
    decided = decide(bench)
    assert decided.removed == ids(3)  # 1.2 cannot be read, and 1.1 may be what it refers to
    assert decided.foreign == 2
    assert not any("1.2/" in key for key in decided.keys)
    run(bench.store, decided, bench.clock)
    assert set(foreign) <= set(memory(bench).objects)
    newer = loads(memory(bench).read(layout.checkpoint(UID, CheckpointId(1, 4))), what="m") | {"format": 2}
    memory(bench).objects[layout.checkpoint(UID, CheckpointId(1, 4))] = (canonical(newer), 0.0)
    stopped = decide(bench)
    assert stopped.keys == ()
    assert stopped.refused is not None
    assert "newer version" in stopped.refused


def test_leftovers_go_only_when_older_than_the_head_and_old(bench: Bench, tmp_path: Path) -> None:
    fill(bench, tmp_path, 2)
    memory(bench).script = [Fault("full", "create", "manifest.json", times=0)]
    for seq in (3, 5):
        with pytest.raises(FullError):
            bench.save(tmp_path, seq)
    memory(bench).script = []
    memory(bench).now = bench.clock.now
    bench.save(tmp_path, 4)
    bench.clock.sleep(3600)
    decided = decide(bench, min_age_s=1800.0)
    assert decided.removed == ids(3)
    assert all("/1.3/" in key for key in decided.keys)
    assert decide(bench, min_age_s=3 * DAY).removed == ()


def test_a_takeover_under_way_stops_it(bench: Bench, tmp_path: Path) -> None:
    from backends.store.takeover import Choice, claim_next, settle, write_continues

    fill(bench, tmp_path, 4)
    taker = bench.taker()
    settle(taker)
    claim = claim_next(taker, bench.proof())
    decided = decide(bench)
    assert decided.keys == ()
    assert decided.refused is not None
    assert "takeover may be choosing" in decided.refused
    write_continues(taker, claim, Choice("checkpoint", CheckpointId(1, 4)), "b", "g")
    assert decide(bench).removed == ids(2, 1)


def test_a_takeover_from_an_older_one_stops_it_until_its_own_save(bench: Bench, tmp_path: Path) -> None:
    from backends.store.takeover import Choice, claim_next, settle, write_continues

    fill(bench, tmp_path, 5)
    taker = bench.taker()
    settle(taker)
    claim = claim_next(taker, bench.proof())
    write_continues(taker, claim, Choice("checkpoint", CheckpointId(1, 3)), "b", "g")
    assert decide(bench).keys == ()
    bench.save(tmp_path, 1, epoch=2)
    bench.verified(CheckpointId(2, 1))
    bench.clock.sleep(10)
    decided = decide(bench)
    assert decided.removed == ids(5, 4, 2, 1)  # 1.4 and 1.5 are orphans; 1.3 is the second newest verified
    assert decided.head == CheckpointId(2, 1)


def test_a_crash_half_way_is_finished_by_the_next_run(bench: Bench, tmp_path: Path) -> None:
    fill(bench, tmp_path, 5)
    decided = decide(bench)
    for key in decided.keys[:2]:
        bench.store.delete(key)
    again = decide(bench)
    assert set(again.keys) == set(decided.keys[2:])
    run(bench.store, again, bench.clock)
    assert decide(bench).keys == ()
    assert list_job(bench.store, UID).incomplete == []


def test_a_plan_never_leaves_its_jobs_prefix(bench: Bench) -> None:
    with pytest.raises(UsageError, match="outside"):
        run(bench.store, Plan(UID, None, keys=("jobs/zzzzzzzzzzzzzzzzzzzz/packs/1.1/0",)), bench.clock)


def test_an_empty_policy_is_refused() -> None:
    for arguments in ((0, 1.0), (1, -1.0), (1, float("nan"))):
        with pytest.raises(UsageError):
            Policy(*arguments)


def _info(identity: CheckpointId, name: str = "manifest.json") -> ObjectInfo:
    return ObjectInfo(layout.checkpoint(UID, identity, name), 1, 0.0)


@given(st.data())
def test_whatever_is_listed_the_rules_hold(data: st.DataObject) -> None:
    epochs = data.draw(st.integers(1, 3))
    conts: dict[int, Continues | None] = {1: Continues(UID, 1, "genesis", None, "a", "g", "c", "n", AT)}
    for epoch in range(2, epochs + 1):
        start = data.draw(st.sampled_from([f"{epoch - 1}.1", f"{epoch - 1}.2", "1.1", None, "void"]))
        if start == "void":
            conts[epoch] = Continues(UID, epoch, "void", None, None, None, "c", "n", AT)
        elif start is not None:
            conts[epoch] = Continues(UID, epoch, "checkpoint", start, "a", "g", "c", "n", AT)
    lineage = Lineage(UID, {n: Claim(UID, n, "c", "n", AT, FIRST) for n in range(1, epochs + 1)}, conts)
    every = [CheckpointId(e, s) for e in range(1, epochs + 1) for s in (1, 2, 3)]
    listed = data.draw(st.sets(st.sampled_from(every)))
    known = {
        identity: Known(
            data.draw(st.booleans()),
            data.draw(st.booleans()),
            data.draw(st.sampled_from([None, *[other for other in every if other < identity]])),
        )
        for identity in listed
    }
    policy = Policy(data.draw(st.integers(1, 3)), 0.0)
    decided = plan(
        Listing(UID, {identity: _info(identity) for identity in listed}), known, lineage, policy, 10.0
    )
    gone = set(decided.removed)
    chain = lineage.chain(listed)
    good = [identity for identity in chain if known[identity].verified and known[identity].understood]
    assert not gone & set(good[:2])
    assert not gone & set(chain[: policy.keep_last])
    assert all(known[identity].understood for identity in gone)
    for identity in listed - gone:
        assert known[identity].parent not in gone
    if listed:
        assert max(listed) not in gone
    if gone:
        top = max(listed)
        latest = conts.get(epochs)
        assert top.epoch == epochs or (latest is not None and latest.from_checkpoint == top)
        assert len(good) >= 2 or not gone & set(chain)


def test_what_was_shown_is_what_goes_and_nothing_else(bench: Bench, tmp_path: Path) -> None:
    fill(bench, tmp_path, 4)
    policy = Policy(2, 0.0)

    def plan_of(shown: tuple[CheckpointId, ...] | None) -> Plan:
        return make_plan(bench.store, UID, bench.key, bench.fleet.verify_key, policy, bench.clock, shown)

    shown = plan_of(None).removed
    assert shown == ids(2, 1)
    fill_more = CheckpointId(1, 5)
    bench.save(tmp_path, 5)
    bench.verified(fill_more)  # 1.3 may go too now, but nobody was shown that
    assert plan_of(None).removed == ids(3, 2, 1)
    assert plan_of(shown).removed == shown
    assert plan_of(ids(1)).removed == ids(1)


def test_what_was_shown_and_may_not_go_any_more_stops_the_run(bench: Bench, tmp_path: Path) -> None:
    fill(bench, tmp_path, 4)
    shown = decide(bench, keep_last=2).removed
    taker = bench.taker()
    settle(taker)
    claim_next(taker, bench.proof())  # meanwhile somebody claims the job and may be choosing
    policy = Policy(2, 0.0)
    with pytest.raises(UsageError, match="may not go any more"):
        make_plan(bench.store, UID, bench.key, bench.fleet.verify_key, policy, bench.clock, shown)
    assert list_job(bench.store, UID).checkpoints == list(ids(1, 2, 3, 4))


def test_a_claim_made_after_the_listing_is_seen(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claims are read last: a taker that claims while manifests are opened may be choosing any of them."""
    for seq in range(1, 6):
        bench.save(tmp_path, seq)
        bench.verified(CheckpointId(1, seq))

    def look_and_claim(*arguments: Any) -> Any:
        found = look(*arguments)
        taker = bench.taker()
        settle(taker)
        claim_next(taker, bench.proof())
        return found

    policy = Policy(1, 0.0)
    before = make_plan(bench.store, UID, bench.key, bench.fleet.verify_key, policy, bench.clock)
    assert before.refused is None
    assert before.keys
    monkeypatch.setattr(retention, "look", look_and_claim)
    decided = make_plan(bench.store, UID, bench.key, bench.fleet.verify_key, policy, bench.clock)
    assert decided.refused is not None
    assert "a takeover may be choosing" in decided.refused
    assert decided.keys == ()
