"""Real-world cases of the areas notice and clock, by id, as a node's guard meets them."""

from __future__ import annotations

from dataclasses import replace

from backends.guard.decide.job import step
from backends.guard.decide.model import (
    Costs,
    Durable,
    Mind,
    NoticeIs,
    Policy,
    SaveFailed,
    StartSave,
    Tick,
)
from backends.guard.decide.notices import NoticeMind, observe
from backends.guard.decide.show import at_risk_s, state_word
from backends.guard.notices.port import Reading
from backends.ids import CheckpointId
from tests.support.data import case


def saved(seq: int, frozen_at: float, wall: float = 0.0) -> Durable:
    return Durable(f"1.{seq}", frozen_at, wall, 0.5, 1000, 2.0)


def test_rc_15_a_window_shorter_than_promised_takes_nothing_that_was_saved() -> None:
    story = case(15)["input"]
    now, age_s = 1000.0, story["last_committed"]["age_s"]
    mind = Mind(
        epoch=1,
        began_at=0.0,
        contact_at=9e9,
        policy=Policy(interval_s=600.0),
        durable=saved(story["last_committed"]["seq"], now - age_s),
        costs=Costs(0.5, 2.0, float(story["dump_estimate_s"])),
    )
    notices, _ = observe(
        NoticeMind(), Reading("notice", left_s=story["notice"]["deadline_s"], window_s=120.0), now
    )
    mind, decisions = step(mind, NoticeIs(notices.notice), now)
    assert StartSave("final") in decisions  # 45 s against 0.7 of 120 s
    died = now + story["node_dies_at_s"]
    assert mind.durable is not None
    assert mind.durable.checkpoint == "1.41"
    lost = at_risk_s(mind, died)
    assert lost is not None
    assert 229 <= lost <= 235
    mind, decisions = step(mind, SaveFailed("the emergency save did not finish", engine=True), died)
    assert mind.durable == saved(41, now - age_s)


def test_rc_16_repeats_and_hints_make_one_emergency_save() -> None:
    story = case(16)["input"]
    mind = Mind(
        epoch=1,
        began_at=0.0,
        contact_at=9e9,
        policy=Policy(interval_s=3600.0),
        durable=saved(1, 0.0),
        costs=Costs(0.5, 2.0, 3.0),
    )
    notices, emergencies, others = NoticeMind(), 0, 0
    ours = [event for event in story["events"] if event["instance"] == "i-a" and event["t"] < 126]
    for event in ours:  # a node's own metadata never tells of other instances
        now = float(event["t"])
        hint = event["type"] == "rebalance"
        reading = (
            Reading("hint", mark=event["id"])
            if hint
            else Reading("notice", left_s=event["deadline"] - now, window_s=120.0)
        )
        notices, _ = observe(notices, reading, now)
        mind, decisions = step(mind, NoticeIs(notices.notice), now)
        started = [decision.reason for decision in decisions if isinstance(decision, StartSave)]
        emergencies += started.count("final")
        others += len(started) - started.count("final")
        if started:
            mind = replace(mind, saving_since=None, durable=saved(2, now))
    assert (emergencies, others) == (1, 0)
    assert notices.notice.deadline_at == 125


def test_rc_16_a_hint_alone_saves_nothing_at_once() -> None:
    mind = Mind(
        epoch=1, began_at=0.0, contact_at=9e9, policy=Policy(interval_s=3600.0), durable=saved(1, 200.0)
    )
    notices, _ = observe(NoticeMind(), Reading("hint", mark="m6"), 210.0)
    _, decisions = step(mind, NoticeIs(notices.notice), 210.0)
    assert not decisions


def test_rc_30_what_was_not_uploaded_makes_nothing_younger_and_is_an_alarm() -> None:
    story = case(30)
    durable, *missed = story["input"]["saves"]
    mind = Mind(
        epoch=1, began_at=-600.0, contact_at=9e9, policy=Policy(interval_s=float(story["input"]["interval_s"])),
        durable=saved(durable["seq"], float(durable["t"])),
    )  # fmt: skip
    for entry in missed:
        mind, decisions = step(mind, Tick(), float(entry["t"]))
        assert [each for each in decisions if isinstance(each, StartSave)]
        mind, _ = step(mind, SaveFailed("the store does not answer", engine=False), entry["t"] + 1.0)
    now = float(story["input"]["now"])
    assert at_risk_s(mind, now) == story["expected"]["age_of_last_durable_s"]
    assert mind.durable is not None
    assert mind.durable.checkpoint == f"1.{durable['seq']}"
    assert (state_word(mind, now) == "overdue") is story["expected"]["alarm"]


def test_rc_32_a_fast_wall_clock_moves_neither_timer_nor_order() -> None:
    story = case(32)["input"]
    offset_s = float(story["node_offset_s"])
    stamped = Durable("1.8", 100.0, 1e9 + offset_s, 0.5, 1000, 2.0)  # five minutes in the future by its stamp
    mind = Mind(epoch=1, began_at=0.0, contact_at=9e9, policy=Policy(interval_s=120.0), durable=stamped)
    assert at_risk_s(mind, 130.0) == 30.0
    assert not [d for d in step(mind, Tick(), 219.9)[1] if isinstance(d, StartSave)]
    assert StartSave("interval") in step(mind, Tick(), 220.0)[1]
    order = [CheckpointId.parse(f"1.{row['seq']}") for row in story["saves"]]
    assert str(max(order)) == "1.9"
