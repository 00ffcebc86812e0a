"""The poller as a child process: started, spoken to, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from backends.clean import clean

ROOT = (
    Path(__file__).resolve().parents[2]
)  # where these packages are, for a child that looks nowhere else first
POLLER = (sys.executable, "-P", "-m", "console.poller.child")
WORDS = 200  # characters kept of what it wrote to stderr


class Child:
    """One process; its stderr goes to a file that is looked at when it has ended."""

    def __init__(self, argv: Sequence[str], document: dict[str, Any]) -> None:
        """Start it, and say `document` as its first line."""
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words,
            start_new_session=True, bufsize=0, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        self.say(json.dumps(document))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def out(self) -> IO[bytes]:
        """What it writes."""
        assert self._process.stdout is not None  # noqa: S101 - for the type checker: it is a pipe
        return self._process.stdout

    def say(self, line: str) -> None:
        """Write it a line; one that has ended does not hear it, which whoever reads `out` finds out."""
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.write(line.encode() + b"\n")

    def ended(self) -> str:
        """Wait for its end; how it came, in words."""
        code = self._process.wait()
        if code >= 0:
            return f"exit {code}"
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"

    def end(self) -> str:
        """End it, if it has not ended; its last words."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._words.closed:
            return ""
        self._words.seek(max(0, self._words.seek(0, os.SEEK_END) - 8 * WORDS))
        lines = self._words.read().decode("utf-8", "replace").strip().splitlines()
        self._words.close()
        return clean(lines[-1], limit=WORDS) if lines else ""
