"""Real programs for the lab: where they come from, and how a user starts, saves and moves one."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.errors import ReprieveError
from backends.nodes.closures import Closure, debian_closure
from backends.xdg import base, private
from tests.support.lab import ROOT, Lab, until
from tests.support.practice import Said, host_of, ssh

HERE = Path(__file__).resolve().parent
PATIENCE_S = 600.0  # proofs: what comes late on a busy machine is no failure


class MissingError(ReprieveError):
    """A program cannot be had here."""


def torch_environment() -> Path:
    """An environment with PyTorch for CPUs, made once from requirements/programs.txt and kept in the cache.

    Raises:
        MissingError: its files cannot be had from the package sources of this machine.
    """
    wanted = ROOT / "requirements" / "programs.txt"
    key = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()[:16]
    place = private(base("CACHE") / "programs") / f"torch-{key}"
    if (place / "complete").exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    done = subprocess.run(
        [str(place / "bin/python"), "-m", "pip", "install", "-q", "--require-hashes", "-r", str(wanted)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        shutil.rmtree(place, ignore_errors=True)
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise MissingError(f"PyTorch for CPUs cannot be installed here: {clean((said or [done.stderr])[-1])}")
    (place / "complete").touch()
    return place


def gromacs() -> Closure:
    """GROMACS of this machine's Debian release, unpacked into the cache; ClosureError when it cannot be had."""
    return debian_closure(base("CACHE"), "gromacs", ("gromacs",))


def gmx(closure: Closure) -> list[str]:
    """The words that start GROMACS with the closure's own libraries."""
    loader, option, libraries, program = closure.argv("usr/bin/gmx")
    return [loader, option, f"{libraries}:{libraries}/blas:{libraries}/lapack", program]


@dataclass(frozen=True)
class Program:
    """A program on a practice host, with a directory of its own."""

    lab: Lab
    name: str

    @property
    def home(self) -> str:
        """Its directory on every host."""
        return f"/data/{self.name}"

    def on(self, host: str, command: str) -> Said:
        """One shell command on a host."""
        described = host_of(self.lab.running.description, host)
        return asyncio.run(
            ssh(described, str(self.lab.running.layout.identity), command, timeout_s=PATIENCE_S)
        )

    def begin(self, host: str, line: str) -> int:
        """Start `line` as one does who logs out again; its process id on the host."""
        started = self.on(
            host,
            f"mkdir -p {self.home} && cd {self.home} && rm -f pid && touch slow && setsid -f "
            f"sh -c 'echo $$ >pid; exec env {line}' </dev/null >job.log 2>&1; "
            "while [ ! -s pid ]; do sleep 0.1; done; cat pid",
        )
        return int(started.out)

    def lines(self, host: str, file: str) -> int:
        """Lines of a file in its directory, 0 when it is not there."""
        return len(self.on(host, f"cat {self.home}/{file}").out.splitlines())

    def gets_going(self, host: str, file: str, count: int = 3) -> None:
        """Wait until the file has `count` lines."""
        until(f"{self.name} is under way", lambda: self.lines(host, file) >= count, PATIENCE_S)

    def doctor(self, host: str, pid: int, code: int = 0) -> dict[str, Any]:
        """What doctor says of the running process."""
        ran = self.lab.cli(
            "jobs", "doctor", "--node", host, "--pid", str(pid), "-o", "json", code=code, timeout_s=PATIENCE_S
        )
        document: dict[str, Any] = ran.document
        return document

    def protect(self, host: str, pid: int) -> None:
        """Take it under guard; no option is named."""
        self.lab.cli(
            "jobs", "protect", self.name, "--node", host, "--pid", str(pid), "--yes", timeout_s=PATIENCE_S
        )

    def move(self, host: str) -> dict[str, Any]:
        """Move it to another host."""
        ran = self.lab.cli(
            "jobs", "move", self.name, "--to", host, "--yes", "-o", "json", timeout_s=PATIENCE_S
        )
        document: dict[str, Any] = ran.document
        return document

    def result(self, host: str, file: str = "DONE") -> str:
        """The text of a file that the program writes at its end."""
        until(
            f"{self.name} ends", lambda: self.on(host, f"test -e {self.home}/{file}").status == 0, PATIENCE_S
        )
        return self.on(host, f"cat {self.home}/{file}").out


def uninterrupted(argv: list[str], home: Path) -> str:
    """What the program leaves in DONE when nothing happens to it."""
    home.mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    subprocess.run([*argv, str(home)], env=environment, stdin=subprocess.DEVNULL, check=True, timeout=600)
    return (home / "DONE").read_text()


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
