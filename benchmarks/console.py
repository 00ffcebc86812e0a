"""Keys and paints of the console at 10,000 rows, beside Textual's DataTable and textual-fastdatatable, in one run.

Each application runs in a pseudo-terminal of 200 x 50; what is measured is the time from a key written to it until what
that key draws has come back: scheduling, layout, rendering and output are all inside. Then 200 SSH nodes of which 20
never answer, and what 1,000 of them cost. `--rows N`, `--keys N`, `--nodes N`, `-o json`.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.common import ratio, report
from benchmarks.console_child import FLEET
from benchmarks.console_poller import polled
from benchmarks.ssh_nodes import nodes

WIDTH, HEIGHT = 200, 50
_ESCAPES = re.compile(
    rb"\x1b\[[0-9;:?<>=$]*[A-Za-z~]|\x1b[78=>()cM]B?|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1bP[^\x1b]*\x1b\\"
)


@dataclass
class Terminal:
    """A child in a pseudo-terminal and what it has drawn since the last look."""

    process: subprocess.Popen[bytes]
    fd: int
    begun: float
    imported: float = 0.0
    raw: bytes = b""
    keys_s: list[float] = field(default_factory=list)

    def until(self, pattern: bytes, patience_s: float) -> float:
        """Seconds until `pattern` has been drawn, counted from now; infinite when it does not come."""
        begun = time.monotonic()
        wanted = re.compile(pattern)
        while time.monotonic() - begun < patience_s:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.raw += os.read(self.fd, 1 << 16)
                except OSError:  # the child ended
                    break
                if wanted.search(_ESCAPES.sub(b"", self.raw)):
                    return time.monotonic() - begun
        return float("inf")

    def drain(self, seconds: float) -> None:
        """Let it draw for a while."""
        self.until(rb"\Z.\A", seconds)
        self.raw = b""

    def key(self, key: bytes, pattern: bytes, patience_s: float = 20.0) -> float:
        """Write a key; seconds until its mark has come back."""
        self.drain(0.0)
        os.write(self.fd, key)
        return self.until(pattern, patience_s)


@contextlib.contextmanager
def started(kind: str, rows: int, first: bytes = rb"node-00000") -> Iterator[tuple[Terminal, float, float]]:
    """The terminal, seconds from start to first paint, and from the end of imports to it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    read, write = os.pipe()
    environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    for name in ("NO_COLOR", "COLUMNS", "LINES", "PYTHONDONTWRITEBYTECODE"):
        environ.pop(name, None)
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.console_child", kind, str(rows), str(write)],
        stdin=slave, stdout=slave, stderr=slave, env=environ, pass_fds=(write,), start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    os.close(write)
    terminal = Terminal(process, master, begun)
    try:
        terminal.until(first, 90.0)
        painted = time.monotonic()
        imported = float(os.read(read, 64) or b"nan")
        yield terminal, painted - begun, painted - imported
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(read)
        os.close(master)


def measured(kind: str, rows: int, keys: int) -> dict[str, float]:
    """First paint, key latencies and the first letter of a filter, in milliseconds."""
    console = kind == "console"
    with started(kind, rows) as (terminal, start_s, paint_s):
        terminal.drain(3.0)
        times = []
        for number in range(1, keys + 1):
            mark = f"─ node-{number:05d} ─" if console else f"#{number}#"
            times.append(terminal.key(b"\x1b[B", mark.encode(), 5.0))
            terminal.drain(0.06)
        if console:
            terminal.key(b"/", rb"filter|/", 2.0)
            terminal.drain(0.4)
            letter = terminal.key(b"7", rb"Fleet [0-9]+/[0-9]+", 60.0)
        else:
            letter = terminal.key(b"f", f"=(?!{rows}=)[0-9]+=".encode(), 60.0)
    times.sort()
    return {
        "start_ms": start_s * 1e3,
        "first_paint_ms": paint_s * 1e3,
        "key_p50_ms": statistics.median(times) * 1e3,
        "key_p95_ms": times[min(len(times) - 1, int(0.95 * len(times)))] * 1e3,
        "key_worst_ms": times[-1] * 1e3,
        "first_letter_ms": letter * 1e3,
    }


def _silent(keys: int, count: int = 200, hanging: int = 20) -> dict[str, float]:
    """Keys while some of the SSH nodes never answer."""
    with nodes(count, hanging) as folder:
        os.environ[FLEET] = str(folder)
        try:
            found = measured("console", count, keys)
        finally:
            del os.environ[FLEET]
    return {name: value for name, value in found.items() if name.startswith("key_")}


def _option(name: str, default: int) -> int:
    words = sys.argv[1:]
    return int(words[words.index(name) + 1]) if name in words else default


def main() -> None:
    """Measure and print."""
    rows, keys = _option("--rows", 10_000), _option("--keys", 60)
    kinds = ["lines", "console", "datatable"]
    packages = ["textual"]
    if importlib.util.find_spec("textual_fastdatatable") is not None:
        kinds.append("fastdatatable")
        packages.append("textual-fastdatatable")
    else:
        print(
            "textual-fastdatatable is not installed: left out (pip install -r requirements/bench.txt)",
            file=sys.stderr,
        )
    figures: dict[str, float] = {"rows": rows, "columns": 14, "keys": keys}
    found = {kind: measured(kind, rows, keys) for kind in kinds}
    for kind, values in found.items():
        figures |= {f"{kind}_{name}": value for name, value in values.items()}
    starts: dict[str, list[float]] = {"bare": [], "console": []}
    for _ in range(5):
        for kind, times in starts.items():
            with started(kind, 5) as (_, start_s, _):
                times.append(start_s)
    figures |= {f"start_{kind}_ms": min(times) * 1e3 for kind, times in starts.items()}
    silent, many = _silent(keys), polled(_option("--nodes", 1000))
    figures |= {f"silent_nodes_{name}": value for name, value in silent.items()}
    figures |= {f"many_nodes_{name}": value for name, value in many.items()}
    ours, theirs = found["lines"], found["datatable"]
    ratios = {
        "first_paint_s": ratio(ours["first_paint_ms"] / 1e3, 0.15),
        "console_first_paint_s": ratio(found["console"]["first_paint_ms"] / 1e3, 0.15),
        "key_p95_ms": ratio(found["console"]["key_p95_ms"], 50.0),
        "key_worst_ms": ratio(found["console"]["key_worst_ms"], 100.0),
        "first_letter_ms": ratio(found["console"]["first_letter_ms"], 60.0),
        "datatable_p95_over_console": ratio(
            theirs["key_p95_ms"] / found["console"]["key_p95_ms"], 7.0, "higher"
        ),
        "datatable_p95_over_lines": ratio(theirs["key_p95_ms"] / ours["key_p95_ms"], 7.0, "higher"),
        "silent_nodes_key_worst_ms": ratio(silent["key_worst_ms"], 100.0),
        "many_nodes_poller_share_of_core": ratio(many["poller_share_of_core"], 0.2),
        "many_nodes_stall_p99_ms": ratio(many["stall_p99_ms"], 15.0),
        "start_over_bare": ratio(min(starts["console"]) / min(starts["bare"]), 1.6),
    }
    report("console", figures, ratios, tuple(packages))


if __name__ == "__main__":
    main()
