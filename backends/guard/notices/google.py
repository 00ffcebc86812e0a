"""Notices of Google Cloud: the flag `instance/preempted`, read by a request that hangs until it changes.

Shapes: Compute Engine documentation, "Create and use Spot VMs" and "About VM metadata" (`wait_for_change`, `last_etag`,
`timeout_sec`). A reply without `Metadata-Flavor: Google` does not come from the metadata server and is not believed.
"""

from __future__ import annotations

from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.errors import ReprieveError
from backends.guard.notices.metadata import BODY_LIMIT, Answer, MetadataService, UnreadableError
from backends.guard.notices.port import Reading, seconds
from backends.guard.notices.shutdown import shutdown_reading
from backends.records.strict import loads

WINDOW_S = 30.0  # by default
LONG_WINDOW_S = 120.0  # with scheduling.preemptionNoticeDuration
HANG_S = 30.0  # the longest the server is asked to wait for a change
WINDOW_ATTRIBUTE = "reprieve-notice-s"  # custom metadata of the instance: its notice duration in seconds

_INSTANCE = "/computeMetadata/v1/instance/"
_FLAVOR = {"Metadata-Flavor": "Google"}
_QUICK_S = 0.2  # an answer to a hanging request that comes sooner than this, with nothing new, did not hang
_PAUSE_S = 0.5


class GoogleNotices:
    """Hangs on the flag; a server that does not let it hang, or cannot be read, is asked twice a second."""

    def __init__(
        self, clock: Clock, url: str | None = None, timeout_s: float = 2.0, hang_s: float = HANG_S
    ) -> None:
        self._service = MetadataService(url, timeout_s)
        self._clock = clock
        self._hang_s = hang_s
        self._etag: str | None = None
        self._window_s: float | None = None
        self._period_s = _PAUSE_S

    @property
    def period_s(self) -> float:
        """0 while the server lets requests hang."""
        return self._period_s

    def read(self) -> Reading:
        """Wait for a change of the flag, for half a minute at most; the first look does not wait."""
        begun = self._clock.monotonic()
        before, self._etag = self._etag, None  # after a failure the next look does not wait either
        self._period_s = _PAUSE_S
        try:
            answer = self._flag(before)
        except UnreadableError as error:
            return Reading("unreadable", str(error))
        word = answer.body.decode("latin-1").strip().upper()
        if word not in ("TRUE", "FALSE"):
            return Reading(
                "unreadable", f"instance/preempted is {clean(word, limit=40)!r}, not TRUE or FALSE"
            )
        self._etag = answer.headers.get("etag")
        hung = self._clock.monotonic() - begun >= _QUICK_S
        if self._etag is not None and (hung or self._etag != before):
            self._period_s = 0.0
        if word == "TRUE":
            return Reading("notice", "preempted", window_s=self._window())
        return self._maintenance()

    def signalled(self) -> Reading | None:
        """A notice while the system goes down: the ACPI signal often comes before the flag can be read."""
        return shutdown_reading()

    def _flag(self, etag: str | None) -> Answer:
        if etag is None:
            return self._get("preempted")
        query = f"?wait_for_change=true&timeout_sec={self._hang_s:.0f}&last_etag={etag}"
        return self._get(f"preempted{query}", self._hang_s + self._service.timeout_s)

    def _get(self, path: str, timeout_s: float | None = None) -> Answer:
        answer = self._service.ask("GET", _INSTANCE + path, _FLAVOR, timeout_s=timeout_s)
        if answer.status != 200:
            raise UnreadableError(f"the metadata server answered {answer.status}")
        if answer.headers.get("metadata-flavor") != "Google":
            raise UnreadableError(
                "the answer does not come from Google's metadata server (no Metadata-Flavor)"
            )
        etag = answer.headers.get("etag", "")
        if not (etag.isascii() and etag.isalnum() and len(etag) <= 128):
            return Answer(200, answer.body, {})  # nothing that may stand in an address
        return answer

    def _maintenance(self) -> Reading:
        """Live migration loses nothing; a host that ends its machines is a raised risk, with no time told."""
        try:
            word = self._get("maintenance-event").body.decode("latin-1").strip()
        except UnreadableError:
            return Reading("none")  # the flag itself was readable: that is what counts
        if word == "TERMINATE_ON_HOST_MAINTENANCE":
            return Reading("hint", "host maintenance will end this machine", mark=word)
        return Reading("none")

    def _window(self) -> float:
        """The window of this machine in seconds, asked for once; unless both places tell a longer one, 30."""
        if self._window_s is None:
            told = _told(self._document("scheduling/"))
            if told is None:
                told = _number(self._document("attributes/").get(WINDOW_ATTRIBUTE))
            self._window_s = WINDOW_S if told is None else min(max(told, 0.0), LONG_WINDOW_S)
        return self._window_s

    def _document(self, path: str) -> dict[str, Any]:
        try:
            answer = self._get(f"{path}?recursive=true")
            return loads(answer.body, what="instance metadata", limit=BODY_LIMIT)
        except (UnreadableError, ReprieveError):
            return {}


def _told(scheduling: dict[str, Any]) -> float | None:
    """`preemptionNoticeDuration` in the forms that JSON durations take: {"seconds": "120"}, "120s", 120."""
    value = scheduling.get("preemptionNoticeDuration")
    if isinstance(value, dict):
        value = value.get("seconds")
    return _number(value)


def _number(value: object) -> float | None:
    if isinstance(value, str) and len(value) < 16:
        try:
            value = float(value.strip().removesuffix("s"))
        except ValueError:
            return None
    return seconds(value)
