"""Speaks with a practice fleet's daemon over its control socket."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any, NoReturn

from backends.clean import clean
from backends.errors import (
    CredentialsError,
    DamagedError,
    IncompatibleError,
    ReprieveError,
    UnreachableError,
    UsageError,
)
from backends.records import strict

_KINDS = {kind.kind: kind for kind in (UsageError, CredentialsError, UnreachableError, IncompatibleError)}
_ANSWER_LIMIT_BYTES = 8 << 20


class PracticeClient:
    """One request a call; each opens its own connection, so a client may be shared and never goes stale."""

    def __init__(self, control: Path, *, timeout_s: float = 30.0) -> None:
        self.control = control
        self.timeout_s = timeout_s

    def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        """The daemon's answer to `verb`.

        Raises:
            UnreachableError: no daemon answers within `timeout_s`; says nothing about any host.
            ReprieveError (of the kind the daemon named): it refused or failed.
        """
        try:
            with _connect(self.control, self.timeout_s) as sock:
                sock.sendall(_line(verb, fields))
                return self._read(_receive_line(sock))
        except OSError as error:
            self._unreachable(error)

    async def acall(self, verb: str, **fields: Any) -> dict[str, Any]:
        """The same as `call`, without blocking other tasks."""
        try:
            async with asyncio.timeout(self.timeout_s):
                sock = _connect(self.control, self.timeout_s)
                reader, writer = await asyncio.open_unix_connection(sock=sock, limit=_ANSWER_LIMIT_BYTES)
                try:
                    writer.write(_line(verb, fields))
                    await writer.drain()
                    data = await reader.readline()
                finally:
                    writer.close()
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            self._unreachable(error)
        return self._read(data)

    def _read(self, data: bytes) -> dict[str, Any]:
        if not data.endswith(b"\n"):
            self._unreachable("it ended without an answer")
        answer = strict.loads(data, what="practice fleet", limit=_ANSWER_LIMIT_BYTES)
        error = answer.get("error")
        if isinstance(error, dict):
            kind = _KINDS.get(str(error.get("kind")), ReprieveError)
            hint = error.get("hint")
            message = clean(error.get("message"), limit=2000)
            raise kind(message, hint=None if hint is None else clean(hint, limit=1000))
        ok = answer.get("ok")
        if not isinstance(ok, dict):
            raise DamagedError("practice fleet: an answer is neither ok nor an error")
        return ok

    def _unreachable(self, reason: object) -> NoReturn:
        if isinstance(reason, (FileNotFoundError, ConnectionRefusedError)):
            raise UnreachableError(
                f"no practice fleet runs in {self.control.parent}",
                hint="start one with: reprieve practice up",
            ) from None
        raise UnreachableError(
            f"practice fleet at {self.control.parent} does not answer: {clean(reason)}",
            hint="start one with: reprieve practice up",
        ) from None


def _line(verb: str, fields: dict[str, Any]) -> bytes:
    return json.dumps({"verb": verb, **fields}).encode() + b"\n"


def _connect(path: Path, timeout_s: float) -> socket.socket:
    """Connect through the directory's descriptor: the path may be longer than UNIX sockets take."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        sock.connect(f"/proc/self/fd/{directory}/{path.name}")
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(directory)
    return sock


def _receive_line(sock: socket.socket) -> bytes:
    data = bytearray()
    while not data.endswith(b"\n") and len(data) <= _ANSWER_LIMIT_BYTES:
        chunk = sock.recv(65536)
        if not chunk:
            break
        data += chunk
    return bytes(data)
