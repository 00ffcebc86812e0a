"""The freeze ledger: what may stand still now, written and synced before it is frozen.

The watchdog reads it, so that a job frozen for a save is thawed in time even when the guard is dead.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backends.engines.port import Process
from backends.errors import ReprieveError
from backends.guard.disk import durable
from backends.records.strict import read, to_document

BOUNDED = ("save", "stop")  # thawed when longer than max_freeze; `zombie` and `isolated` never


@dataclass(frozen=True)
class Entry:
    """One process tree that may be frozen."""

    uid: str
    process: Process
    engine: str
    reason: str  # save | stop | zombie | isolated
    since: float  # boot clock, before the freeze
    boot_id: str
    max_freeze_s: float


class Freezes:
    """The ledger's files, one per job."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def enter(self, entry: Entry) -> None:
        """Write down that this tree is about to be frozen; synced before return."""
        durable.write(self._path(entry.uid), to_document(entry))

    def leave(self, uid: str) -> None:
        """The tree runs (or is gone)."""
        durable.remove(self._path(uid))

    def entries(self) -> list[Entry]:
        """All entries that can be read; one that cannot be read is left out (it thaws nothing)."""
        found = []
        for path in sorted(self._directory.glob("*.json")):
            try:
                document = durable.read(path)
                if document is not None:
                    found.append(read(Entry, document, what=str(path)))
            except ReprieveError:
                continue
        return found

    def _path(self, uid: str) -> Path:
        return self._directory / f"{uid}.json"


def too_long(entry: Entry, now: float, boot_id: str) -> bool:
    """Whether the watchdog must thaw this: frozen for a save or stop, this boot, longer than allowed."""
    return entry.reason in BOUNDED and entry.boot_id == boot_id and now - entry.since > entry.max_freeze_s
