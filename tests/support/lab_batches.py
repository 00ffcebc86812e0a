"""Batches of restores on real hosts whose consoles are killed on the way; small jobs, so that many cost little."""

from __future__ import annotations

import asyncio
import getpass
import json
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backends.ledger.open import open_ledger
from backends.ledger.records import Word
from backends.records.job import Job
from console.operations.common import runs
from console.operations.demo.telling import context_of
from console.operations.fleet import Fleet
from console.operations.flows.protect import protect
from console.operations.real.opening import open_fleet
from tests.support.lab import CLOCK, ROOT, Lab, environment

AT_ONCE = 4
PATIENCE_S = 600.0  # for a whole batch on a busy machine
COUNTER = """
import pathlib, sys, time
place = pathlib.Path(sys.argv[-1])
place.mkdir(parents=True, exist_ok=True)
with open(place / "progress.txt", "a", buffering=1) as log:
    number = 0
    while True:
        number += 1
        print(number, file=log)
        time.sleep(0.5)
"""


async def start_all(fleet: Lab, homes: dict[str, str], interval_s: float) -> None:
    """Start a counting job by name on its host, each under guard with a good save; a few at once, over one console."""
    opened = open_fleet(context_of(fleet.running), CLOCK, "setup")
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str, host: str) -> None:
        async with gate:
            await _start(opened, name, host, interval_s)

    try:
        await asyncio.gather(*(one(name, host) for name, host in homes.items()))
    finally:
        await opened.close()


async def _start(opened: Fleet, name: str, host: str, interval_s: float) -> None:
    line = (sys.executable, "-S", "-s", "-c", COUNTER, f"/data/{name}")
    job = Job(
        name=name, node=host, command=line, engine="criu", interval_s=interval_s, files=(f"/data/{name}",)
    )
    opened.records.put_job(job)
    run = runs.open_run(opened, "start", [("1", name, {})])
    await protect(opened, job, "start", run.id, "1", lambda _: None)
    opened.ledger.close_item(run.id, "1", "done", "", {})
    runs.close(opened, run.id)


def give_word(fleet: Lab, names: Sequence[str], epoch: int, url: str | None = None) -> None:
    """The operator's typed word that `epoch` of each job is dead, as `--i-know-it-is-dead` keeps it."""
    opened = open_fleet(context_of(fleet.running), CLOCK, "setup")
    with closing(open_ledger(opened.context.state, url)) as ledger:
        for name in names:
            uid = opened.job(name).uid
            ledger.add_word(Word(CLOCK.wall(), getpass.getuser(), "dead", name, uid, epoch))
    asyncio.run(opened.close())


@dataclass
class Consoles:
    """Command lines that work on one batch, killed and begun again."""

    fleet: Lab
    moments: random.Random
    url: str | None = None  # of a shared ledger
    kills: int = 0
    cpu_s: float = 0.0  # of all consoles, once they ended
    children: list[subprocess.Popen[str]] = field(default_factory=list)

    def begin(self, *words: str, at_once: int = AT_ONCE) -> subprocess.Popen[str]:
        """One console; its lines are kept for its end."""
        shared = {"REPRIEVE_LEDGER": self.url} if self.url else {}
        line = [sys.executable, "-m", "console.cli.main", "--context", "practice", "batch", *words]
        child = subprocess.Popen(
            [*line, "--yes", "-o", "ndjson", "--max-parallel", str(at_once)], cwd=ROOT,
            env={**environment(self.fleet.state), **shared}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.children.append(child)
        return child

    def end(self, child: subprocess.Popen[str]) -> list[dict[str, Any]]:
        """Wait for a console; what it told, line by line."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out, _ = child.communicate(timeout=PATIENCE_S)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_s += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return [json.loads(line) for line in out.splitlines() if line.endswith("}")]

    def kill(self, child: subprocess.Popen[str], told: int) -> None:
        """SIGKILL a console when it has told of `told` items and some time more."""
        assert child.stdout is not None
        for _ in range(told):
            if not child.stdout.readline():
                break
        CLOCK.sleep(self.moments.uniform(0.0, 1.0))
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            self.kills += 1
        self.end(child)

    def run(self) -> str:
        """The id of the one batch that the ledger knows; waits until it is journalled."""
        state = context_of(self.fleet.running).state
        for _ in range(600):
            with closing(open_ledger(state, self.url)) as ledger:
                found = [run.id for run in ledger.runs(1000) if run.kind == "batch"]
            if found:
                assert len(found) == 1, found
                return found[0]
            CLOCK.sleep(0.1)
        raise AssertionError("no batch was journalled within 60 s")

    def moments_of(self, items: int, kills: int) -> list[int]:
        """After how many items told each console dies: random, rising, none after the last item."""
        return sorted(self.moments.randrange(items) for _ in range(kills))


def alone(consoles: Consoles, file: Path, items: int, kills: int) -> list[dict[str, Any]]:
    """One console at a time: killed, and its batch resumed by the next; the last one's lines."""
    child = consoles.begin("restore", str(file))
    run = consoles.run()
    for told in consoles.moments_of(items, kills):
        consoles.kill(child, told)
        child = consoles.begin("resume", run)
    return consoles.end(child)


def together(consoles: Consoles, file: Path, items: int, kills: int) -> list[dict[str, Any]]:
    """Two consoles at once on a shared ledger: one of them is killed again and again, and another joins."""
    pair = [consoles.begin("restore", str(file), at_once=AT_ONCE // 2)]
    run = consoles.run()
    pair.append(consoles.begin("resume", run, at_once=AT_ONCE // 2))
    for told in consoles.moments_of(items, kills):
        consoles.kill(pair.pop(consoles.moments.randrange(2)), told)
        pair.append(consoles.begin("resume", run, at_once=AT_ONCE // 2))
    first, second = [consoles.end(child) for child in pair]
    ends = [{line["job"]: line["state"] for line in said if "job" in line} for said in (first, second)]
    assert ends[0] == ends[1], "both controllers tell of the same ends"
    return first


def write_items(path: Path, targets: dict[str, str]) -> Path:
    """A batch file: each job to its host."""
    path.write_text("job,to\n" + "".join(f"{name},{host}\n" for name, host in targets.items()))
    return path


def ends_of(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The item lines by job."""
    return {line["job"]: line for line in lines if line["schema"] == "reprieve/batch-item/v1"}


def each_lives_once(fleet: Lab, ends: dict[str, dict[str, Any]], dead: dict[str, int]) -> dict[str, int]:
    """Every job has one live process beside its zombie in `dead`, or a failure with a name; the process ids."""
    living: dict[str, int] = {}
    for name, end in ends.items():
        found = [pid for pid in fleet.processes(name) if pid != dead.get(name)]
        named_failure = end["state"] in ("failed", "refused") and end["reason"]
        assert len(found) == 1 or (not found and named_failure), (name, found, end)
        living.update(dict.fromkeys([name], found[0]) if found else {})
    return living


@contextmanager
def cut_off(fleet: Lab, hosts: Sequence[str]) -> Iterator[None]:
    """The console hears nothing of `hosts` meanwhile; they go on saving."""
    for host in hosts:
        fleet.act("partition", host=host)
    try:
        yield
    finally:
        for host in hosts:
            fleet.act("heal", host=host)
