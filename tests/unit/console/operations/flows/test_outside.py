"""What AWS tells outside of a machine: repeats, disorder, rubbish, late and foreign messages; saves only where they help."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from backends.clock import parse_utc
from backends.clouds.aws.queue import Answer, Message, _message, address, word_of
from backends.clouds.outside import Heard, Word, before, take, worth_a_save
from backends.errors import CredentialsError, DamagedError, UsageError
from backends.fakes.clock import run
from backends.records.node import Node
from console.operations.flows.outside import Listener
from tests.support.data import data
from tests.support.operations import Practice

OURS = "i-0aaaabbbbccccdddd"
WARNED = parse_utc("2026-03-01T12:00:00Z")


def sample(name: str) -> list[Message]:
    return [
        _message(row) for row in json.loads(data("notices", "aws", f"{name}.json").read_text())["Messages"]
    ]


class Source:
    """A queue that answers what a test puts in, a batch at a time."""

    name = "queue notices"

    def __init__(self, *batches: Sequence[Message], now: float = WARNED + 1.0) -> None:
        self.batches, self.now = list(batches), now
        self.deleted: list[str] = []
        self.trouble: Exception | None = None

    def receive(self, wait_s: int = 0) -> Answer:
        if self.trouble is not None:
            raise self.trouble
        return Answer(tuple(self.batches.pop(0)) if self.batches else (), self.now)

    def delete(self, handles: list[str]) -> None:
        self.deleted += handles


@pytest.fixture
def practice(tmp_path: Path) -> Practice:
    made = Practice(tmp_path, provider="aws", pool="aws/us-east-1/g5.xlarge/linux")
    node = made.records.nodes()["n0"]
    made.records.put_node(Node(**{**node.__dict__, "instance": OURS}))
    made.running_job("train", "n0")
    return made


def heard(practice: Practice, source: Source, looks: int = 1) -> tuple[Listener, list[str]]:
    told: list[str] = []

    async def main() -> Listener:
        fleet = practice.fleet("controller")
        listener = Listener(
            fleet, source, lambda text, *_, **__: told.append(text), lambda _, text: told.append(text)
        )
        for _ in range(looks):
            await listener.look()
        return listener

    return run(practice.clock, main()), told


def kinds(practice: Practice) -> list[str]:
    mine = ("hint.outside", "notice.outside", "instance.ended", "instance.alive")
    return [event.kind for _, event in practice.fleet().ledger.events(kinds=mine)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sqs_in_order", ["hint.outside", "notice.outside", "instance.ended"]),
        ("sqs_duplicated", ["notice.outside"]),
        ("sqs_out_of_order", ["instance.ended"]),
        ("sqs_late_after_gone", ["notice.outside", "instance.ended"]),
        ("sqs_malformed_mix", ["notice.outside"]),
    ],
)
def test_a_recorded_answer_is_told_once_a_machine_and_kind(
    practice: Practice, name: str, expected: list[str]
) -> None:
    messages = sample(name)
    source = Source(list(messages), messages)
    heard(practice, source, looks=2)
    assert kinds(practice) == expected
    heard(practice, Source(messages))
    assert kinds(practice) == expected, "a controller that starts anew knows what was told"
    good = [message.handle for message in messages if not message.bad]
    assert source.deleted == good * 2


def test_what_cannot_be_read_is_counted_left_and_told_and_others_are_left_alone(practice: Practice) -> None:
    stranger = _message(
        {"MessageId": "s", "ReceiptHandle": "r-s",
         "Body": data("notices", "aws", "eventbridge_interruption_unknown_instance.json").read_text()}
    )  # fmt: skip
    source = Source([*sample("sqs_malformed_mix"), stranger])
    listener, told = heard(practice, source)
    assert listener.bad == {"m-0", "m-1", "m-2"}
    assert listener.others == {"s"}
    assert source.deleted == ["r-3", "r-4"]
    assert any("3 messages that cannot be read were left" in text for text in told)


def test_a_save_is_asked_for_only_where_the_guard_does_not_know_and_it_fits(practice: Practice) -> None:
    node = practice.nodes["n0"]
    node.notice = "unreadable"
    heard(practice, Source(sample("sqs_duplicated")))
    assert node.calls.count("save") == 1, "one emergency save, however often it is told"

    other = Practice(practice.directory / "b", provider="aws", pool=practice.pool)
    other.records.put_node(Node(**{**other.records.nodes()["n0"].__dict__, "instance": OURS}))
    other.running_job("train", "n0")
    other.nodes["n0"].notice = "notice"
    _, told = heard(other, Source(sample("sqs_duplicated")))
    assert other.nodes["n0"].calls.count("save") == 0
    assert any("its guard knows" in text for text in told)


def test_a_hint_moves_and_saves_nothing(practice: Practice) -> None:
    heard(practice, Source(sample("sqs_in_order")[:1]))
    assert practice.nodes["n0"].calls.count("save") == 0
    assert practice.records.nodes()["n0"].cordoned is False


def test_a_clock_five_minutes_off_changes_no_deadline(practice: Practice) -> None:
    practice.clock.set_wall(WARNED - 300.0)
    _, told = heard(
        practice, Source(sample("sqs_late_after_gone")[:1], now=parse_utc("2026-03-01T12:02:48Z"))
    )
    assert any("in 60 s" in text for text in told), "both times are AWS's"


def test_a_hundred_warnings_at_once_are_all_heard(tmp_path: Path) -> None:
    practice = Practice(tmp_path, nodes=100, provider="aws", pool="aws/us-east-1/g5.xlarge/linux")
    words = []
    for number in range(100):
        name, instance = f"n{number}", f"i-{number:017x}"
        practice.records.put_node(Node(**{**practice.records.nodes()[name].__dict__, "instance": instance}))
        words.append(
            Message(f"r{number}", f"m{number}", Word("notice", instance, WARNED, "terminate", 120.0))
        )
    source = Source(*(words[start : start + 10] for start in range(0, 100, 10)))
    begin = practice.clock.monotonic()
    heard(practice, source, looks=10)
    assert kinds(practice).count("notice.outside") == 100
    assert len(source.deleted) == 100
    assert practice.clock.monotonic() - begin < 10


def test_an_old_machine_of_the_same_name_says_nothing_of_the_new_one(practice: Practice) -> None:
    practice.records.put_node(
        Node(**{**practice.records.nodes()["n0"].__dict__, "instance": "i-0123456789abcdef0"})
    )
    source = Source(sample("sqs_in_order"))
    heard(practice, source)
    assert kinds(practice) == []
    assert source.deleted == []


def test_a_queue_that_cannot_be_read_is_an_alert_and_is_tried_again(practice: Practice) -> None:
    source = Source(sample("sqs_duplicated"))
    source.trouble = CredentialsError("AWS queue notices: the credentials have expired")
    told: list[str] = []

    async def main() -> None:
        listener = Listener(
            practice.fleet(), source, lambda *_, **__: None, lambda _, text: told.append(text)
        )
        task = asyncio.create_task(listener.run())
        await asyncio.sleep(3)
        source.trouble = None
        while source.batches:
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(practice.clock, main())
    assert "credentials have expired" in told[0]
    assert kinds(practice) == ["notice.outside"]


def test_terminated_is_for_ever_and_stopped_is_not() -> None:
    def after(*words: Word) -> tuple[Heard, bool]:
        return take(before(words[:-1]), words[-1])

    ended, stopped = Word("loss", OURS, 100.0, "terminated"), Word("loss", OURS, 100.0, "stopped")
    runs, late = Word("alive", OURS, 200.0, "running"), Word("alive", OURS, 50.0, "running")
    notice = Word("notice", OURS, 300.0, "terminate", 120.0)
    assert after(ended, runs)[1] is False
    assert after(ended, notice)[1] is False
    assert after(stopped, late)[1] is False
    assert after(stopped, runs)[1] is True
    assert after(notice, stopped, runs, notice)[1] is True, "the machine's next life may be announced again"


@pytest.mark.parametrize(
    ("left_s", "cost_s", "expected"), [(120.0, 80.0, True), (120.0, 90.0, False), (12.0, 5.0, True), (12.0, None, False), (90.0, None, True)]
)  # fmt: skip
def test_a_save_must_fit(left_s: float, cost_s: float | None, expected: bool) -> None:
    assert worth_a_save(left_s, cost_s, guard_knows=False)[0] is expected
    assert worth_a_save(left_s, cost_s, guard_knows=True)[0] is False


def event(**changes: Any) -> str:
    base = json.loads(data("notices", "aws", "eventbridge_interruption_warning.json").read_text())
    return json.dumps({**base, **changes})


@pytest.mark.parametrize(
    "body",
    [
        "", "[]", "abcd", '{"version": "0"}', event(detail={}), event(detail={"instance-id": "i-1; rm"}), event(time="soon"),
        '{"Type": "Notification", "Message": "{"}', '{"a": 1, "a": 2}',
    ],
)  # fmt: skip
def test_what_is_no_event_is_damaged(body: str) -> None:
    with pytest.raises(DamagedError):
        word_of(body)


def test_other_events_say_nothing_and_hibernation_leaves_no_time() -> None:
    assert word_of(event(source="aws.health")) is None
    assert (
        word_of(
            event(**{"detail-type": "EC2 Instance State-change Notification", "detail": {"state": "pausing"}})
        )
        is None
    )
    word = word_of(event(detail={"instance-id": OURS, "instance-action": "hibernate"}))
    assert word is not None
    assert word.left_s(WARNED) == 0.0


def test_a_queue_is_named_by_region_and_name_and_an_arn_is_answered_with_what_to_write() -> None:
    assert address("aws-sqs:us-east-1/reprieve") == ("us-east-1", "reprieve")
    with pytest.raises(UsageError) as caught:
        address("arn:aws:sqs:eu-west-1:123456789012:reprieve")
    assert '"aws-sqs:eu-west-1/reprieve"' in (caught.value.hint or "")
    with pytest.raises(UsageError, match="REGION/QUEUE-NAME"):
        address("https://queue")
