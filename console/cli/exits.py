"""How the program ends: exit codes, signals, and what is said of an error nobody foresaw."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import TYPE_CHECKING

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.errors import ReprieveError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

DONE = 0
INTERRUPTED = 130
TERMINATED = 143

MEANINGS: tuple[tuple[int, str], ...] = (
    (0, "done"),
    (1, "the operation failed"),
    (2, "usage or configuration"),
    (3, "partial: some items failed"),
    (4, "credentials or permission"),
    (5, "unreachable or timed out"),
    (6, "incompatible: no node fits, or the manifest cannot be used"),
    (7, "still running (--no-wait)"),
    (8, "plan --check: spot does not pay or never finishes"),
    (9, "a confirmation is needed and cannot be asked for"),
    (10, "refused: no proof of death"),
    (130, "interrupted (SIGINT)"),
    (143, "terminated (SIGTERM)"),
)


class DryRunEnd(Exception):  # noqa: N818 - an ending, not an error
    """Raised by `Invocation.confirm` under --dry-run: what would follow is never done; exit 0."""


class Terminated(SystemExit):
    """SIGTERM, raised where the main thread stands so that everything is cleaned up on the way out."""


def terminate_cleanly() -> None:
    """Make SIGTERM unwind the main thread and end with 143."""

    def handler(_number: int, _frame: FrameType | None) -> None:
        raise Terminated(TERMINATED)

    signal.signal(signal.SIGTERM, handler)


def unexpected(error: BaseException, clock: Clock) -> ReprieveError:
    """The error object for a fault of the program: one line that names the log with the traceback (0600)."""
    what = f"unexpected {type(error).__name__}: {clean(error)}"
    try:
        path = _write_log(error, clock)
    except OSError as fault:
        return ReprieveError(f"{what}; the log could not be written ({clean(fault)}): -vv shows it here")
    return ReprieveError(f"{what}; this is a fault of the program, the details are in {path}")


def _write_log(error: BaseException, clock: Clock) -> Path:
    import traceback

    from backends.xdg import base, private

    stamp = format_utc(clock.wall()).replace(":", "").replace(".", "-")
    path = private(base("STATE") / "log") / f"crash-{stamp}-{os.getpid()}.log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as log:
        log.writelines(traceback.format_exception(error))
    return path


def usage(message: str) -> UsageError:
    """A usage error on one line, whatever the typed value holds."""
    return UsageError(clean(message, limit=600))
