"""A practice fleet in namespaces and the real command line on it, for tests of bad days."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.clock import SystemClock
from backends.practice import launch
from tests.support.practice import wait_until

ROOT = Path(__file__).resolve().parents[2]
CLOCK = SystemClock()
PATIENCE_S = 60.0


def environment(state: Path) -> dict[str, str]:
    """An environment whose state and configuration are the test's own; the cache of closures stays the user's."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("REPRIEVE_")}
    return {
        **kept,
        "XDG_STATE_HOME": str(state),
        "XDG_CONFIG_HOME": str(state / "config"),
        "XDG_CONFIG_DIRS": str(state / "etc"),
    }


@dataclass(frozen=True)
class Ran:
    """What one command left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its one JSON document."""
        return json.loads(self.out)


def reprieve(state: Path, *words: str, timeout_s: float = 120.0) -> Ran:
    """Run the command line in a process of its own, without a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "console.cli.main", *words],
        cwd=ROOT, env=environment(state), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=timeout_s, check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)


def until(what: str, condition: Callable[[], Any], seconds: float = PATIENCE_S) -> None:
    """Wait for `condition`; AssertionError naming `what` when it does not come."""
    assert wait_until(lambda: bool(condition()), seconds), f"waited {seconds:.0f} s for: {what}"


class Lab:
    """One running fleet."""

    def __init__(self, state: Path, running: launch.Running) -> None:
        self.state, self.running = state, running

    def cli(self, *words: str, code: int = 0, timeout_s: float = 120.0) -> Ran:
        """One command on the fleet; its exit code must be `code`."""
        ran = reprieve(self.state, "--context", "practice", *words, timeout_s=timeout_s)
        assert ran.code == code, f"{' '.join(words)}: exit {ran.code}, expected {code}\n{ran.out}\n{ran.err}"
        return ran

    def act(self, verb: str, **fields: Any) -> dict[str, Any]:
        """One verb of the practice daemon."""
        return self.running.client.call(verb, **fields)

    def start(
        self, name: str, host: str, *options: str, pause_s: float = 0.05, steps: int = 1_000_000
    ) -> None:
        """Start the example training job in a small form, under guard, with one good save behind it."""
        line = [*training(steps), "--step-seconds", str(pause_s), "--directory", f"/data/{name}"]
        self.cli(
            "jobs", "run", name, "--node", host, "--engine", "criu", "--files", f"/data/{name}",
            *options, "--yes", "--", *line,
        )  # fmt: skip

    def show(self, name: str) -> dict[str, Any]:
        """The job as `jobs show` tells it."""
        shown: dict[str, Any] = self.cli("jobs", "show", name, "-o", "json").document
        return shown

    def checkpoints(self, name: str) -> list[str]:
        """Its checkpoints, newest first."""
        listed = self.cli("checkpoints", "list", name, "-o", "json").document["items"]
        return [item["checkpoint"] for item in listed]

    def processes(self, name: str) -> dict[int, str]:
        """Process id → state letter of every process of the job on this fleet's hosts, ended ones left out."""
        found = {}
        wanted, store = f"\0/data/{name}\0".encode(), str(self.running.layout.store)
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if wanted in (entry / "cmdline").read_bytes() and store in (entry / "mountinfo").read_text():
                    found[int(entry.name)] = state_of(entry)
        return {pid: state for pid, state in found.items() if state not in "ZX"}

    def running_pids(self, name: str) -> list[int]:
        """Those of them that are not stopped; a stop for a save passes, so several looks are taken."""
        for _ in range(20):
            found = [pid for pid, state in self.processes(name).items() if state not in "Tt"]
            if found:
                return found
            CLOCK.sleep(0.1)
        return []

    def steps(self, name: str, pid: int | None = None) -> int:
        """Lines in the job's progress file, seen through `pid` (its one process by default)."""
        if pid is None:
            (pid,) = self.processes(name)
        return len(Path(f"/proc/{pid}/root/data/{name}/progress.txt").read_text().splitlines())

    def moves(self, name: str, seconds: float = PATIENCE_S) -> None:
        """Wait until the job makes progress."""
        before = self.steps(name)
        until(f"{name} goes on", lambda: self.steps(name) > before + 2, seconds)


def training(steps: int) -> list[str]:
    """The example training job in a small form; its directory and its pause are still to be said."""
    script = str(ROOT / "examples" / "train.py")
    return [sys.executable, script, "--steps", str(steps), "--state-mib", "5"]


def state_of(entry: Path) -> str:
    """The state letter in /proc/PID/stat."""
    return (entry / "stat").read_text().rpartition(")")[2].split()[0]


@contextlib.contextmanager
def lab(state: Path, hosts: int, binds: tuple[Path, ...] = ()) -> Iterator[Lab]:
    """A fleet with guards installed; its hosts see the directories `binds` of the machine, read-only."""
    place = state / "reprieve" / "practice"
    place.parent.mkdir(parents=True)
    with launch.start(place, hosts, "namespaces", binds=binds) as running:
        found = Lab(state, running)
        found.cli("fleet", "install", "--yes", timeout_s=300.0)
        yield found
