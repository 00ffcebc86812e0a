"""The guard's socket: one JSON document in, one out, for callers of the same user only."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from backends.errors import DamagedError, ReprieveError, UnreachableError, UsageError
from backends.records.strict import STATUS_LIMIT, canonical, loads

Answer = dict[str, Any]
Handler = Callable[[str, Answer], Answer]

MOST_CALLS = 64  # at once; more are told to come again
READ_TIMEOUT_S = 30.0
LAST_ANSWERS_S = (
    2.0  # how long answers under way are waited for at the end: the one to `shutdown` is one of them
)


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """An address for a socket whose path may be longer than the 107 bytes a socket name may have."""
    if not Path("/proc/self/fd").is_dir():
        yield str(path)
        return
    handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{path.name}"
    finally:
        os.close(handle)


class Server:
    """Answers calls, each on a thread of its own."""

    def __init__(self, path: Path, handler: Handler) -> None:
        self._handler = handler
        self._path = path
        self._slots = threading.Semaphore(MOST_CALLS)
        self._under_way = 0
        self._changed = threading.Condition()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path.unlink(missing_ok=True)
        with _address(path) as address:
            self._socket.bind(address)
        path.chmod(0o600)
        self._socket.listen(64)

    def start(self) -> None:
        """Begin to answer."""
        threading.Thread(target=self._accept, name="server", daemon=True).start()

    def close(self) -> None:
        """Take no more calls, and give those under way a moment for their answers."""
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._changed:
            self._changed.wait_for(lambda: self._under_way == 0, LAST_ANSWERS_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._count(1)
            threading.Thread(target=self._serve, args=(connection,), name="call", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                connection.settimeout(READ_TIMEOUT_S)
                if not _same_user(connection):
                    return
                connection.sendall(canonical(self._answer(connection)))
        finally:
            self._count(-1)

    def _count(self, calls: int) -> None:
        with self._changed:
            self._under_way += calls
            self._changed.notify_all()

    def _answer(self, connection: socket.socket) -> Answer:
        if not self._slots.acquire(blocking=False):
            return {"error": UnreachableError("the guard is busy; ask again").document()}
        try:
            call = loads(_read(connection), what="call")
            verb, document = call.get("verb"), call.get("document")
            if not isinstance(verb, str) or not isinstance(document, dict):
                raise UsageError("a call is an object with `verb` and `document`")
            return self._handler(verb, document)
        except ReprieveError as error:
            return {"error": error.document()}
        finally:
            self._slots.release()


def _same_user(connection: socket.socket) -> bool:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True  # the directory is 0700
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, 12))
    return uid in (os.getuid(), 0)


def _read(connection: socket.socket) -> bytes:
    data = bytearray()
    while chunk := connection.recv(65536):
        data += chunk
        if len(data) > STATUS_LIMIT:
            raise DamagedError(f"a call is larger than {STATUS_LIMIT} bytes")
    return bytes(data)


def call(path: Path, verb: str, document: Answer, timeout_s: float) -> Answer:
    """Make one call to the guard at `path` and return its answer.

    Raises:
        UnreachableError: no guard answers there in time.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, _address(path) as address:
            connection.settimeout(timeout_s)
            connection.connect(address)
            connection.sendall(canonical({"verb": verb, "document": document}))
            connection.shutdown(socket.SHUT_WR)
            answer = _read(connection)
    except OSError as error:
        reason = error.strerror or "no answer in time"
        raise UnreachableError(
            f"the guard does not answer at {path} ({reason})",
            hint="start it with: reprieve fleet install NODE",
        ) from None
    if not answer:
        raise UnreachableError(f"the guard at {path} closed the call without an answer")
    return loads(answer, what="the guard's answer", limit=4 * STATUS_LIMIT)
