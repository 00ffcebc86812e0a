"""Batches of restores on real hosts: consoles die with SIGKILL in the middle, and hosts said to be dead come back.

A seed is printed; REPRIEVE_TEST_SEED repeats it. `make prove` does the same with more jobs, kills and zombies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backends.ids import CheckpointId
from tests.support.lab import Lab, until
from tests.support.lab_batches import (
    Consoles,
    alone,
    cut_off,
    each_lives_once,
    ends_of,
    give_word,
    start_all,
    together,
    write_items,
)
from tests.support.objects import UnavailableError
from tests.support.postgres import postgres
from tests.support.reclaims import able_lab, host, seeded

pytestmark = pytest.mark.lab
INTERVAL_S = 15.0
PATIENCE_S = 180.0
ZOMBIES = 200
Ends = dict[str, dict[str, Any]]


@pytest.mark.parametrize(("jobs", "kills"), [(20, 3), pytest.param(60, 20, marks=pytest.mark.prove)])
def test_killed_consoles_and_hosts_that_come_back(tmp_path: Path, jobs: int, kills: int) -> None:
    """One console after the other brings all back from hosts cut off; then two controllers do, from hosts taken."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: the extra reprieve[postgres]")
    rng = seeded("moments of the kills")
    names = [f"j{number:02}" for number in range(jobs)]
    homes = {name: host(number % 2) for number, name in enumerate(names)}
    away = {name: host(2 + number % 2) for number, name in enumerate(names)}
    others = {
        name: host(1 - number % 2) for number, name in enumerate(names)
    }  # its own home holds the zombie
    with ExitStack() as held:
        try:
            url = held.enter_context(postgres())
        except UnavailableError as error:
            pytest.skip(str(error))
        fleet = held.enter_context(able_lab(tmp_path / "state", 4))
        asyncio.run(start_all(fleet, homes, INTERVAL_S))
        zombies = only_processes(fleet, names)
        consoles = Consoles(fleet, rng)
        with cut_off(fleet, (host(0), host(1))):
            give_word(fleet, names, 1)
            told = alone(consoles, write_items(tmp_path / "cut.csv", away), jobs, kills)
            first = all_are_back(fleet, ends_of(told), away, zombies)
            frozen(fleet, zombies)
        report("one console after the other", consoles, jobs)
        assert "zombie" in fleet.cli("fleet", "list", "-o", "json").out
        for number in (2, 3):
            fleet.act("reclaim", host=host(number))
        consoles = Consoles(fleet, rng, url)
        told = together(consoles, write_items(tmp_path / "taken.csv", others), jobs, kills)
        second = all_are_back(fleet, ends_of(told), others, zombies)
        report("two controllers on PostgreSQL", consoles, jobs)
        none_is_stale(fleet, first, second)
        frozen(fleet, zombies)


@pytest.mark.prove
def test_two_hundred_zombies(tmp_path: Path) -> None:
    """Round after round all jobs leave two hosts that are alive and cut off, and that come back afterwards."""
    rounds = ZOMBIES // 20
    names = [f"j{number:02}" for number in range(20)]
    with able_lab(tmp_path / "state", 2 * rounds + 2) as fleet:
        asyncio.run(start_all(fleet, {name: host(n % 2) for n, name in enumerate(names)}, INTERVAL_S))
        before: Ends = {name: {"epoch": 1, "checkpoint": "1.1"} for name in names}
        stale = 0
        for number in range(rounds):
            old = (host(2 * number), host(2 * number + 1))
            new = {name: host(2 * number + 2 + each % 2) for each, name in enumerate(names)}
            zombies = only_processes(fleet, names)
            with cut_off(fleet, old):
                give_word(fleet, names, number + 1)
                file = write_items(tmp_path / f"{number}.csv", new)
                consoles = Consoles(fleet, seeded("no kill"))
                told = consoles.end(consoles.begin("restore", str(file)))
                after = all_are_back(fleet, ends_of(told), new, zombies)
                frozen(fleet, zombies)
            frozen(fleet, zombies)
            stale += none_is_stale(fleet, before, after) if number else 0
            before = after
            for each in old:
                fleet.act("reclaim", host=each)
    print(f"{rounds * len(names)} takeovers with a returning zombie, {stale} stale saves, 0 of them chosen")


def only_processes(fleet: Lab, names: Sequence[str]) -> dict[str, int]:
    """The one process of each job."""
    found = {}
    for name in names:
        (found[name],) = fleet.processes(name)
    return found


def all_are_back(fleet: Lab, ends: Ends, targets: dict[str, str], zombies: dict[str, int]) -> Ends:
    """Each job has one live process, on the node it was sent to, and no item failed."""
    assert set(ends) == set(targets)
    living = each_lives_once(fleet, ends, zombies)
    reasons = {name: end["reason"] for name, end in ends.items() if name not in living}
    assert reasons == {}
    assert {name: end["node"] for name, end in ends.items()} == targets
    return ends


def frozen(fleet: Lab, zombies: dict[str, int]) -> None:
    """Each old process stands still, for good: none goes on when its host is heard again."""
    for name, pid in zombies.items():
        until(f"{name} is frozen", partial(stands, fleet, name, pid), PATIENCE_S)
        stood_at = fleet.steps(name, pid)
        assert fleet.steps(name, pid) == stood_at


def stands(fleet: Lab, name: str, pid: int) -> bool:
    """Whether that process is stopped."""
    return fleet.processes(name).get(pid) == "T"


def none_is_stale(fleet: Lab, first: Ends, second: Ends) -> int:
    """What the second restore of each job went on from was saved by the first's epoch, or is what that began with.

    Returns how many saves the zombies made after their epochs had ended.
    """
    stale = 0
    for name, end in second.items():
        began = CheckpointId.parse(first[name]["checkpoint"])
        chosen = CheckpointId.parse(end["checkpoint"])
        assert chosen.epoch == first[name]["epoch"] or chosen == began, (name, end)
        listed = fleet.running.layout.store / "jobs" / uid_of(fleet, name) / "checkpoints"
        saves = [CheckpointId.parse(entry.name) for entry in listed.iterdir()]
        stale += sum(save.epoch == began.epoch and save > began for save in saves)
    print(f"{len(second)} jobs: {stale} stale saves of zombies, 0 of them chosen")
    return stale


def uid_of(fleet: Lab, name: str) -> str:
    """The job's uid, from the directory that names it in the store."""
    for entry in (fleet.running.layout.store / "jobs").iterdir():
        if f'"{name}"' in (entry / "job.json").read_text():
            return entry.name
    raise AssertionError(name)


def report(what: str, consoles: Consoles, jobs: int) -> None:
    print(
        f"{what}: {jobs} items, {consoles.kills} kills, {consoles.cpu_s / jobs:.2f} s CPU of consoles an item"
    )
