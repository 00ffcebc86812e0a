"""For tests of the command line: run it in a process of its own, or build an Invocation with captured streams."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.clock import Clock, SystemClock
from console.cli.invocation import Invocation
from console.cli.narrate import Narrator
from console.cli.render import MACHINE, Renderer
from console.config.model import SETTINGS, Settings
from console.operations.context import Context

ROOT = Path(__file__).resolve().parents[2]
MAIN = "import sys; from console.cli.main import main; sys.exit(main())"
LIMIT_S = 60


@dataclass(frozen=True)
class Ran:
    """What one run of the program left behind."""

    code: int
    out: str
    err: str


def clean_environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment with directories of its own under `home` and no REPRIEVE_ variable but those of `extra`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("REPRIEVE_", "XDG_"))}
    for name in ("NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED"):
        kept.pop(name, None)
    dirs = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE", "DATA")}
    return {**kept, "HOME": str(home), "XDG_CONFIG_DIRS": str(home / "etc"), **dirs, **(extra or {})}


def reprieve(
    home: Path, *argv: str, environ: Mapping[str, str] | None = None, stdin: str = "", code: str = MAIN
) -> Ran:
    """Run `reprieve ARGV` in a process of its own, without a terminal."""
    done = subprocess.run(
        [sys.executable, "-c", code, *argv],
        cwd=ROOT,
        env=clean_environment(home, environ),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


class Terminal(io.StringIO):
    """Text in memory that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def invocation(
    context: Context | None = None,
    arguments: dict[str, Any] | None = None,
    *,
    output: str = "table",
    clock: Clock | None = None,
    answer: str = "",
    words: str = "jobs save",
    **options: Any,
) -> Invocation:
    """An Invocation that writes to memory: `.renderer.stream` and `.narrator.stream` are StringIO.

    `answer` is what the user types when asked; `options` are further fields (`yes=True`, `dry_run=True` …).
    """
    ticking = clock or SystemClock()

    def open_context() -> Context:
        if context is None:
            raise AssertionError("this test gave no context")
        return context

    return Invocation(
        words=words,
        arguments=arguments or {},
        clock=ticking,
        renderer=Renderer(io.StringIO(), output),
        narrator=Narrator(io.StringIO(), ticking, machine=output in MACHINE),
        settings=Settings(
            {item.name: item.default for item in SETTINGS}, {item.name: "default" for item in SETTINGS}
        ),
        open_context=open_context,
        stdin=io.StringIO(answer),
        **options,
    )
