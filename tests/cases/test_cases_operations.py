"""Real-world cases of the areas fence, restore and batch, by id."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backends.clock import parse_utc
from backends.errors import IncompatibleError, ReprieveError
from backends.fakes.clock import run
from backends.records.job import Job
from console.operations.common import runs
from console.operations.decide.batch import BatchItem, exit_code
from console.operations.flows import batch
from console.operations.flows.restore import RestoreWish, restore
from console.operations.flows.watch import Watch
from console.operations.looks.checkpoints import save_document
from console.operations.observe import Observer
from console.operations.truth import SaveView
from tests.support.operations import Practice

CASES = Path(__file__).parents[3] / "shared" / "data" / "cases" / "cases.jsonl"


def case(identity: str) -> dict[str, Any]:
    if not CASES.is_file():
        pytest.skip(f"{CASES} is not here: the real-world cases are not part of the repository")
    for line in CASES.read_text("utf-8").splitlines():
        found: dict[str, Any] = json.loads(line)
        if found["id"] == identity:
            return found
    raise AssertionError(identity)


def test_rc_32_ages_follow_the_offset_and_are_never_negative() -> None:
    story = case("RC-32")["input"]
    now, job = parse_utc(story["console_now"]), Job("train", "n0", "a" * 20)
    offsets = {"fast": float(story["node_offset_s"]), "good": 0.0}
    views = [
        SaveView(f"1.{row['seq']}", parse_utc(row["stamp"]), 1, row["node"], "fake", clock_offset_s=offsets[row["node"]])
        for row in story["saves"]
    ]  # fmt: skip
    ages = {view.checkpoint: save_document(job, view, now)["age_s"] for view in views}
    assert ages == {"1.8": 150.0, "1.9": 30.0}
    unknown = SaveView("1.8", parse_utc(story["saves"][0]["stamp"]), 1, "fast", "fake")
    assert save_document(job, unknown, now)["age_s"] == 0.0, "a stamp in the future is no negative age"


def test_rc_32_the_fast_clock_and_its_stamps_are_told(tmp_path: Path) -> None:
    story = case("RC-32")
    offset_s = float(story["input"]["node_offset_s"])
    practice = Practice(tmp_path)
    job = practice.running_job("train", "n0")
    node, told = practice.nodes["n0"], list[str]()
    rows: list[str] = []

    async def main() -> None:
        watch = Watch(practice.fleet("controller"), told.append, every_s=2.0)
        observer, watching = Observer(practice.fleet()), asyncio.create_task(watch.run())
        for off in (0.0, offset_s, 0.0, offset_s):
            node.offset_s = off
            await asyncio.sleep(20.0)
            (row,) = [each for each in (await observer.view()).nodes if each.name == "n0"]
            rows.append(f"{row.state}: {row.reason}")
        await observer.close()
        watch.stopping = True
        await watching

    run(practice.clock, main())
    assert [story["expected"]["warning"] in row for row in rows] == [False, True, False, True]
    assert [row[:4] for row in rows] == ["ok: "] * 4, "it is no trouble of the job"
    assert sum(text.startswith("ALERT n0: node clock +300 s") for text in told) == 2, (
        "once each time it goes wrong"
    )
    row = story["input"]["saves"][0]
    now, at = parse_utc(story["input"]["console_now"]), parse_utc(row["stamp"])
    for known, flag in (
        (offset_s, "node clock at +300 s"),
        (None, "stamped 150 s in the future"),
        (0.0, "in the future"),
    ):
        view = SaveView("1.8", at, 1, row["node"], "fake", clock_offset_s=known)
        assert flag in save_document(job, view, now)["reason"]
    good = SaveView("1.9", now - 30.0, 1, "good", "fake", clock_offset_s=0.0)
    assert save_document(job, good, now)["reason"] == ""


def test_rc_01_unreachable_is_not_dead(tmp_path: Path) -> None:
    told = case("RC-01")
    practice = Practice(tmp_path)
    job = practice.running_job("train-1", "n0")
    node = practice.nodes["n0"]
    practice.cloud.states["i-n0"] = "unknown"
    seen: list[str] = []

    async def main() -> None:
        watch = Watch(practice.fleet("controller"), lambda text: None, every_s=1.0)
        probes = told["input"]["probes"]
        clock_start = asyncio.get_running_loop().time()
        for index, probe in enumerate(probes):
            node.partitioned = probe["r"] == "timeout"
            end = probes[index + 1]["t"] if index + 1 < len(probes) else probe["t"] + 20
            while asyncio.get_running_loop().time() - clock_start < end:
                assert await watch.look() == []
                known = watch.poller.known["n0"]
                state = watch.poller.verdict(known).state
                word = "running" if state in ("ok", "late") else state
                if not seen or seen[-1] != word:
                    seen.append(word)
                await asyncio.sleep(
                    min(5.0, max(0.5, end - (asyncio.get_running_loop().time() - clock_start)))
                )
        await watch.close()

    run(practice.clock, main())
    assert seen == told["expected"]["states"]
    assert practice.side.newest_epoch(job.uid) == 1
    assert practice.where(job.uid) == [("n0", 1)]
    assert not any(verb in ("stop", "restore") for fake in practice.nodes.values() for verb in fake.calls)


def test_rc_12_success_is_not_taken_from_an_exit_code(tmp_path: Path) -> None:
    case("RC-12")
    practice = Practice(tmp_path, nodes=2)
    job = practice.running_job("train", "n0")
    practice.reclaim("n0")
    said = "died after 1.0 s, exit 132: signal 4, illegal instruction"
    practice.nodes["n1"].failures = [said]
    fleet = practice.fleet()

    async def main() -> None:
        opened = runs.open_run(fleet, "restore", [("1", "train", {})])
        await restore(fleet, RestoreWish(job), opened.id, "1", lambda text: None)

    with pytest.raises(ReprieveError, match="signal 4, illegal instruction"):
        run(practice.clock, main())
    assert practice.where(job.uid) == []
    assert fleet.ledger.reclaims() == []
    assert practice.side.checkpoints(job.uid) == ["1.1"]
    assert any(event.kind == "restore.failed" and said in event.text for _, event in fleet.ledger.events())


def test_rc_13_a_node_that_cannot_take_it_is_refused_before_any_image_is_sent(tmp_path: Path) -> None:
    case("RC-13")
    practice = Practice(tmp_path, nodes=2)
    job = practice.running_job("train", "n0")
    practice.reclaim("n0")
    practice.nodes["n1"].facts = {"arch": "aarch64"}
    fleet = practice.fleet()

    async def main() -> None:
        opened = runs.open_run(fleet, "restore", [("1", "train", {})])
        await restore(fleet, RestoreWish(job), opened.id, "1", lambda text: None)

    with pytest.raises(IncompatibleError, match="n1"):
        run(practice.clock, main())
    assert "restore" not in practice.nodes["n1"].calls


def test_rc_29_a_resumed_batch_observes_before_it_acts(tmp_path: Path) -> None:
    told = case("RC-29")
    practice = Practice(tmp_path, nodes=6)
    jobs = {name: practice.running_job(name, "n0") for name in ("j2", "j3", "j4", "j5")}
    jobs["j1"] = practice.running_job("j1", "n1")
    bad = jobs["j5"]
    practice.book.damaged.update((bad.uid, each) for each in practice.side.checkpoints(bad.uid))
    practice.reclaim("n0")
    names = ["j1", "j2", "j3", "j4", "j5"]
    run_id = batch.begin(practice.fleet(), [BatchItem(name) for name in names])

    class Killed(BaseException):
        """The console was killed."""

    calls: list[str] = []

    def moment(label: str) -> None:
        calls.append(label)
        if calls.count("call restore") == 2:
            raise Killed

    practice.kill_at(moment)
    with pytest.raises(Killed):
        run(
            practice.clock,
            batch.proceed(practice.fleet(), run_id, lambda line: None, lambda text: None, max_parallel=2),
        )
    practice.kill_at(lambda label: None)
    practice.clock.advance(60)
    for _ in range(2):
        lines: list[dict[str, Any]] = []
        run(practice.clock, batch.proceed(practice.fleet(), run_id, lines.append, lambda text: None))
        states = {line["job"]: line["state"] for line in lines}
        assert states["j5"] == "failed"
        assert states["j1"] == "already_restored"
        assert {states[name] for name in ("j2", "j3", "j4")} == {"restored"}
        assert exit_code(list(states.values())) != 0
        for name in ("j1", "j2", "j3", "j4"):
            live = practice.where(jobs[name].uid)
            assert len(live) == told["expected"]["processes_per_job"], name
    assert practice.where(jobs["j1"].uid) == [("n1", 1)]


def test_rc_29_a_journal_cut_in_the_middle_of_a_record_opens(tmp_path: Path) -> None:
    """A real kill -9 of a writer in a loop: what was acknowledged is there, and the file opens."""
    case("RC-29")
    program = (
        "import sys, pathlib\n"
        "from backends.ledger.sqlite import SqliteLedger\n"
        "from backends.ledger.records import Run, Item\n"
        "l = SqliteLedger(pathlib.Path(sys.argv[1]))\n"
        "l.open_run(Run('r', 'batch', 1.0, {}), [Item('r', '1', 'train', {})])\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    l.intend('r', '1', 's', {'n': n}, 1.0)\n"
        "    print(n, flush=True)\n"
    )
    path = tmp_path / "ledger.db"
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    last = 0
    for line in child.stdout:
        last = int(line)
        if last >= 25:
            child.send_signal(signal.SIGKILL)
            break
    rest = [int(line) for line in child.stdout.read().split()]
    child.wait(30)
    from backends.ledger.sqlite import SqliteLedger

    ledger = SqliteLedger(path)
    numbers = [step.data["n"] for step in ledger.steps("r", "1")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= max([last, *rest])
    ledger.close()
