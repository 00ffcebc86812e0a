"""The daemon's control socket: one JSON object a line in, one out; `{"ok": …}` or `{"error": …}`.

A request is `{"verb": …}` and the verb's fields. Unknown verbs and fields are refused by name.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from backends.clean import clean
from backends.errors import ReprieveError, UsageError
from backends.practice import metadata
from backends.practice.fleet import DEFAULT_POOL, Fleet
from backends.records import strict

REQUEST_LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True)
class OfHost:
    """A verb on one host."""

    host: str


@dataclass(frozen=True)
class Reclaim:
    """Take a host, with a notice of so many seconds or without."""

    host: str
    notice_s: float | None = None


@dataclass(frozen=True)
class Notice:
    """Announce a reclaim, taking nothing."""

    host: str
    notice_s: float = 120.0


@dataclass(frozen=True)
class SetMetadata:
    """What a host's metadata endpoint does; `unreadable` means `forbidden`."""

    host: str
    mode: Literal["silent", "hint", "notice", "hang", "forbidden", "error", "html", "unreadable"]
    notice_s: float = 120.0


@dataclass(frozen=True)
class OfInstance:
    """A question about one instance."""

    instance: str


@dataclass(frozen=True)
class Replace:
    """A request for a bare host; the token makes it idempotent."""

    token: str
    pool: str = DEFAULT_POOL


@dataclass(frozen=True)
class Capacity:
    """How later requests for replacements go."""

    available: bool | None = None
    delay_s: float | None = None


@dataclass(frozen=True)
class Switch:
    """On or off."""

    on: bool


@dataclass(frozen=True)
class Nothing:
    """A verb without fields."""


Describe = Callable[[], dict[str, Any]]
Handler = Callable[[Any], Awaitable[dict[str, Any]]]


class Control:
    """Turns requests into calls on the fleet."""

    def __init__(self, fleet: Fleet, describe: Describe, shutdown: Callable[[], None]) -> None:
        self.fleet = fleet
        self._describe = describe
        self._shutdown = shutdown
        self._verbs: dict[str, tuple[type[Any], Handler]] = {
            "describe": (Nothing, self._do_describe),
            "reclaim": (Reclaim, self._do_reclaim),
            "notice": (Notice, self._do_notice),
            "metadata": (SetMetadata, self._do_metadata),
            "instance": (OfInstance, self._do_instance),
            "replace": (Replace, self._do_replace),
            "capacity": (Capacity, self._do_capacity),
            "partition": (OfHost, self._do_partition),
            "heal": (OfHost, self._do_heal),
            "store_full": (Switch, self._do_store_full),
            "shutdown": (Nothing, self._do_shutdown),
        }

    async def answer(self, line: bytes) -> dict[str, Any]:
        """The answer to one request line."""
        try:
            request = strict.loads(line, what="practice request", limit=REQUEST_LIMIT_BYTES)
            name = request.pop("verb", None)
            if not isinstance(name, str) or name not in self._verbs:
                known = ", ".join(self._verbs)
                raise UsageError(f"practice verb {clean(name, limit=40)!r} is not one of {known}")
            kind, handler = self._verbs[name]
            return {"ok": await handler(strict.read(kind, request, what=name))}
        except ReprieveError as error:
            return {"error": error.document()}
        except OSError as error:
            return {"error": ReprieveError(f"practice fleet: {clean(error)}").document()}

    async def _do_describe(self, _request: Nothing) -> dict[str, Any]:
        return self._describe()

    async def _do_reclaim(self, request: Reclaim) -> dict[str, Any]:
        return (await self.fleet.reclaim(request.host, request.notice_s)).document()

    async def _do_notice(self, request: Notice) -> dict[str, Any]:
        return self.fleet.announce(request.host, request.notice_s).document()

    async def _do_metadata(self, request: SetMetadata) -> dict[str, Any]:
        if request.mode == "notice":
            return self.fleet.announce(request.host, request.notice_s).document()
        mode: metadata.MetadataMode = "forbidden" if request.mode == "unreadable" else request.mode
        return self.fleet.set_metadata(request.host, mode).document()

    async def _do_instance(self, request: OfInstance) -> dict[str, Any]:
        state, reason, ended_at = self.fleet.instance(request.instance)
        return {"instance": request.instance, "state": state, "reason": reason, "ended_at": ended_at}

    async def _do_replace(self, request: Replace) -> dict[str, Any]:
        return self.fleet.replace(request.pool, request.token)

    async def _do_capacity(self, request: Capacity) -> dict[str, Any]:
        self.fleet.set_capacity(request.available, request.delay_s)
        return {"available": self.fleet.capacity, "delay_s": self.fleet.capacity_delay_s}

    async def _do_partition(self, request: OfHost) -> dict[str, Any]:
        return self.fleet.partition(request.host, True).document()

    async def _do_heal(self, request: OfHost) -> dict[str, Any]:
        return self.fleet.partition(request.host, False).document()

    async def _do_store_full(self, request: Switch) -> dict[str, Any]:
        self.fleet.fill_store(request.on)
        return {"on": self.fleet.store_full}

    async def _do_shutdown(self, _request: Nothing) -> dict[str, Any]:
        self._shutdown()
        return {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it goes."""
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self.answer(line)).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            return  # gone, or a line beyond the reader's limit
        finally:
            writer.close()


def bind_control(path: Path) -> socket.socket:
    """A listening UNIX socket at `path`, 0600; the path may be longer than the 108 bytes such sockets take."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            sock.bind(f"/proc/self/fd/{directory}/{path.name}")
        finally:
            os.umask(before)
    finally:
        os.close(directory)
    sock.listen(64)
    sock.setblocking(False)
    return sock
