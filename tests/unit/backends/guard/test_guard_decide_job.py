"""The state machine of a job: tables of what must happen, and properties over random histories."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.guard.decide.interval import interval, kept_usd_per_day
from backends.guard.decide.job import ENDED, step
from backends.guard.decide.model import (
    Asked,
    Costs,
    Decision,
    Durable,
    Freeze,
    Gone,
    JobEvent,
    Mind,
    Notice,
    NoticeIs,
    Policy,
    PolicyIs,
    Rate,
    Recovered,
    Rehearsed,
    Report,
    SaveDone,
    SaveFailed,
    Standing,
    StartSave,
    Stopped,
    Thaw,
    Tick,
    Word,
)
from backends.guard.decide.show import at_risk_s, next_save_in_s, state_word
from backends.store.prices import StorePrice


def durable(frozen_at: float, checkpoint: str = "1.1", freeze_s: float = 0.5) -> Durable:
    return Durable(checkpoint, frozen_at, 1e9 + frozen_at, freeze_s, 1000, 2.0)


def mind(**changes: object) -> Mind:
    base = Mind(epoch=1, began_at=100.0, contact_at=100.0, policy=Policy(interval_s=60.0))
    return replace(base, **changes)  # type: ignore[arg-type]  # fields are named by each test


SAVED = mind(
    durable=durable(200.0), costs=Costs(0.5, 2.0, 3.0, None), contact_at=9e9, notice=Notice(), rehearsed=True
)


def saves(decisions: tuple[Decision, ...]) -> list[str]:
    return [decision.reason for decision in decisions if isinstance(decision, StartSave)]


def kinds(decisions: tuple[Decision, ...]) -> list[str]:
    return [decision.kind for decision in decisions if isinstance(decision, Report)]


def test_the_trial_starts_at_once_and_only_once() -> None:
    after, decisions = step(mind(), Tick(), 100.0)
    assert saves(decisions) == ["trial"]
    assert state_word(after, 100.0) == "trial"
    _, again = step(after, Tick(), 101.0)
    assert saves(again) == []


def test_the_interval_counts_from_the_freeze_instant() -> None:
    assert saves(step(SAVED, Tick(), 259.9)[1]) == []
    assert saves(step(SAVED, Tick(), 260.0)[1]) == ["interval"]


def test_single_flight_with_requests() -> None:
    busy, _ = step(SAVED, Tick(), 260.0)
    asked, decisions = step(busy, Asked(), 261.0)
    assert saves(decisions) == []
    done, decisions = step(asked, SaveDone(durable(260.0, "1.2"), 3.0), 263.0)
    assert saves(decisions) == ["asked"]
    assert done.saving_since == 263.0


def test_a_failed_save_is_tried_again_later_and_the_older_one_stands() -> None:
    busy, _ = step(SAVED, Tick(), 260.0)
    failed, decisions = step(busy, SaveFailed("the store is full", engine=False), 262.0)
    assert kinds(decisions) == ["save.failed"]
    assert failed.durable == SAVED.durable
    assert saves(step(failed, Tick(), 266.9)[1]) == []
    assert saves(step(failed, Tick(), 267.0)[1]) == ["interval"]


def test_an_overtaken_save_is_not_said_to_leave_the_job_running() -> None:
    busy, _ = step(SAVED, Tick(), 260.0)
    _, decisions = step(
        busy, SaveFailed("checkpoint 1.2 counts all the same", engine=False, behind=True), 262.0
    )
    told = [decision.text for decision in decisions if isinstance(decision, Report)]
    assert told == ["a save was not reported: checkpoint 1.2 counts all the same"]


def test_retries_back_off_up_to_the_interval() -> None:
    now, current, waits = 260.0, SAVED, []
    for _ in range(8):
        current, decisions = step(current, Tick(), now)
        assert saves(decisions) == ["interval"]
        current, _ = step(current, SaveFailed("full", engine=False), now)
        assert current.retry_at is not None
        waits.append(current.retry_at - now)
        now = current.retry_at
    assert waits == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 60.0]


def test_an_engine_that_fails_the_trial_is_not_asked_again_by_itself() -> None:
    busy, _ = step(mind(), Tick(), 100.0)
    failed, _ = step(busy, SaveFailed("io_uring", engine=True), 101.0)
    assert saves(step(failed, Tick(), 5000.0)[1]) == []
    assert next_save_in_s(failed, 5000.0) is None
    assert saves(step(failed, Asked(), 5001.0)[1]) == ["asked"]


def test_a_store_that_fails_the_trial_is_asked_again() -> None:
    busy, _ = step(mind(), Tick(), 100.0)
    failed, _ = step(busy, SaveFailed("full", engine=False), 101.0)
    assert saves(step(failed, Tick(), 107.0)[1]) == ["trial"]


def test_overdue_is_said_once_and_only_after_its_grace() -> None:
    busy, _ = step(SAVED, Tick(), 260.0)
    late, decisions = step(busy, Tick(), 276.0)
    assert kinds(decisions) == ["save.overdue"]
    assert state_word(late, 276.0) == "overdue"
    assert kinds(step(late, Tick(), 277.0)[1]) == []
    done, _ = step(late, SaveDone(durable(260.0, "1.2"), 20.0), 280.0)
    assert state_word(done, 280.0) == "protected"


def test_states_until_protected() -> None:
    assert state_word(replace(SAVED, rehearsed=False), 210.0) == "unrehearsed"
    after, _ = step(replace(SAVED, rehearsed=False), Rehearsed(), 210.0)
    assert state_word(after, 210.0) == "protected"


def test_paused_jobs_save_only_when_asked() -> None:
    paused, decisions = step(SAVED, PolicyIs(Policy(interval_s=60.0, paused=True)), 300.0)
    assert saves(decisions) == []
    assert state_word(paused, 300.0) == "paused"
    assert saves(step(paused, Tick(), 900.0)[1]) == []
    assert saves(step(paused, Asked(), 900.0)[1]) == ["asked"]


# Notices


def noticed(deadline: float, serial: int = 1) -> NoticeIs:
    return NoticeIs(Notice("notice", deadline, serial))


def test_one_final_save_when_it_fits() -> None:
    after, decisions = step(SAVED, noticed(330.0), 210.0)
    assert saves(decisions) == ["final"]
    done, decisions = step(after, SaveDone(durable(210.0, "1.2"), 3.0), 213.0)
    assert saves(decisions) == []
    _, decisions = step(done, noticed(331.0), 214.0)  # the same reclaim told again
    assert saves(decisions) == []


@pytest.mark.parametrize(
    ("save_s", "window_s", "fits"), [(84.0, 120.0, True), (84.1, 120.0, False), (45.0, 39.0, False)]
)
def test_final_save_against_seven_tenths_of_the_window(save_s: float, window_s: float, fits: bool) -> None:
    ready = replace(SAVED, costs=Costs(0.5, 2.0, save_s))
    _, decisions = step(ready, noticed(210.0 + window_s), 210.0)
    assert (saves(decisions) == ["final"]) == fits
    assert ("notice.no_final_save" in kinds(decisions)) == (not fits)


def test_a_window_that_is_over_leaves_the_last_save_alone() -> None:
    _, decisions = step(SAVED, noticed(210.0), 210.0)
    assert saves(decisions) == []
    assert kinds(decisions) == ["notice.no_final_save"]
    unsaved, _ = step(mind(trial_refused=True), noticed(100.0), 100.0)
    assert unsaved.saving_since is None


def test_a_save_under_way_is_let_run() -> None:
    busy, _ = step(SAVED, Tick(), 260.0)
    after, decisions = step(busy, noticed(380.0), 261.0)
    assert saves(decisions) == []
    assert kinds(decisions) == ["notice.save_under_way"]
    _, decisions = step(after, SaveDone(durable(260.0, "1.2"), 3.0), 263.0)
    assert saves(decisions) == []


def test_interval_saves_go_on_under_a_notice_while_they_fit() -> None:
    after, _ = step(SAVED, noticed(500.0), 210.0)
    after, _ = step(after, SaveDone(durable(210.0, "1.2"), 3.0), 213.0)
    assert saves(step(after, Tick(), 270.0)[1]) == ["interval"]
    late, _ = step(replace(after, notice=Notice("notice", 272.0, 1)), Tick(), 270.0)
    assert late.saving_since is None


def test_a_withdrawn_notice_returns_the_job_to_normal() -> None:
    after, _ = step(SAVED, noticed(330.0), 210.0)
    assert state_word(after, 211.0) == "noticed"
    after, _ = step(after, SaveDone(durable(210.0, "1.2"), 3.0), 213.0)
    after, _ = step(after, NoticeIs(Notice("none", serial=1)), 400.0)
    assert state_word(replace(after, durable=durable(399.0)), 400.0) == "protected"


def test_a_hint_only_brings_the_next_save_forward() -> None:
    hinted, decisions = step(SAVED, NoticeIs(Notice("hint")), 210.0)
    assert saves(decisions) == []
    assert saves(step(hinted, Tick(), 229.9)[1]) == []
    assert saves(step(hinted, Tick(), 230.0)[1]) == ["interval"]


# Lineage


def test_a_newer_claim_freezes_and_nothing_is_saved_any_more() -> None:
    zombie, decisions = step(SAVED, Standing(210.0, newest=2), 210.0)
    assert Freeze("zombie") in decisions
    assert state_word(zombie, 210.0) == "zombie"
    assert saves(step(zombie, Tick(), 999.0)[1]) == []
    _, again = step(zombie, Standing(215.0, newest=2), 215.0)
    assert again == ()


def test_the_operators_word_thaws_but_never_protects() -> None:
    zombie, _ = step(SAVED, Standing(210.0, newest=2), 210.0)
    thawed, decisions = step(zombie, Word(), 220.0)
    assert any(isinstance(decision, Thaw) for decision in decisions)
    assert state_word(thawed, 220.0) == "unprotected"
    _, decisions = step(thawed, Standing(225.0, newest=2), 225.0)
    assert decisions == ()
    _, decisions = step(thawed, Standing(230.0, newest=3), 230.0)
    assert Freeze("zombie") in decisions


def test_a_newer_epoch_that_names_us_and_our_commit_goes_on() -> None:
    zombie, _ = step(SAVED, Standing(210.0, newest=2), 210.0)
    back, decisions = step(zombie, Standing(215.0, newest=3, returned=True), 215.0)
    assert [type(decision) for decision in decisions] == [Thaw, Report]
    assert (back.epoch, back.frozen, back.behind) == (3, None, None)
    never_frozen, decisions = step(SAVED, Standing(210.0, newest=2, returned=True), 210.0)
    assert not [d for d in decisions if isinstance(d, (Freeze, Thaw))]
    assert never_frozen.epoch == 2


def test_invalid_claims_alarm_once_and_freeze_nothing() -> None:
    after, decisions = step(SAVED, Standing(210.0, newest=1, invalid=((2, "bad signature"),)), 210.0)
    assert kinds(decisions) == ["lineage.invalid_claim"]
    assert after.frozen is None
    _, decisions = step(after, Standing(215.0, newest=1, invalid=((2, "bad signature"),)), 215.0)
    assert decisions == ()


def test_more_than_three_zombie_freezes_in_ten_minutes_are_a_storm() -> None:
    current, storms = SAVED, []
    for count in range(5):
        now = 210.0 + 10 * count
        current, decisions = step(current, Standing(now, newest=2 + count), now)
        storms.append("job.zombie_storm" in kinds(decisions))
        current, _ = step(current, Word(), now + 1)
    assert storms == [False, False, False, True, True]


def test_a_late_save_of_a_zombie_that_was_committed_before_the_claim_counts() -> None:
    busy, _ = step(SAVED, Tick(), 260.0)
    zombie, _ = step(busy, Standing(261.0, newest=2), 261.0)
    after, decisions = step(zombie, SaveDone(durable(260.0, "1.2"), 3.0), 262.0)
    assert after.durable is not None
    assert after.durable.checkpoint == "1.2"
    assert saves(decisions) == []


# Isolation


ISOLATED = replace(
    SAVED, contact_at=200.0, policy=Policy(interval_s=60.0, on_isolated="freeze", lease_s=90.0)
)


def test_isolation_freezes_after_the_lease_and_contact_thaws() -> None:
    busy, decisions = step(ISOLATED, Tick(), 290.0)
    assert not [d for d in decisions if isinstance(d, Freeze)]
    frozen, decisions = step(busy, Tick(), 290.5)
    assert Freeze("isolated") in decisions
    assert state_word(frozen, 291.0) == "isolated"
    back, decisions = step(frozen, Standing(300.0, newest=1), 300.5)
    assert any(isinstance(decision, Thaw) for decision in decisions)
    assert back.frozen is None


def test_isolated_and_behind_becomes_a_zombie_without_running() -> None:
    frozen, _ = step(ISOLATED, Tick(), 290.5)
    zombie, decisions = step(frozen, Standing(300.0, newest=2), 300.5)
    assert not [d for d in decisions if isinstance(d, Thaw)]
    assert zombie.frozen == "zombie"


def test_contact_thaws_an_isolated_job_that_runs_by_the_operators_word() -> None:
    zombie, _ = step(ISOLATED, Standing(210.0, newest=2), 210.0)
    running, _ = step(zombie, Word(), 220.0)
    frozen, _ = step(running, Tick(), 400.0)
    assert frozen.frozen == "isolated"
    back, decisions = step(frozen, Standing(401.0, newest=2), 401.5)
    assert any(isinstance(decision, Thaw) for decision in decisions)
    assert state_word(back, 402.0) == "unprotected"


def test_our_own_epoch_is_nothing_to_return_to() -> None:
    after, decisions = step(SAVED, Standing(210.0, newest=1, returned=True), 210.0)
    assert decisions == ()
    assert after.epoch == 1


def test_auto_says_which_interval_it_chose_when_that_changes() -> None:
    auto = replace(SAVED, policy=Policy(), costs=Costs())
    told, decisions = step(auto, Tick(), 210.0)
    assert kinds(decisions) == ["interval.chosen"]
    assert kinds(step(told, Tick(), 211.0)[1]) == []
    _, decisions = step(told, PolicyIs(Policy(rate=Rate(5.0))), 212.0)
    assert kinds(decisions) == []
    measured = replace(told, costs=Costs(0.5, 2.0, 3.0))
    _, decisions = step(measured, PolicyIs(Policy(rate=Rate(5.0))), 212.0)
    assert kinds(decisions) == ["interval.chosen"]


def test_contact_counts_from_the_start_of_the_call() -> None:
    after, _ = step(ISOLATED, Standing(250.0, newest=1), 280.0)
    assert after.contact_at == 250.0


def test_by_default_silence_stops_nothing_and_is_said_once() -> None:
    silent, decisions = step(replace(SAVED, contact_at=200.0), Tick(), 261.0)
    assert "store.silent" in kinds(decisions)
    assert silent.frozen is None
    assert "store.silent" not in kinds(step(silent, Tick(), 262.0)[1])


# Endings


@pytest.mark.parametrize(
    ("event", "notice", "state"),
    [
        (Gone(done=True), Notice(), "finished"),
        (Gone(done=True, exit_code=0), Notice("notice", 300.0, 1), "finished"),
        (Gone(done=False), Notice(), "ended_unknown"),
        (Gone(done=False, exit_code=1), Notice(), "failed"),
        (Gone(done=False, exit_code=143), Notice("notice", 300.0, 1), "ended_unknown"),
        (Gone(done=False, exit_code=-15, shutdown=True), Notice(), "ended_unknown"),
        (Gone(done=True, exit_code=0, ruled=False), Notice(), "finished"),
        (Gone(done=True, exit_code=0, ruled=False), Notice("notice", 300.0, 1), "ended_unknown"),
        (Gone(done=True, exit_code=0, ruled=False, shutdown=True), Notice(), "ended_unknown"),
        (Stopped(), Notice(), "stopped"),
    ],
)
def test_endings(event: JobEvent, notice: Notice, state: str) -> None:
    after, decisions = step(replace(SAVED, notice=notice, notice_handled=1), event, 210.0)
    assert state_word(after, 210.0) == state
    assert kinds(decisions) == [f"job.{state}"]
    assert after.reclaimed == (state == "ended_unknown" and event != Gone(done=False))
    assert step(after, Tick(), 900.0)[1] == ()
    assert at_risk_s(after, 900.0) is None


def test_an_upload_that_ends_after_the_process_still_counts() -> None:
    busy, _ = step(SAVED, Tick(), 260.0)
    gone, _ = step(busy, Gone(done=False), 261.0)
    after, decisions = step(gone, SaveDone(durable(260.0, "1.2"), 3.0), 263.0)
    assert after.durable is not None
    assert after.durable.checkpoint == "1.2"
    assert kinds(decisions) == ["save.committed"]
    assert state_word(after, 263.0) == "ended_unknown"


# Risk and interval


def test_risk_counts_from_the_freeze_instant_or_the_start() -> None:
    assert at_risk_s(mind(), 130.0) == 30.0
    assert at_risk_s(SAVED, 245.0) == 45.0


def test_auto_says_why_and_respects_bounds() -> None:
    assert interval(Policy(), Costs()).seconds == 600.0
    assert "measured" in interval(Policy(), Costs()).reason
    known = Costs(2.0, 30.0, 35.0)
    chosen = interval(Policy(rate=Rate(0.1)), known)
    assert 60 < chosen.seconds < 3600
    assert interval(Policy(rate=Rate(0.1), max_overhead=0.0001), known).seconds == 20000.0
    assert interval(Policy(interval_s=5.0), known).seconds == 5.0


MEASURED = Costs(2.0, 30.0, 35.0, 40.0, 50 * 2**30)
PRICE = StorePrice(0.0008, 0.0001)


def test_auto_tells_what_it_was_given_and_what_it_expects() -> None:
    told = interval(Policy(rate=Rate(0.1, source="own history")), MEASURED).reason
    for words in (
        "pause 2 s",
        "upload 30 s",
        "restore 40 s",
        "0.1 reclaims an hour (own history)",
        "% of the time",
    ):
        assert words in told
    assert (
        "restore not measured" in interval(Policy(rate=Rate(0.1)), replace(MEASURED, restore_s=None)).reason
    )


def test_a_range_of_rates_lies_between_its_ends() -> None:
    ends = [interval(Policy(rate=Rate(rate)), MEASURED).seconds for rate in (0.01, 1.0)]
    between = interval(Policy(rate=Rate(0.5, 0.01, 1.0)), MEASURED).seconds
    assert ends[1] < between < ends[0]


def test_each_limit_lengthens_and_says_so() -> None:
    free = interval(Policy(rate=Rate(1.0)), MEASURED)
    slow = interval(Policy(rate=Rate(1.0)), replace(MEASURED, upload_s=3000.0))
    assert slow.seconds == 3002.0
    assert "a save takes" in slow.reason
    capped = interval(Policy(rate=Rate(1.0), max_overhead=0.0005), MEASURED)
    assert capped.seconds == 4000.0
    assert "max_overhead is 0.05%" in capped.reason
    limited = Policy(rate=Rate(1.0), max_store_usd_per_day=1.0, price=PRICE)
    cheap = interval(limited, MEASURED)
    assert cheap.seconds > free.seconds
    assert "max_store_usd_per_day is 1" in cheap.reason
    assert kept_usd_per_day(limited, 50 * 2**30, cheap.seconds) == pytest.approx(1.0)
    early = interval(replace(limited, rate=None), MEASURED)
    assert early.seconds == cheap.seconds, "limits hold without a rate too"


def test_a_limit_that_nothing_can_keep_or_no_price_is_said() -> None:
    nothing = interval(Policy(rate=Rate(1.0), max_store_usd_per_day=0.001, price=PRICE), MEASURED)
    assert nothing.seconds == 86400.0
    assert "cannot be kept by any interval" in nothing.reason
    unknown = interval(Policy(rate=Rate(1.0), max_store_usd_per_day=0.001), MEASURED)
    assert unknown.seconds == interval(Policy(rate=Rate(1.0)), MEASURED).seconds
    assert "no list price" in unknown.reason


def test_a_pause_near_max_freeze_is_said() -> None:
    assert "near max_freeze" in interval(Policy(rate=Rate(1.0), max_freeze_s=2.4), MEASURED).reason
    assert "max_freeze" not in interval(Policy(rate=Rate(1.0), max_freeze_s=30.0), MEASURED).reason


@given(
    st.builds(Rate, st.floats(0, 100)),
    st.builds(
        Costs,
        st.floats(0, 1e4),
        st.floats(0, 1e5),
        st.none(),
        st.none() | st.floats(0, 1e5),
        st.integers(0, 1 << 42),
    ),
    st.none() | st.floats(1e-6, 1),
    st.none() | st.floats(1e-3, 1e3),
)
def test_auto_is_finite_and_within_its_limits(
    rate: Rate, costs: Costs, overhead: float | None, usd: float | None
) -> None:
    policy = Policy(rate=rate, max_overhead=overhead, max_store_usd_per_day=usd, price=PRICE)
    chosen = interval(policy, costs)
    assert costs.freeze_s is not None
    assert costs.upload_s is not None
    assert 0 < chosen.seconds < float("inf")
    assert chosen.seconds >= min(86400.0, costs.freeze_s + costs.upload_s)
    assert interval(Policy(rate=rate), costs).seconds <= chosen.seconds
    if overhead is not None:
        assert chosen.seconds >= min(86400.0, costs.freeze_s / overhead)


EVENTS = st.one_of(
    st.just(Tick()),
    st.just(Asked()),
    st.builds(SaveFailed, st.just("x"), st.booleans()),
    st.just("done"),
    st.builds(Standing, st.just(0.0), st.integers(1, 4), st.booleans()),
    st.builds(Gone, st.booleans(), st.none() | st.integers(0, 2)),
    st.builds(NoticeIs, st.builds(Notice, st.just("notice"), st.floats(0, 2000), st.integers(1, 3))),
    st.just(NoticeIs(Notice("none"))),
    st.just(NoticeIs(Notice("hint"))),
    st.just(NoticeIs(Notice("unreadable"))),
    st.just(Word()),
    st.just(Recovered(None)),
    st.builds(
        PolicyIs, st.builds(Policy, st.just(30.0), paused=st.booleans(), on_isolated=st.just("freeze"))
    ),
    st.just(Stopped()),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(EVENTS, st.floats(0, 120)), max_size=40))
def test_whatever_happens(history: list[tuple[JobEvent | str, float]]) -> None:
    current, now, running = mind(), 100.0, False
    last_freeze: float | None = None
    for given_event, passed in history:
        event = given_event
        now += passed
        if event == "done":
            if not running:
                continue
            assert current.saving_since is not None
            last_freeze = max(current.saving_since, last_freeze or 0.0)
            event = SaveDone(durable(current.saving_since), 1.0)
        if isinstance(event, (SaveDone, SaveFailed, Recovered)):
            if not running:
                continue
            running = False
        assert not isinstance(event, str)
        before = current
        current, decisions = step(current, event, now)
        started = saves(decisions)
        assert len(started) <= 1, "two saves at once"
        assert not (started and running), "single flight"
        running = running or bool(started)
        assert running == (current.saving_since is not None)
        if started:
            assert current.frozen is None
            assert current.behind is None
            assert current.phase == "running"
        if before.phase in ENDED:
            assert current.phase == before.phase
        risk = at_risk_s(current, now)
        if risk is not None:
            truth = now - (100.0 if last_freeze is None else last_freeze)
            assert risk >= truth - 1e-6, "never below the truth"
            assert risk <= truth + 2.0, "at most 2 s above it"
        word = state_word(current, now)
        if word == "protected":
            assert current.rehearsed
