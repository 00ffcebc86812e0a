"""Notices of AWS from outside the machine: EventBridge events in an SQS queue, bare or wrapped by SNS (the form of Karpenter's queue).

Shapes: EventBridge `EC2 Spot Instance Interruption Warning`, `EC2 Instance Rebalance Recommendation`, `EC2 Instance State-change
Notification`. The region is never taken from `resources`: their ARN holds a zone.
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.clock import Clock, parse_utc
from backends.clouds.aws.calls import client, code_of, explained
from backends.clouds.outside import Word, WordKind
from backends.errors import DamagedError, ReprieveError, UsageError
from backends.records import strict

WAIT_S = 5  # of one long poll; ending the controller waits for it
AT_ONCE = 10  # messages of one answer, the most that SQS gives
_ADDRESS = re.compile(r"aws-sqs:([a-z0-9-]{4,40})/([A-Za-z0-9_.-]{1,85})\Z")
_ARN = re.compile(r"arn:aws[a-z-]*:sqs:([a-z0-9-]+):\d*:([A-Za-z0-9_.-]+)\Z")
_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}\Z")
_LOSSES = ("shutting-down", "terminated", "stopping", "stopped")
WINDOW_S = {"terminate": 120.0, "stop": 120.0, "hibernate": 0.0}


@dataclass(frozen=True)
class Message:
    """One message of the queue."""

    handle: str
    id: str
    word: Word | None  # None: not about a machine
    bad: str = ""  # why it cannot be read


@dataclass(frozen=True)
class Answer:
    """What one look brought, and what time it was for AWS."""

    messages: tuple[Message, ...]
    provider_now: float  # seconds since 1970, of the answer's Date


def address(text: str) -> tuple[str, str]:
    """Region and name of `aws-sqs:REGION/NAME`.

    Raises:
        UsageError: anything else; for an ARN, with what to write instead.
    """
    found = _ADDRESS.match(text)
    if found:
        return found[1], found[2]
    arn = _ARN.match(text.removeprefix("aws-sqs:"))
    hint = f'write "aws-sqs:{arn[1]}/{arn[2]}": the name, not the ARN' if arn else None
    raise UsageError(f"notices {clean(text, limit=120)!r}: aws-sqs:REGION/QUEUE-NAME is expected", hint=hint)


def word_of(body: str) -> Word | None:
    """What a message says; None for an event of another kind.

    Raises:
        DamagedError: it is no event of EventBridge, or one that lacks what its kind must have.
    """
    event = _loads(body)
    if event.get("Type") == "Notification" and isinstance(event.get("Message"), str):  # wrapped by SNS
        event = _loads(event["Message"])
    kind, detail = event.get("detail-type"), event.get("detail")
    if not isinstance(kind, str) or not isinstance(detail, dict):
        raise DamagedError("no event of EventBridge: detail-type and detail are expected")
    if event.get("source") != "aws.ec2":
        return None
    kinds: dict[str, WordKind] = {
        "EC2 Spot Instance Interruption Warning": "notice", "EC2 Instance Rebalance Recommendation": "hint",
    }  # fmt: skip
    state = clean(detail.get("state", ""), limit=40)
    found: WordKind | None = kinds.get(kind)
    if kind == "EC2 Instance State-change Notification":
        found = "loss" if state in _LOSSES else "alive" if state in ("pending", "running") else None
    if found is None:
        return None
    instance = detail.get("instance-id")
    if not isinstance(instance, str) or not _INSTANCE.match(instance):
        raise DamagedError(f"{clean(kind, limit=60)} without an instance id")
    action = clean(detail.get("instance-action", ""), limit=40)
    try:
        at = parse_utc(str(event.get("time")))
    except ReprieveError:
        raise DamagedError(f"{clean(kind, limit=60)} without a time") from None
    window = WINDOW_S.get(action, 120.0) if found == "notice" else 0.0
    return Word(found, instance, at, action if found == "notice" else state, window)


def _loads(text: str) -> dict[str, Any]:
    try:
        return strict.loads(text.encode("utf-8", "replace"), what="message")
    except ReprieveError as error:
        raise DamagedError(error.message) from None


class Queue:
    """One queue. What is not deleted comes again: messages of others, and what cannot be read, are left where they are."""

    def __init__(self, region: str, name: str, clock: Clock) -> None:
        self.region, self.name, self._clock = region, name, clock
        self._sqs: Any = None
        self._url = ""

    def receive(self, wait_s: int = WAIT_S) -> Answer:
        """Wait up to `wait_s` seconds for messages.

        Raises:
            UsageError: there is no such queue. CredentialsError, UnreachableError: the call failed.
        """
        what = f"queue {self.name}"
        if self._sqs is None:
            self._sqs = client("sqs", self.region)
        with explained(what, self.region):
            if not self._url:
                try:
                    self._url = self._sqs.get_queue_url(QueueName=self.name)["QueueUrl"]
                except self._sqs.exceptions.ClientError as error:
                    if "NonExistentQueue" in code_of(error) or "QueueDoesNotExist" in code_of(error):
                        raise UsageError(
                            f"there is no queue {self.name} in {self.region} for these credentials"
                        ) from None
                    raise
            told = self._sqs.receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=AT_ONCE, WaitTimeSeconds=wait_s
            )
        return Answer(tuple(map(_message, told.get("Messages", []))), self._now(told))

    def _now(self, told: dict[str, Any]) -> float:
        text = told.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        try:
            return email.utils.parsedate_to_datetime(text).timestamp()
        except (TypeError, ValueError):
            return self._clock.wall()

    def delete(self, handles: Sequence[str]) -> None:
        """Delete messages that were acted upon.

        Raises:
            CredentialsError, UnreachableError: the call failed; they come again, which is no harm.
        """
        for start in range(0, len(handles), AT_ONCE):
            entries = [
                {"Id": str(n), "ReceiptHandle": one} for n, one in enumerate(handles[start : start + AT_ONCE])
            ]
            with explained(f"queue {self.name}", self.region):
                self._sqs.delete_message_batch(QueueUrl=self._url, Entries=entries)


def _message(row: dict[str, Any]) -> Message:
    handle, name = str(row.get("ReceiptHandle", "")), clean(row.get("MessageId", ""), limit=80)
    try:
        return Message(handle, name, word_of(str(row.get("Body", ""))))
    except DamagedError as error:
        return Message(handle, name, None, error.message)
