"""The providers' notice services on loopback, each with its reader: what the contract suite of notices runs on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from backends.clock import format_utc, parse_utc
from backends.guard.notices.aws import AwsNotices
from backends.guard.notices.azure import AzureNotices
from backends.guard.notices.google import GoogleNotices
from backends.guard.notices.kubernetes import KubernetesNotices
from backends.guard.notices.port import NoticeSource
from tests.support.guard_metadata import ACTION, Answer, Kind, Metadata

NOW = parse_utc("2026-03-01T12:00:00Z")  # of every synthetic story
PATIENT_S = 10.0  # for answers that come
QUICK_S = 0.3  # where none will
FLAG = "/computeMetadata/v1/instance/preempted"
MAINTENANCE = "/computeMetadata/v1/instance/maintenance-event"
EVENTS = "/metadata/scheduledevents"
NAME = "/metadata/instance/compute/name"
POD = "/api/v1/namespaces/ml/pods/trainer-0"


class StoryClock:
    """Wall and boot clock of a story, moved by the test; readers never sleep."""

    def __init__(self, at: float = 0.0) -> None:
        self.at = at

    def wall(self) -> float:
        return NOW + self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        raise AssertionError("a reader never sleeps")

    async def pause(self, seconds: float) -> None:
        raise AssertionError("a reader never sleeps")


class Peer:
    """A provider's service, and how it says things."""

    kind: Kind
    path: str  # where the notice stands
    window_s: float
    withdraws = False  # whether the provider says that a reclaim is called off

    def __init__(self, home: Path) -> None:
        self.clock = StoryClock()
        self.service = Metadata(self.kind)
        self.home = home
        self.calm()

    def source(self, timeout_s: float = PATIENT_S) -> NoticeSource:
        raise NotImplementedError

    def say(self, answer: Answer) -> None:
        self.service.answers[self.path] = answer

    def calm(self) -> None:
        raise NotImplementedError

    def announce(self, left_s: float) -> None:
        raise NotImplementedError


class AwsPeer(Peer):
    kind, path, window_s = "aws", ACTION, 120.0

    def source(self, timeout_s: float = PATIENT_S) -> AwsNotices:
        return AwsNotices(self.clock, self.service.url, timeout_s)

    def calm(self) -> None:
        self.say((404, b""))

    def announce(self, left_s: float) -> None:
        document = {"action": "terminate", "time": format_utc(self.clock.wall() + left_s)}
        self.say((200, json.dumps(document).encode()))


class GooglePeer(Peer):
    kind, path, window_s = "gcp", FLAG, 30.0

    def source(self, timeout_s: float = PATIENT_S) -> GoogleNotices:
        return GoogleNotices(self.clock, self.service.url, timeout_s, hang_s=0.0)

    def calm(self) -> None:
        self.say((200, b"FALSE", {"Metadata-Flavor": "Google", "ETag": "e1"}))

    def announce(self, left_s: float) -> None:  # Google tells no time
        self.say((200, b"TRUE", {"Metadata-Flavor": "Google", "ETag": "e2"}))


class AzurePeer(Peer):
    kind, path, window_s, withdraws = "azure", EVENTS, 30.0, True
    own = "trainer-0"

    def __init__(self, home: Path) -> None:
        self.incarnation = 0
        super().__init__(home)
        self.service.answers[NAME] = (200, self.own.encode())

    def source(self, timeout_s: float = PATIENT_S) -> AzureNotices:
        return AzureNotices(self.clock, self.service.url, timeout_s, timeout_s)

    def events(self, *events: dict[str, Any]) -> None:
        self.incarnation += 1
        document = {"DocumentIncarnation": self.incarnation, "Events": list(events)}
        self.say((200, json.dumps(document).encode()))

    def calm(self) -> None:
        self.events()

    def announce(self, left_s: float) -> None:
        import email.utils

        at = email.utils.formatdate(self.clock.wall() + left_s, usegmt=True)
        self.events(
            {"EventId": "E1", "EventType": "Preempt", "ResourceType": "VirtualMachine", "Resources": [self.own],
             "EventStatus": "Scheduled", "NotBefore": at}
        )  # fmt: skip


class KubernetesPeer(Peer):
    kind, path, window_s = "kubernetes", POD, 30.0

    def source(self, timeout_s: float = PATIENT_S) -> KubernetesNotices:
        (self.home / "token").write_text("SECRET\n")
        (self.home / "namespace").write_text("ml")
        environment = {"REPRIEVE_POD": "trainer-0"}
        return KubernetesNotices(self.clock, environment, self.home, self.service.url, 7, timeout_s)

    def pod(self, **about: object) -> None:
        self.say((200, json.dumps({"metadata": {"name": "trainer-0", **about}}).encode()))

    def calm(self) -> None:
        self.pod()

    def announce(self, left_s: float) -> None:
        at = format_utc(self.clock.wall() + left_s)
        self.pod(deletionTimestamp=at, deletionGracePeriodSeconds=30)


PEERS: tuple[type[Peer], ...] = (AwsPeer, GooglePeer, AzurePeer, KubernetesPeer)
