"""The programs runc and crun: same verbs, small differences."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import backends
from backends.clean import clean
from backends.clock import Clock
from backends.engines.criu_tool import CriuTool, Ended, read_tail, run_bounded
from backends.engines.explain import explain
from backends.errors import EngineError
from backends.versions import older

ALONE = "backends.engines.oci.alone"
MINIMUM = {"runc": "1.1", "crun": "1.8"}
_QUESTION_S = 30.0
_VERSION = re.compile(r"version (\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Container:
    """One container as its runtime lists it."""

    name: str
    pid: int  # of its first process, on the node
    status: str
    bundle: str


class Runtime:
    """One program. `home` is a directory for the way to CRIU; `root` the runtime's state, None for its default."""

    def __init__(
        self, name: str, program: Path, criu: CriuTool, home: Path, root: Path | None = None
    ) -> None:
        self.name = name
        self.program = program
        self.criu = criu
        self.home = home
        self.root = root

    def problem(self) -> str:
        """Why this program cannot save containers; empty when it can."""
        text = self._ask("--version")
        match = _VERSION.search(text)
        if match is None:
            return f"{self.name} does not tell its version"
        if older(match[1], MINIMUM[self.name]):
            return f"{self.name} {match[1]} is too old: {MINIMUM[self.name]} or newer is needed"
        if self.name == "crun" and "+CRIU" not in text:
            return f"crun {match[1]} was built without CRIU: install one whose --version shows +CRIU, or use runc"
        return ""

    def version(self) -> str:
        """Its version, `unknown` when it does not tell."""
        match = _VERSION.search(self._ask("--version"))
        return match[1] if match else "unknown"

    def containers(self) -> list[Container]:
        """All containers of this runtime; none when it cannot be asked."""
        found: list[Container] = []
        with contextlib.suppress(ValueError, TypeError, KeyError):
            rows = json.loads(self._ask("list", "--format", "json") or "[]") or []
            found += [
                Container(str(r["id"]), int(r["pid"]), str(r["status"]), str(r["bundle"])) for r in rows
            ]
        return found

    def run(
        self,
        verb: str,
        *words: str,
        log: Path,
        deadline_s: float,
        clock: Clock,
        before_kill: Callable[[], None] = lambda: None,
        alone: bool = False,
    ) -> Ended:
        """`checkpoint` or `restore`, ended at the deadline; `alone`: in an empty network namespace."""
        prefix = ["unshare", "-n", sys.executable, "-S", "-s", "-m", ALONE] if alone else []
        argv = [*prefix, *self._argv(), verb, *self._cgroups(verb), *words]
        environment = {**self._environment(), "PYTHONPATH": str(Path(backends.__file__).parent.parent)}
        return run_bounded(
            argv,
            log=log,
            deadline_s=deadline_s,
            clock=clock,
            environment=environment,
            before_kill=before_kill,
        )

    def remove(self, name: str) -> None:
        """Kill a container and forget it; nothing happens when there is none."""
        self._ask("delete", "--force", name)

    def failure(self, verb: str, ended: Ended, log: Path) -> EngineError:
        """What went wrong, in words."""
        if ended.stopped is not None:
            return EngineError(f"the {verb} by {self.name} was ended: {ended.stopped}")
        text = read_tail(log)
        cause = explain(text) if text else None
        said = cause.text if cause else f"{self.name} ended with {ended.code} before CRIU began"
        return EngineError(f"the {verb} by {self.name} failed: {said}", hint=cause.remedy if cause else None)

    def _argv(self) -> list[str]:
        return [str(self.program), *(["--root", str(self.root)] if self.root else [])]

    def _cgroups(self, verb: str) -> list[str]:
        """Limits stay with the node: crun cannot put them back elsewhere, an older runc knows no such mode."""
        known = "ignore" in self._ask(verb, "--help") or self.name == "crun"
        return ["--manage-cgroups-mode", "ignore"] if known else []

    def _environment(self) -> dict[str, str]:
        """Both call `criu` by its name: a small script of ours, first on the path, starts the right one."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        script = self.home / "criu"
        text = f'#!/bin/sh\nexec {shlex.join(self.criu.argv)} "$@"\n'
        if not script.exists() or script.read_text("utf-8") != text:
            fresh = self.home / f"criu.{os.getpid()}"
            fresh.write_text(text, "utf-8")
            fresh.chmod(0o700)
            fresh.replace(script)
        path = f"{self.home}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"
        return {**self.criu.environment, "PATH": path}

    def _ask(self, *words: str) -> str:
        try:
            done = subprocess.run(
                [*self._argv(), *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_QUESTION_S,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return clean(done.stdout[: 1 << 20], limit=1 << 20, lines=True)
