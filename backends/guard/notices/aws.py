"""Notices of AWS: instance metadata, version 2 (token), and whatever speaks like it.

Shapes: EC2 user guide, "Spot instance interruption notices" and "rebalance recommendations".
"""

from __future__ import annotations

import http.client
import os
import urllib.parse
from dataclasses import dataclass

from backends.clean import clean
from backends.clock import Clock, parse_utc
from backends.errors import ReprieveError, UsageError
from backends.guard.notices.port import Reading
from backends.records.strict import loads

DEFAULT_URL = "http://169.254.169.254"
URL_VARIABLE = "REPRIEVE_METADATA_URL"
WINDOW_S = 120.0  # documented for stop and terminate; hibernation begins at once
TOKEN_TTL_S = 21600
BODY_LIMIT = 16 * 1024  # bytes

_TOKEN = "/latest/api/token"
_ACTION = "/latest/meta-data/spot/instance-action"
_REBALANCE = "/latest/meta-data/events/recommendations/rebalance"


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes


class AwsNotices:
    """Reads `spot/instance-action` and the rebalance recommendation with a session token."""

    def __init__(
        self, clock: Clock, url: str | None = None, timeout_s: float = 2.0, period_s: float = 1.0
    ) -> None:
        parts = urllib.parse.urlsplit(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)
        if parts.scheme != "http" or not parts.hostname:
            raise UsageError(f"{URL_VARIABLE} is {clean(parts.geturl())!r}; http://HOST[:PORT] is expected")
        self._host, self._port = parts.hostname, parts.port or 80
        self._prefix = parts.path.rstrip("/")
        self._clock = clock
        self._timeout_s = timeout_s
        self._period_s = period_s
        self._token: str | None = None

    @property
    def period_s(self) -> float:
        """Seconds between two readings: of a window of 120 s, the vendor's 5 would cost a last save of some jobs."""
        return self._period_s

    def read(self) -> Reading:
        """Look once at the notice, then at the hint; a failing hint never hides a readable notice."""
        try:
            answer = self._get(_ACTION)
        except _UnreadableError as error:
            return Reading("unreadable", str(error))
        if answer.status == 200:
            return self._action(answer.body)
        if answer.status != 404:
            return Reading("unreadable", f"the metadata service answered {answer.status}")
        return self._hint()

    def _hint(self) -> Reading:
        try:
            answer = self._get(_REBALANCE)
            if answer.status == 200:
                document = loads(answer.body, what="rebalance recommendation", limit=BODY_LIMIT)
                mark = clean(document.get("noticeTime", ""), limit=64)
                return Reading("hint", f"rebalance recommendation of {mark}", mark=mark)
        except (_UnreadableError, ReprieveError):
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

    def _get(self, path: str) -> _Answer:
        """One item; a refused token is renewed once in the same cycle."""
        if self._token is None:
            self._token = self._new_token()
        answer = self._ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
        if answer.status == 401:
            self._token = self._new_token()
            answer = self._ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
        return answer

    def _new_token(self) -> str:
        self._token = None
        answer = self._ask("PUT", _TOKEN, {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_TTL_S)})
        token = answer.body.decode("latin-1").strip()
        if (
            answer.status != 200
            or not token.isascii()
            or not token.isprintable()
            or not 0 < len(token) <= 256
        ):
            raise _UnreadableError(f"the metadata service gave no token (status {answer.status})")
        return token

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> _Answer:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.request(method, self._prefix + path, headers=headers)
            response = connection.getresponse()
            body = response.read(BODY_LIMIT + 1)
            return _Answer(response.status, body)
        except (OSError, http.client.HTTPException) as error:
            name = type(error).__name__ if not str(error) else str(error)
            raise _UnreadableError(
                f"the metadata service does not answer ({clean(name, limit=80)})"
            ) from None
        finally:
            connection.close()


class _UnreadableError(Exception):
    """The metadata service cannot be read now."""
