"""Retention by an old plan beside saves and synthetic fulls under way: what is listed afterwards is whole."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.errors import DamagedError
from backends.fakes.fileops import SimulatedOps
from backends.fakes.store import MemoryStore
from backends.ids import CheckpointId
from backends.store import chain, parent
from backends.store.fileops import read_all, write_new
from backends.store.format.manifests import list_job
from backends.store.format.table import drop_table, promote_table
from backends.store.full import make_full
from backends.store.retention import Plan, Policy, make_plan, run
from backends.store.verify import verify_checkpoint
from tests.support.memory import Process, page, save_of
from tests.support.store import UID, Bench

A = 0x400000
STEPS = ("save", "save", "lost table", "verify", "plan", "run", "run while saving", "full", "run while full")


class BusyStore(MemoryStore):
    """Runs retention by the plan at hand just before the next manifest is created."""

    def __init__(self) -> None:
        super().__init__()
        self.then: tuple[Bench, Plan] | None = None

    def create(self, key: str, data: bytes | Iterable[bytes]) -> int:
        if self.then is not None and key.endswith(".json"):
            (bench, decided), self.then = self.then, None
            run(bench.store, decided, bench.clock)
        return super().create(key, data)


class Life:
    """One job's saves, and a retention whose plan may be older than what it meets."""

    def __init__(self, where: Path) -> None:
        self.where, self.store, self.tables = where, BusyStore(), SimulatedOps()
        self.bench = Bench(store=self.store, tables=self.tables)
        self.bench.begin()
        self.seq = 0
        self.plan: Plan | None = None

    def step(self, name: str) -> None:
        if name.startswith("run") and self.plan is None:
            return
        if name == "lost table":
            drop_table(self.tables, UID)
        elif name == "plan":
            key, verify_key = self.bench.key, self.bench.fleet.verify_key
            self.plan = make_plan(self.store, UID, key, verify_key, Policy(1, 0.0), self.bench.clock)
        elif name == "run" and self.plan is not None:
            run(self.store, self.plan, self.bench.clock)
        elif name == "verify":
            self.bench.verified(CheckpointId(1, self.seq))
        else:
            if name.startswith("run") and self.plan is not None:
                self.store.then = (self.bench, self.plan)
            self._full() if name.endswith("full") else self.save()
            self.store.then = None

    def save(self) -> None:
        self.seq += 1
        self.bench.clock.sleep(60)
        memory = Process(7, {A: [page(1), page(2), page(3), page(100 + self.seq)]})
        self.bench.committer().commit(self.seq, save_of(self.where / str(self.seq), [memory]))

    def _full(self) -> None:
        """As the guard does it: only for a save that is due."""
        newest = CheckpointId(1, self.seq)
        noted = self.bench.committer().recover(self.seq - 1)
        if noted is not None and noted.manifest.notes.get("full_due"):
            assert make_full(self.store, UID, newest, self.bench.key, lambda: False) is not None
            promote_table(self.tables, UID)

    def whole(self) -> int:
        found = list_job(self.store, UID).checkpoints
        for identity in found:
            verify_checkpoint(self.store, UID, identity, self.bench.key, self.bench.clock)
        return len(found)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(STEPS), min_size=4, max_size=24))
def test_no_interleaving_leaves_a_save_without_what_it_needs(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    life = Life(tmp_path_factory.mktemp("life"))
    with patch.object(chain, "MAX_SAVES", 2):
        life.save()
        for step in steps:
            life.step(step)
            assert life.whole() >= 1


def test_a_writer_that_takes_an_older_full_save_as_its_parent_is_found(tmp_path: Path) -> None:
    """The planted bug: the rule of `store.parent` left out, and a table of the first save that came back."""
    life = Life(tmp_path)
    life.save()
    table = read_all(life.tables, f"{UID}.table")
    for _ in range(2):
        life.step("lost table")
        life.save()
        life.step("verify")
    life.step("plan")
    drop_table(life.tables, UID)
    write_new(life.tables, f"{UID}.table", table)

    def lenient(store: object, uid: str, identity: CheckpointId, key: object) -> SimpleNamespace:
        return SimpleNamespace(id=identity, parent="1.1", notes={})

    with patch.object(parent, "load_manifest", lenient):
        life.save()
    life.step("run")
    with pytest.raises(DamagedError, match=r"packs/1\.1/0: missing"):
        life.whole()
