"""Where a practice fleet keeps its files: one directory, marked as ours, so that it may be emptied."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from backends.clouds.practice.cloud import IDENTITY
from backends.errors import UsageError
from backends.xdg import base, private

_TRIES = 1000  # each goes on behind the file that was gone
_MARKER = "practice-fleet"
_TEXT = "This directory belongs to a practice fleet; its next start empties it.\n"


def default_directory() -> Path:
    """Where `reprieve practice` and the context `practice` look."""
    return base("STATE") / "practice"


@dataclass(frozen=True)
class Layout:
    """Paths below a fleet's directory."""

    directory: Path

    @property
    def control(self) -> Path:
        """The daemon's control socket."""
        return self.directory / "control.sock"

    @property
    def identity(self) -> Path:
        """The private key that all hosts accept."""
        return self.directory / IDENTITY

    @property
    def store(self) -> Path:
        """The fleet's store, at the same path inside namespace hosts."""
        return self.directory / "store"

    @property
    def store_url(self) -> str:
        """The store as jobs name it."""
        return self.store.as_uri()

    @property
    def fleet(self) -> Path:
        """Node and job records (contract section 4)."""
        return self.directory / "fleet"

    @property
    def state(self) -> Path:
        """The console's ledger and keys for this fleet."""
        return self.directory / "state"

    @property
    def hosts(self) -> Path:
        """The hosts' disks."""
        return self.directory / "hosts"

    @property
    def log(self) -> Path:
        """What the daemon had to say."""
        return self.directory / "daemon.log"

    @property
    def record(self) -> Path:
        """The daemon's process ids and their start times."""
        return self.directory / "daemon.json"

    @property
    def context(self) -> Path:
        """What the console's context `practice` reads."""
        return self.directory / "context.json"

    @property
    def lock(self) -> Path:
        """Held as long as a daemon (or its starter) lives."""
        return self.directory / "lock"

    def claim(self) -> None:
        """Create the directory, or check that it is one of ours.

        Raises:
            UsageError: it holds other files.
        """
        private(self.directory)
        marker = self.directory / _MARKER
        if not marker.exists():
            if any(self.directory.iterdir()):
                raise UsageError(
                    f"{self.directory} is not empty and not a practice fleet's; nothing was touched",
                    hint="name an empty or new directory",
                )
            marker.write_text(_TEXT)

    def empty(self) -> None:
        """Remove everything but the marker and the lock; the daemon must be gone."""
        if not (self.directory / _MARKER).exists():
            return
        for path in self.directory.iterdir():
            if path.name in (_MARKER, self.lock.name):
                continue
            if path.is_dir() and not path.is_symlink():
                _remove_tree(path)
            else:
                path.unlink(missing_ok=True)


def _remove_tree(path: Path) -> None:
    """Remove a tree from which another program (the fleet's terminal, as it ends) may be removing too."""
    for _ in range(_TRIES):
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if not path.exists():
                return
        else:
            return
    shutil.rmtree(path)
