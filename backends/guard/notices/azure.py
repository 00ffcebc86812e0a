"""Notices of Azure: scheduled events of the instance metadata service.

Shapes: "Scheduled Events for Linux VMs" (azure-compute-docs). The first call switches the service on and may take two
minutes; a day without a call switches it off again, so the guard asks from its installation on. Nothing is ever acknowledged:
that would let the eviction begin early, for every machine an event names.
"""

from __future__ import annotations

from backends.clock import Clock
from backends.guard.notices import azure_events as events
from backends.guard.notices.metadata import MetadataService, UnreadableError
from backends.guard.notices.port import Reading
from backends.guard.notices.shutdown import shutdown_reading

FIRST_TIMEOUT_S = 130.0
STALE_LIMIT = 5  # older documents in a row that are passed over; after that the numbering has begun anew

_EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
_NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
_HEADERS = {"Metadata": "true"}


class AzureNotices:
    """Reads the events that name this machine, once a second."""

    def __init__(
        self,
        clock: Clock,
        url: str | None = None,
        timeout_s: float = 2.0,
        first_timeout_s: float = FIRST_TIMEOUT_S,
    ) -> None:
        self._service = MetadataService(url, timeout_s)
        self._clock = clock
        self._first_timeout_s = first_timeout_s
        self._armed = False
        self._name: str | None = None
        self._incarnation: int | None = None
        self._stale = 0
        self._last = Reading("none")
        self._announced: frozenset[str] = frozenset()  # ids of our scheduled reclaims in the last document

    @property
    def period_s(self) -> float:
        """One second, as the vendor advises."""
        return 1.0

    def read(self) -> Reading:
        """Look once; the first look waits as long as switching the service on may take."""
        try:
            answer = self._service.ask(
                "GET", _EVENTS, _HEADERS, timeout_s=None if self._armed else self._first_timeout_s
            )
            if answer.status != 200:
                return Reading("unreadable", f"the metadata service answered {answer.status}")
            document = events.parse(answer.body)
        except (UnreadableError, events.BadDocumentError) as error:
            return Reading("unreadable", str(error))
        self._armed = True
        if self._is_stale(document.incarnation):
            return self._last
        self._last = self._judge(document)
        return self._last

    def signalled(self) -> Reading | None:
        """A notice while the system goes down: the eviction may be quicker than the event."""
        return shutdown_reading()

    def _is_stale(self, incarnation: int | None) -> bool:
        """A document older than one seen before, unless that goes on: then the numbering began anew."""
        if incarnation is None:
            return False
        if self._incarnation is not None and incarnation < self._incarnation and self._stale < STALE_LIMIT:
            self._stale += 1
            return True
        self._incarnation, self._stale = incarnation, 0
        return False

    def _judge(self, document: events.Document) -> Reading:
        ours = [event for event in document.events if event.names(self._own_name())]
        reclaims = [event for event in ours if event.kind in events.RECLAIMS]
        vanished = self._announced - {event.id for event in reclaims}
        # One that had started and is gone has ended: only the clock can tell that we were spared.
        self._announced = frozenset(event.id for event in reclaims if not event.started)
        reading = events.verdict(ours, self._clock.wall())
        if reading.state in ("none", "hint") and vanished:
            return Reading(reading.state, reading.reason, mark=reading.mark, withdrawn=True)
        return reading

    def _own_name(self) -> str | None:
        """This machine's name as events write it; None while it cannot be read."""
        if self._name is None:
            try:
                answer = self._service.ask("GET", _NAME, _HEADERS)
            except UnreadableError:
                return None
            if answer.status == 200:
                self._name = answer.body.decode("utf-8", "replace").strip() or None
        return self._name
