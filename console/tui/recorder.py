"""Keeps what the screens are fed in files of bounded size, and finds them again. Off unless console.toml says so."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from backends.clock import Clock, format_utc
from backends.errors import NotFoundError, ReprieveError
from console.operations.view import FleetView
from console.tui.model import recorded

FOLDER = "recordings"
EVERY_S = 2.0  # between two kept snapshots
FILE_LIMIT = 8 << 20  # bytes, then another file begins with a whole snapshot
TOTAL_LIMIT = 64 << 20  # bytes of all of them: the oldest go first


class Recorder:
    """Writes the snapshots of one console, beside the event loop; one that comes while another is written is left out."""

    def __init__(self, state: Path, clock: Clock, failed: Callable[[str], None]) -> None:
        """`failed` is told once, with a sentence, when no more can be kept: the console goes on without."""
        self._folder = state / FOLDER
        self._clock = clock
        self._failed = failed
        self._writing = recorded.Writing()
        self._file: Path | None = None
        self._size = 0
        self._number = 0
        self._kept_at: float | None = None  # monotonic
        self._task: asyncio.Task[None] | None = None
        self._broken = False

    def take(self, view: FleetView) -> None:
        """Keep a snapshot whose texts are clean; returns at once."""
        now = self._clock.monotonic()
        busy = self._task is not None and not self._task.done()
        if self._broken or busy or (self._kept_at is not None and now - self._kept_at < EVERY_S):
            return
        self._kept_at = now
        self._task = asyncio.create_task(self._keep(view))

    async def close(self) -> None:
        """Wait for what is being written."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self, view: FleetView) -> None:
        try:
            await asyncio.to_thread(self._write, view)
        except OSError as error:
            self._broken = True
            self._failed(f"recording: {self._folder}: {error.strerror}; nothing more is kept")

    def _write(self, view: FleetView) -> None:
        if self._file is None or self._size >= FILE_LIMIT:
            self._begin()
        piece = self._writing.piece(view)
        assert self._file is not None  # noqa: S101 - `_begin` made it
        handle = os.open(
            self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        with os.fdopen(handle, "wb") as stream:
            stream.write(piece)
        self._size += len(piece)

    def _begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._number += 1
        stamp = format_utc(self._clock.wall()).replace(":", "").replace("-", "")
        name = f"{stamp}-{os.getpid()}-{self._number}{recorded.SUFFIX}"
        self._file, self._size, self._writing = self._folder / name, 0, recorded.Writing()
        room = TOTAL_LIMIT - FILE_LIMIT
        for path in reversed(files(self._folder.parent)):
            room -= path.stat().st_size
            if room < 0:
                path.unlink(missing_ok=True)


def files(state: Path) -> list[Path]:
    """The recordings of a context, oldest first."""
    folder = state / FOLDER
    return sorted(folder.glob(f"*{recorded.SUFFIX}")) if folder.is_dir() else []


def read(file: Path) -> list[FleetView]:
    """Every snapshot of a file; NotFoundError, DamagedError."""
    try:
        with file.open("rb") as stream:
            return list(recorded.views(stream))
    except FileNotFoundError:
        raise NotFoundError(f"{file}: no such recording") from None
    except OSError as error:
        raise ReprieveError(f"{file}: {error.strerror}") from None


def begins(file: Path) -> float | None:
    """Wall clock of its first snapshot; None when it holds none."""
    with file.open("rb") as stream:
        for line in (stream.readline(1 << 16), stream.readline(1 << 16)):
            found = recorded.head_time(line)
            if found is not None:
                return found
    return None


def covering(state: Path, at: str | None, now: float) -> Path:
    """The newest recording that begins no later than `at`; without a time the newest. NotFoundError names the folder."""
    known = [(path, begins(path)) for path in files(state)]
    held = [(path, start) for path, start in known if start is not None]
    if not held:
        raise NotFoundError(
            f"{state / FOLDER}: nothing was recorded",
            hint="record = true in console.toml records every session",
        )
    if at is None:
        return held[-1][0]
    wanted = recorded.moment(at, now)
    fitting = [path for path, start in held if start <= wanted]
    if not fitting:
        raise NotFoundError(
            f"{state / FOLDER}: the oldest recording begins at {format_utc(held[0][1])}, after {at}"
        )
    return fitting[-1]
