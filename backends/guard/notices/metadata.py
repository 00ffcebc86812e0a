"""Asking a metadata service on the node: plain requests without a proxy, answers with a bound, one kind of failure."""

from __future__ import annotations

import http.client
import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backends.clean import clean
from backends.errors import UsageError

if TYPE_CHECKING:
    import ssl

URL_VARIABLE = "REPRIEVE_METADATA_URL"
LINK_LOCAL = "http://169.254.169.254"  # of AWS, Azure and Google; by number, so that no name must be resolved
TIMEOUT_S = 2.0
BODY_LIMIT = 64 * 1024  # bytes


class UnreadableError(Exception):
    """The service cannot be read now; the text says why, in one clause."""


@dataclass(frozen=True)
class Answer:
    """One answer; header names are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class MetadataService:
    """One service at `url`; by default what REPRIEVE_METADATA_URL names, else the link-local address.

    Raises:
        UsageError: the address is not http://HOST[:PORT] (or https, where a context is given).
    """

    def __init__(
        self, url: str | None = None, timeout_s: float = TIMEOUT_S, context: ssl.SSLContext | None = None
    ) -> None:
        parts = urllib.parse.urlsplit(url or os.environ.get(URL_VARIABLE) or LINK_LOCAL)
        schemes = ("http",) if context is None else ("http", "https")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in schemes or not parts.hostname or port == -1:
            raise UsageError(f"{URL_VARIABLE} is {clean(parts.geturl())!r}; http://HOST[:PORT] is expected")
        self._context = context if parts.scheme == "https" else None
        self._host, self._port = parts.hostname, port or (443 if self._context else 80)
        self._prefix = parts.path.rstrip("/")
        self.timeout_s = timeout_s
        self._kept: http.client.HTTPConnection | None = (
            None  # of the last answer, where the service keeps it open
        )

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], *, timeout_s: float | None = None
    ) -> Answer:
        """One request; UnreadableError when no answer comes within `timeout_s`."""
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        kept, self._kept = self._kept, None  # another thread that asks meanwhile opens its own
        try:
            if kept is not None:
                try:
                    return self._exchange(kept, method, path, headers, limit_s)
                except (ConnectionError, http.client.BadStatusLine):
                    pass  # the service had closed it: nothing was answered
            return self._exchange(self._connection(limit_s), method, path, headers, limit_s)
        except (OSError, http.client.HTTPException) as error:
            name = str(error) or type(error).__name__
            raise UnreadableError(f"the metadata service does not answer ({clean(name, limit=80)})") from None

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        headers: Mapping[str, str],
        limit_s: float,
    ) -> Answer:
        """One request over this connection, which is kept for the next one if the service leaves it open."""
        left_open = False
        try:
            if connection.sock is not None:
                connection.sock.settimeout(limit_s)
            connection.request(method, self._prefix + path, headers=dict(headers))
            response = connection.getresponse()
            body = response.read(BODY_LIMIT + 1)
            found = {name.lower(): value for name, value in response.getheaders()}
            left_open = response.isclosed() and connection.sock is not None  # and read to its end
            return Answer(response.status, body, found)
        finally:
            if left_open and self._kept is None:
                self._kept = connection
            else:
                connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout_s, context=self._context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
