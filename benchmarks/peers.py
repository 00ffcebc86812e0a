"""Other tools that `benchmarks/checkpoint.py` measures beside ours: cp, restic, borg, casync, as Debian packages them."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

TOOLS = ("restic", "borg", "casync")


@dataclass(frozen=True)
class Cost:
    """What one step took."""

    wall_s: float
    cpu_s: float
    stored_bytes: int = 0  # what the step added to the store


class Peer:
    """One tool with a fresh repository of its own."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self._home = home
        self._repository = home / "repository"
        self._saves = 0
        home.mkdir(parents=True)
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "RESTIC_PASSWORD": "benchmark",
            "RESTIC_REPOSITORY": str(self._repository),
            "BORG_REPO": str(self._repository),
            "BORG_BASE_DIR": str(home),
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        }
        first = {"restic": ["restic", "init"], "borg": ["borg", "init", "-e", "none"]}.get(name)
        if first is not None:
            self._run(first, home)
        self._repository.mkdir(exist_ok=True)

    def save(self, source: Path) -> Cost:
        """One more save of a directory, on the disk when this returns."""
        self._saves += 1
        before = size_of(self._repository)
        argv = {
            "restic": ["restic", "backup", "-q", "."],
            "borg": ["borg", "create", f"::{self._saves}", "."],
            "casync": [
                "casync",
                "make",
                f"--store={self._repository}/store",
                f"{self._repository}/{self._saves}.caidx",
                ".",
            ],
        }[self.name]
        cost = self._run(argv, source)
        return Cost(cost.wall_s, cost.cpu_s, size_of(self._repository) - before)

    def restore(self, into: Path) -> Cost:
        """The last save, into a new directory."""
        into.mkdir()
        argv = {
            "restic": ["restic", "restore", "-q", "latest", "--target", "."],
            "borg": ["borg", "extract", f"::{self._saves}"],
            "casync": [
                "casync",
                "extract",
                f"--store={self._repository}/store",
                f"{self._repository}/{self._saves}.caidx",
                ".",
            ],
        }[self.name]
        return self._run(argv, into)

    def _run(self, argv: list[str], where: Path) -> Cost:
        settle()
        before, begun = _children_s(), time.perf_counter()
        subprocess.run(
            argv, cwd=where, env=self._environment, check=True, stdin=subprocess.DEVNULL, capture_output=True
        )
        return Cost(time.perf_counter() - begun, _children_s() - before)


def here() -> list[str]:
    """The peers that this machine has."""
    return [name for name in TOOLS if shutil.which(name) is not None]


def settle() -> None:
    """Bring what earlier steps left in the page cache to the disk, so that no step pays for another."""
    os.sync()


def copy_synced(source: Path, target: Path) -> Cost:
    """`cp` of a directory, then fsync of what it wrote."""
    settle()
    before, begun = _children_s() + time.process_time(), time.perf_counter()
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    for path in (*target.rglob("*"), target):
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    wall_s = time.perf_counter() - begun
    return Cost(wall_s, _children_s() + time.process_time() - before, size_of(target))


def copy(source: Path, target: Path) -> Cost:
    """`cp` of a directory."""
    settle()
    before, begun = _children_s(), time.perf_counter()
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    return Cost(time.perf_counter() - begun, _children_s() - before)


def size_of(path: Path) -> int:
    """Bytes of all files below."""
    return sum(found.stat().st_size for found in path.rglob("*") if found.is_file())


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
