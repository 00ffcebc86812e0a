"""The fleet's records in its TOML files, read again when a file changes."""

from __future__ import annotations

from pathlib import Path

from backends.inventory import load, save
from backends.inventory.model import Inventory, Pool, Renting
from backends.records.job import Job
from backends.records.node import Node

Stamp = tuple[tuple[str, int, int], ...]


class TomlRecords:
    """Nodes and jobs of a fleet file or directory."""

    def __init__(self, fleet: Path) -> None:
        self._fleet = fleet
        self._stamp: Stamp | None = None
        self._inventory = Inventory()

    def inventory(self) -> Inventory:
        """The whole inventory; UsageError with file and line when a file is wrong."""
        stamp = self._look()
        if stamp != self._stamp:
            self._inventory, self._stamp = load.load(self._fleet), stamp
        return self._inventory

    def _look(self) -> Stamp:
        stamp = []
        for path in load.files_of(self._fleet):
            try:
                found = path.stat()
            except OSError:
                continue
            stamp.append((str(path), found.st_mtime_ns, found.st_ino))
        return tuple(stamp)

    def nodes(self) -> dict[str, Node]:
        """All nodes by name."""
        return dict(self.inventory().nodes)

    def jobs(self) -> dict[str, Job]:
        """All jobs by name."""
        return dict(self.inventory().jobs)

    def pools(self) -> dict[str, Pool]:
        """All pools with a record, by id."""
        return dict(self.inventory().pools)

    def notices(self) -> tuple[str, ...]:
        """Queues in which providers tell of machines."""
        return self.inventory().notices

    def put_pool(self, pool: Pool) -> None:
        """Add or replace a pool's record; UsageError when it stands in a file of the user's own."""
        save.put_pool(self._fleet, pool)

    def renting(self) -> Renting:
        """What the fleet may rent by itself."""
        return self.inventory().renting

    def put_node(self, node: Node) -> None:
        """Add or replace a node's record; UsageError when it stands in a file of the user's own."""
        save.add_node(self._fleet, node, replace=True)

    def remove_node(self, name: str) -> None:
        """Drop a node's record."""
        save.remove_node(self._fleet, name)

    def may_write_job(self, name: str) -> bool:
        """Whether this program may write the job's record."""
        return self.inventory().ours("jobs", name)

    def put_job(self, job: Job) -> None:
        """Add or replace a job's record; UsageError when it stands in a file of the user's own."""
        save.put_job(self._fleet, job)

    def remove_job(self, name: str) -> None:
        """Drop a job's record."""
        save.remove_job(self._fleet, name)
