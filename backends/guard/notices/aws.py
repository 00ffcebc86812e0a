"""Notices of AWS: instance metadata, version 2 (token), and whatever speaks like it.

Shapes: EC2 user guide, "Spot instance interruption notices" and "rebalance recommendations".
"""

from __future__ import annotations

from backends.clean import clean
from backends.clock import Clock, parse_utc
from backends.errors import ReprieveError, UsageError
from backends.guard.notices.metadata import BODY_LIMIT, Answer, MetadataService, UnreadableError
from backends.guard.notices.port import Reading
from backends.guard.notices.shutdown import shutdown_reading
from backends.records.strict import loads

WINDOW_S = 120.0  # documented for stop and terminate; hibernation begins at once
TOKEN_TTL_S = 21600
HINT_EVERY_S = 5.0

_TOKEN = "/latest/api/token"
_ACTION = "/latest/meta-data/spot/instance-action"
_REBALANCE = "/latest/meta-data/events/recommendations/rebalance"


class AwsNotices:
    """Reads `spot/instance-action` and the rebalance recommendation with a session token."""

    def __init__(
        self, clock: Clock, url: str | None = None, timeout_s: float = 2.0, period_s: float = 1.0
    ) -> None:
        self._service = MetadataService(url, timeout_s)
        self._clock = clock
        self._period_s = period_s
        self._token: str | None = None
        self._hinted: tuple[float, Reading] | None = None  # when the hint was looked for, and what was found

    @property
    def period_s(self) -> float:
        """Seconds between two readings: of a window of 120 s, the vendor's 5 would cost a last save of some jobs."""
        return self._period_s

    def read(self) -> Reading:
        """Look once at the notice, then at the hint; a failing hint never hides a readable notice."""
        try:
            answer = self._get(_ACTION)
        except UnreadableError as error:
            return Reading("unreadable", str(error))
        if answer.status == 200:
            return self._action(answer.body)
        if answer.status != 404:
            return Reading("unreadable", f"the metadata service answered {answer.status}")
        return self._hint()

    def signalled(self) -> Reading | None:
        """A notice while the system goes down: the power-off may come before the metadata tells."""
        return shutdown_reading()

    def _hint(self) -> Reading:
        """The hint, looked for as often as the vendor advises: nothing is lost by hearing of it seconds later."""
        now = self._clock.monotonic()
        if self._hinted is None or not 0 <= now - self._hinted[0] < HINT_EVERY_S:
            self._hinted = (now, self._look_for_hint())
        return self._hinted[1]

    def _look_for_hint(self) -> Reading:
        try:
            answer = self._get(_REBALANCE)
            if answer.status == 200:
                document = loads(answer.body, what="rebalance recommendation", limit=BODY_LIMIT)
                mark = clean(document.get("noticeTime", ""), limit=64)
                return Reading("hint", f"rebalance recommendation of {mark}", mark=mark)
        except (UnreadableError, ReprieveError):
            pass  # the notice itself was readable: that is what counts
        return Reading("none")

    def _action(self, body: bytes) -> Reading:
        try:
            document = loads(body, what="instance-action", limit=BODY_LIMIT)
        except ReprieveError as error:
            return Reading("unreadable", error.message)
        action = document.get("action", document.get("instance-action"))
        if not isinstance(action, str):
            return Reading("unreadable", "instance-action names no action")
        if action == "hibernate":  # begins at once, whatever time is told
            return Reading("notice", "hibernate", left_s=0.0, window_s=0.0)
        left = None
        if isinstance(document.get("time"), str):
            try:
                left = parse_utc(document["time"]) - self._clock.wall()
            except UsageError:
                left = None
        return Reading("notice", clean(action, limit=32), left_s=left, window_s=WINDOW_S)

    def _get(self, path: str) -> Answer:
        """One item; a refused token is renewed once in the same cycle."""
        if self._token is None:
            self._token = self._new_token()
        answer = self._service.ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
        if answer.status == 401:
            self._token = self._new_token()
            answer = self._service.ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
        return answer

    def _new_token(self) -> str:
        self._token = None
        answer = self._service.ask("PUT", _TOKEN, {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_TTL_S)})
        token = answer.body.decode("latin-1").strip()
        if (
            answer.status != 200
            or not token.isascii()
            or not token.isprintable()
            or not 0 < len(token) <= 256
        ):
            raise UnreadableError(f"the metadata service gave no token (status {answer.status})")
        return token
