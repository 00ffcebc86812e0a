"""The criu program: where it is, how it is called, and a run that cannot hang or fill the disk."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from backends.clean import clean
from backends.clock import Clock
from backends.environment import without_credentials
from backends.errors import EngineError

LOG_LIMIT_BYTES = (
    32 << 20
)  # a log beyond this means a loop: a truncated image made one grow by 16 MB a second
TAIL_BYTES = 256 << 10
WIDEST = 4  # characters that one byte may become when it is cleaned
DUMP_DONE = "Dumping finished successfully"
RESTORE_DONE = "Restore finished successfully"
_VERSION = re.compile(r"^Version: (\d+(?:\.\d+)*)", re.MULTILINE)


@dataclass(frozen=True)
class CriuTool:
    """A criu that can be started: argv prefix and what must be in its environment."""

    argv: tuple[str, ...]
    version: str  # such as 4.2.1
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, verb: str, *options: str) -> list[str]:
        """The whole argv of one call; configuration files of the node are never merged in."""
        return [*self.argv, verb, "--no-default-config", *options]


def find_criu(candidates: Iterable[Path]) -> CriuTool | None:
    """The first candidate that runs and says its version; None when none does.

    A candidate is a criu program, or the root of unpacked packages (`usr/sbin/criu` with its own loader and
    libraries), which is run through that loader. Nothing of it leaks to programs that criu starts.
    """
    for candidate in candidates:
        argv = _prefix(candidate)
        if argv is None:
            continue
        try:
            answer = subprocess.run(
                [*argv, "--version"], capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.SubprocessError):
            continue
        match = _VERSION.search(answer.stdout.decode("utf-8", "replace"))
        if match is not None:
            return CriuTool(argv, match.group(1))
    return None


def _prefix(candidate: Path) -> tuple[str, ...] | None:
    if candidate.is_dir():
        program = candidate / "usr" / "sbin" / "criu"
        loaders = sorted(candidate.glob("usr/lib/*/ld-linux*.so*"))
        if not program.is_file() or not loaders:
            return None
        loader = loaders[0]
        return (str(loader), "--library-path", str(loader.parent), str(program))
    return (str(candidate),) if os.access(candidate, os.X_OK) else None


@dataclass(frozen=True)
class Ended:
    """How a run ended; `stopped` says which limit ended it, None when it ended by itself."""

    code: int
    stopped: str | None


def run_bounded(
    argv: list[str],
    *,
    log: Path,
    deadline_s: float,
    clock: Clock,
    environment: Mapping[str, str] | None = None,
    keep: tuple[int, ...] = (),
    tick: Callable[[], str | None] = lambda: None,
    pause_s: float = 0.01,
    before_kill: Callable[[], None] = lambda: None,
) -> Ended:
    """Run `argv` in its own process group until it ends, `deadline_s` passes, or its log grows too large.

    `log` is the file the tool writes; the child inherits the descriptors in `keep`. `tick` is called every `pause_s`
    and may itself wait a little; a text it returns ends the run for that reason. `before_kill` runs before the
    process group is killed.

    Raises:
        EngineError: the program could not be started.
    """
    started = clock.monotonic()
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=keep,
            env={**without_credentials(os.environ), **(environment or {})},
        )
    except OSError as error:
        raise EngineError(f"{clean(argv[0])} could not be started: {clean(error.strerror)}") from None
    stopped: str | None = None
    try:
        while child.poll() is None:
            stopped = tick() or _limit(log, clock.monotonic() - started, deadline_s)
            if stopped is not None:
                break
            clock.sleep(pause_s)
    finally:
        if child.returncode is None:
            before_kill()
            kill_group(child.pid)
            child.wait()
    return Ended(child.returncode, stopped)


def _limit(log: Path, elapsed_s: float, deadline_s: float) -> str | None:
    if elapsed_s > deadline_s:
        return f"it took longer than {deadline_s:g} s"
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_LIMIT_BYTES:
            return f"its log grew over {LOG_LIMIT_BYTES >> 20} MiB, which means that it loops"
    return None


def kill_group(pid: int) -> None:
    """SIGKILL the process group that `pid` leads; nothing happens when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def read_tail(log: Path, limit_bytes: int = TAIL_BYTES) -> str:
    """The end of a log, cleaned, its lines kept; empty when there is none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit_bytes))
            data = file.read(limit_bytes)
    except OSError:
        return ""
    return clean(data, limit=WIDEST * limit_bytes, lines=True)  # what is cut is the end, which is judged


def last_line(log: str) -> str:
    """The last line that is not empty."""
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1] if lines else ""
