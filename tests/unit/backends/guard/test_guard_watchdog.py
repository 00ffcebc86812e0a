"""The watchdog thaws what stands still too long for a save, and nothing else; it restarts a guard with patience."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.engines.port import Process, start_ticks
from backends.errors import FullError
from backends.guard import watchdog as module
from backends.guard.disk import durable
from backends.guard.disk.freezes import Entry, Freezes, too_long
from backends.guard.disk.layout import Layout, boot_id
from backends.guard.spawn import is_held, take_lock
from backends.guard.watchdog import Watchdog

ENTRY = Entry("u" * 20, Process(1, 1), "fake", "save", 100.0, "boot", 5.0)


@pytest.mark.parametrize(
    ("entry", "now", "thaws"),
    [
        (ENTRY, 105.0, False),
        (ENTRY, 105.1, True),
        (replace(ENTRY, reason="stop"), 106.0, True),
        (replace(ENTRY, reason="zombie"), 9999.0, False),
        (replace(ENTRY, reason="isolated"), 9999.0, False),
        (replace(ENTRY, boot_id="another"), 9999.0, False),
    ],
)
def test_too_long(entry: Entry, now: float, thaws: bool) -> None:
    assert too_long(entry, now, "boot") == thaws


class Engine:
    """Notes whom it was told to thaw."""

    def __init__(self) -> None:
        self.thawed: list[int] = []

    def thaw(self, process: Process) -> None:
        self.thawed.append(process.pid)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(tmp_path)
    found.prepare()
    return found


def me(pid: int = os.getpid()) -> Process:
    ticks = start_ticks(pid)
    assert ticks is not None
    return Process(pid, ticks)


def watchdog(layout: Layout, engine: Any, respawn: list[str] | None = None) -> Watchdog:
    return Watchdog(layout, lambda: {"fake": engine}, respawn or [], SystemClock())


def test_it_thaws_by_the_ledger(layout: Layout) -> None:
    engine, freezes = Engine(), Freezes(layout.frozen)
    long_ago = SystemClock().monotonic() - 10
    entry = replace(ENTRY, process=me(), since=long_ago, boot_id=boot_id())
    freezes.enter(replace(entry, uid="a" * 20))
    freezes.enter(replace(entry, uid="b" * 20, reason="zombie"))
    freezes.enter(
        replace(entry, uid="c" * 20, process=replace(me(), start_ticks=1))
    )  # the pid was used again
    freezes.enter(replace(entry, uid="d" * 20, engine="unknown"))
    (layout.frozen / "e.json").write_text("{not json")
    lock = take_lock(layout.lock)
    assert watchdog(layout, engine).look()
    assert engine.thawed == [os.getpid()]
    assert lock is not None
    os.close(lock)


def test_it_stays_while_something_may_be_frozen_and_goes_when_told_to(layout: Layout) -> None:
    engine = Engine()
    layout.lock.touch()
    layout.ended.write_text("{}")
    now = SystemClock().monotonic()
    Freezes(layout.frozen).enter(replace(ENTRY, process=me(), since=now, boot_id=boot_id()))
    assert watchdog(layout, engine).look()
    Freezes(layout.frozen).leave(ENTRY.uid)
    assert not watchdog(layout, engine).look()


def test_it_goes_when_the_installation_is_gone(layout: Layout) -> None:
    assert not watchdog(layout, Engine()).look()


def test_it_starts_a_dead_guard_again_with_growing_patience(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[float] = []

    class Clock(SystemClock):
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    class Child:
        def poll(self) -> int:
            return 1

    clock = Clock()

    def spawned(argv: list[str], log: Path) -> Child:
        starts.append(clock.now)
        return Child()

    monkeypatch.setattr(module, "detached", spawned)
    layout.lock.touch()
    dog = Watchdog(layout, dict, ["guard"], clock)
    for step in range(60):
        clock.now = step * 0.5
        assert dog.look()
    gaps = [after - before for before, after in pairwise(starts)]
    assert len(starts) >= 3
    assert gaps == sorted(gaps)
    assert gaps[-1] > gaps[0]
    layout.ended.write_text("{}")
    before = len(starts)
    assert not dog.look()
    assert len(starts) == before


def test_locks_say_who_lives(layout: Layout) -> None:
    assert not is_held(layout.lock)
    lock = take_lock(layout.lock)
    assert lock is not None
    assert is_held(layout.lock)
    assert take_lock(layout.lock) is None
    os.close(lock)
    assert not is_held(layout.lock)


def test_durable_files(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert durable.read(path) is None
    assert durable.create(path, {"n": 1})
    assert not durable.create(path, {"n": 2})
    assert durable.read(path) == {"n": 1}
    durable.write(path, {"n": 3})
    assert durable.read(path) == {"n": 3}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["x.json"]
    durable.remove(path)
    durable.remove(path)
    with pytest.raises(FullError, match="cannot be written"):
        durable.write(tmp_path / "missing" / "x.json", {})
