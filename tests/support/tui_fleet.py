"""A scripted fleet for the console's tests and pictures: states of every kind, a clock that stands still."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from backends.clock import format_utc
from backends.errors import ReprieveError
from backends.records.event import Event
from console.operations.view import FleetView, JobRow, NodeRow, OperationRow
from tests.support.tui_looks import answer

NOON = 1796133600.0  # 2026-12-01T14:00:00Z


class StillClock:
    """Time moves only by `advance`; `pause` waits for it."""

    def __init__(self, wall: float = NOON) -> None:
        self._wall = wall
        self._monotonic = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def wall(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    async def pause(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._monotonic + seconds, future))
        await future

    def advance(self, seconds: float) -> None:
        self._wall += seconds
        self._monotonic += seconds
        due = [pair for pair in self._sleepers if pair[0] <= self._monotonic + 1e-6]
        self._sleepers = [pair for pair in self._sleepers if pair not in due]
        for _, future in due:
            if not future.done():
                future.set_result(None)

    def jump(self, seconds: float) -> None:
        """Set the wall clock, as an operator or NTP would."""
        self._wall += seconds


class ScriptedFleet:
    """A FleetSource: hands out `current`, notes what is performed; can fail, hang, or be told what to answer."""

    def __init__(self, clock: StillClock, view: FleetView | None = None) -> None:
        self.clock = clock
        self.current = view or rich_view()
        self.performed: list[tuple[str, dict[str, Any]]] = []
        self.failure: Exception | None = None
        self.perform_failure: Exception | None = None
        self.hanging = False
        self.steps: tuple[str, ...] = ("freezing", "uploading 212 MiB")
        self.gate: asyncio.Event | None = None  # when set, `perform` waits for it after its steps
        self.looks = 0
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.ask_failure: Exception | None = None
        self.answers: dict[str, dict[str, Any]] = {}  # instead of the usual ones
        self.closed = False

    async def view(self) -> FleetView:
        self.looks += 1
        if self.hanging:
            await asyncio.get_running_loop().create_future()
        if self.failure is not None:
            raise self.failure
        return dataclasses.replace(self.current, taken_at=self.clock.wall())

    async def perform(self, words: str, arguments: dict[str, Any], on_step: Callable[[str], None]) -> str:
        self.performed.append((words, arguments))
        for step in self.steps:
            on_step(step)
            await asyncio.sleep(0)
        if self.gate is not None:
            await self.gate.wait()
        if self.perform_failure is not None:
            raise self.perform_failure
        return f"{arguments['name']}: {words} done"

    async def ask(self, words: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((words, arguments))
        if self.ask_failure is not None:
            raise self.ask_failure
        return self.answers.get(words) or answer(words, arguments, self.current, self.clock.wall())

    async def close(self) -> None:
        self.closed = True

    def change_job(self, name: str, **changes: Any) -> None:
        jobs = tuple(
            dataclasses.replace(job, **changes) if job.name == name else job for job in self.current.jobs
        )
        self.current = dataclasses.replace(self.current, jobs=jobs)

    def remove_job(self, name: str) -> None:
        self.current = dataclasses.replace(
            self.current, jobs=tuple(job for job in self.current.jobs if job.name != name)
        )


class LostError(ReprieveError):
    """The source is away."""


def uid(name: str) -> str:
    return ("".join(char for char in name.lower() if char.isalnum()) + "q7x2m4k6p3w5t8r9z1yb")[:20]


def job(name: str, state: str, node: str | None, risk_s: float | None, **more: Any) -> JobRow:
    now = NOON
    interval = more.pop("interval_s", 600.0)
    stale = more.pop("stale", False)
    age = more.pop("observed_age_s", 0.0)
    saved = risk_s is not None and more.pop("saved", True)
    record = JobRow(
        name=name, uid=uid(name), state=state, reason=more.pop("reason", ""), node=node,  # type: ignore[arg-type]  # states of the story
        engine=more.pop("engine", "criu"), epoch=more.pop("epoch", 1), pid=more.pop("pid", 4121),
        checkpoint=more.pop("checkpoint", "1.14") if saved else None,
        frozen_at=now - age - risk_s if saved and risk_s is not None else None, interval_s=interval,
        next_save_at=now + interval - risk_s if saved and interval and risk_s is not None else None,
        freeze_s=more.pop("freeze_s", 1.9) if saved else None, size_bytes=more.pop("size_bytes", 312 << 20) if saved else None,
        progress=more.pop("progress", None), risk_base_s=risk_s, observed_at=None if risk_s is None else now - age,
        stale=stale, store=more.pop("store", "s3://ml-checkpoints/reprieve"),
    )  # fmt: skip
    assert not more, more
    return record


def node(name: str, state: str = "ok", **more: Any) -> NodeRow:
    facts = more.pop(
        "facts",
        {
            "kernel": "6.12.9",
            "criu": "4.2",
            "arch": "x86_64",
            "gpus": "8x H100",
            "cpus": "96",
            "memory": "2.0 TiB",
        },
    )
    record = NodeRow(
        name=name, state=state, reason=more.pop("reason", ""), pool=more.pop("pool", "aws/us-east-1/p5.48xlarge/linux"),  # type: ignore[arg-type]  # states of the story
        provider=more.pop("provider", "aws"), age_s=more.pop("age_s", 2.0), notice=more.pop("notice", "none"),
        notice_left_s=more.pop("notice_left_s", None), jobs=more.pop("jobs", ()), guard=more.pop("guard", "g-5f2a91"),
        address=more.pop("address", "ubuntu@10.0.3.17"), facts=facts,
    )  # fmt: skip
    assert not more, more
    return record


def event(number: int, ago_s: float, kind: str, text: str, **more: Any) -> Event:
    return Event(
        id=f"{more.pop('source', 'g-5f2a91')}/{number}", time=format_utc(NOON - ago_s), kind=kind,
        node=more.pop("node", None), job=more.pop("job", None), text=text, data=more,
    )  # fmt: skip


def rich_nodes() -> tuple[NodeRow, ...]:
    rtx = {"kernel": "6.8.0", "criu": "4.2", "arch": "x86_64", "gpus": "2x L40S", "cpus": "48"}
    none = {"kernel": "6.12.9", "criu": "4.2", "arch": "x86_64", "gpus": "none", "cpus": "192"}
    return (
        node("gpu-a", jobs=("llama-ft", "diffusion-xl")),
        node("gpu-b", jobs=("gromacs-02",), notice="notice", notice_left_s=97.0, address="ubuntu@10.0.3.18"),
        node("gpu-c", jobs=("whisper-large-distil",), notice="hint", age_s=1.0, address="ubuntu@10.0.3.19"),
        node("gpu-d", "unreachable", jobs=("fold-9", "fold-10"), age_s=251.0, notice=None,
             reason="no SSH answer for 4m 11s; the cloud says running"),
        node("gpu-e", "lost", jobs=("protein-mpnn",), age_s=312.0, notice=None,
             reason="terminated 13:55:02, said by ec2 describe-instances"),
        node("l40s-1", jobs=("rerank-train",), facts=rtx, pool="aws/us-east-2/g6e.12xlarge/linux", provider="aws"),
        node("l40s-2", "late", jobs=("sd3-lora",), facts=rtx, age_s=19.0, pool="aws/us-east-2/g6e.12xlarge/linux",
             reason="last answer 19s ago"),
        node("spot-eu-west-1-m7i-metal-24xl-0042", "not_ready", facts={"kernel": "6.18.0", "criu": "3.17.1", "arch": "x86_64"},
             pool="aws/eu-west-1/m7i.metal-24xl/linux", guard=None, reason="criu 3.17.1 on kernel 6.18: 4.2 or newer is needed"),
        node("hpc-7", "cordoned", facts=none, provider="slurm", pool="slurm/main", reason="cordoned by ana, 2 days ago"),
        node("vast-311", jobs=("sim-cfd-3",), provider="vast", pool="vast/eu/rtx4090/linux", notice="unreadable",
             facts={"kernel": "5.15.0", "criu": "4.2", "gpus": "1x RTX4090"}),
        node("free-1", address="ubuntu@10.0.3.30"),
    )  # fmt: skip


def rich_jobs() -> tuple[JobRow, ...]:
    gib = 1 << 30
    return (
        job("llama-ft", "protected", "gpu-a", 252.0, size_bytes=212 * gib, freeze_s=6.4, progress="step 41,210  loss 1.873", checkpoint="3.31", epoch=3),
        job("diffusion-xl", "trial", "gpu-a", None, pid=5188, reason="the first save is under way", progress="epoch 1/40"),
        job("gromacs-02", "noticed", "gpu-b", 1360.0, interval_s=900.0, epoch=2, checkpoint="2.7", pid=4121, reason="gpu-b will be taken in 97 s; the final save is under way", size_bytes=3 * gib),
        job("whisper-large-distil", "overdue", "gpu-c", 1725.0, reason="a save is 18 minutes late: the store answers slowly", size_bytes=38 * gib, freeze_s=3.3, progress="step 8,100/20,000"),
        job("fold-9", "waiting_proof", "gpu-d", 1871.0, interval_s=900.0, stale=True, observed_age_s=251.0, reason="gpu-d is silent; the cloud says running: nothing proves it is gone"),
        job("fold-10", "unreachable", "gpu-d", 640.0, stale=True, observed_age_s=251.0, reason="gpu-d is silent since 13:55:49", pid=4477),
        job("protein-mpnn", "restoring", "gpu-e", 410.0, epoch=2, checkpoint="1.22", pid=None, reason="fetching 1.22 to free-1, 61 %", size_bytes=9 * gib),
        job("rerank-train", "unrehearsed", "l40s-1", 95.0, interval_s=300.0, reason="no rehearsal on another host yet", size_bytes=7 * gib, progress="step 1,204"),
        job("sd3-lora", "paused", "l40s-2", 7420.0, reason="paused by ana 2 hours ago", interval_s=600.0, pid=881),
        job("sim-cfd-3", "isolated", "vast-311", 318.0, engine="signal", reason="the node cannot reach the store", size_bytes=640 << 20, pid=77),
        job("tokenize-all", "waiting_capacity", None, 905.0, checkpoint="4.2", epoch=4, pid=None, reason="no compatible node is free; asked aws 4 minutes ago", interval_s=1800.0),
        job("zinc-screen", "zombie", "gpu-c", 55.0, epoch=1, pid=9120, reason="epoch 2 runs on gpu-a; this one is frozen"),
        job("bert-ablation-learning-rate-3e-5-warmup-2000-seed-17", "unprotected", "gpu-a", None, interval_s=None, engine=None, pid=6003, reason="jobs protect was not run", store=""),
        job("cold-retry", "cold_start", None, None, pid=None, reason="no checkpoint verifies: a start from nothing is offered"),
        job("dock-77", "finished", "l40s-1", 0.0, pid=None, reason="/data/dock-77/DONE exists", checkpoint="1.40"),
        job("mnist-smoke", "ended_unknown", "l40s-1", 61.0, pid=None, reason="the process vanished without a notice", checkpoint="1.2", size_bytes=220 << 20),
        job("old-run", "failed", "hpc-7", 130.0, pid=None, reason="exit code 137 after the third restore", checkpoint="5.1", epoch=5),
        job("eval-batch", "stopped", "l40s-1", 0.0, pid=None, reason="stopped by ana after a final save", checkpoint="1.9"),
    )  # fmt: skip


def rich_events() -> tuple[Event, ...]:
    gib = 1 << 30
    rows = [
        event(101, 86500, "node.joined", "gpu-e joined the fleet", node="gpu-e"),
        event(212, 2940, "save.committed", "llama-ft 3.29 saved: 211 GiB, paused 6.2 s", job="llama-ft", node="gpu-a", checkpoint="3.29", size_bytes=211 * gib, freeze_s=6.2),
        event(215, 1725, "save.committed", "whisper-large-distil 1.14 saved: 38 GiB, paused 3.3 s", job="whisper-large-distil", node="gpu-c", checkpoint="1.14", size_bytes=38 * gib, freeze_s=3.3),
        event(219, 1360, "save.committed", "gromacs-02 2.7 saved: 3.0 GiB, paused 1.9 s", job="gromacs-02", node="gpu-b", checkpoint="2.7", size_bytes=3 * gib, freeze_s=1.9),
        event(222, 905, "node.lost", "the node of tokenize-all is gone: capacity-not-available", job="tokenize-all", node="gpu-x", proof="InstanceTerminated"),
        event(226, 852, "save.committed", "llama-ft 3.30 saved: 212 GiB, paused 6.4 s", job="llama-ft", node="gpu-a", checkpoint="3.30", size_bytes=212 * gib, freeze_s=6.4),
        event(228, 730, "save.failed", "whisper-large-distil: the store answered 503 four times; the job runs on, 1.14 stands", job="whisper-large-distil", node="gpu-c"),
        event(231, 410, "save.committed", "protein-mpnn 1.22 saved: 9.0 GiB, paused 2.1 s", job="protein-mpnn", node="gpu-e", checkpoint="1.22", size_bytes=9 * gib, freeze_s=2.1),
        event(233, 298, "node.lost", "gpu-e was reclaimed without a notice", node="gpu-e", job="protein-mpnn", proof="InstanceTerminated"),
        event(234, 296, "proof.found", "gpu-e is terminated, said by ec2 describe-instances", node="gpu-e", job="protein-mpnn"),
        event(235, 252, "save.committed", "llama-ft 3.31 saved: 212 GiB, paused 6.4 s", job="llama-ft", node="gpu-a", checkpoint="3.31", size_bytes=212 * gib, freeze_s=6.4),
        event(236, 251, "node.silent", "gpu-d does not answer", node="gpu-d"),
        event(238, 240, "restore.started", "protein-mpnn: 1.22 to free-1, epoch 2", node="free-1", job="protein-mpnn", checkpoint="1.22", epoch=2),
        event(240, 180, "restore.done", "zinc-screen came back on gpu-a from 1.8: 6m 21s lost, restored in 41 s", node="gpu-a", job="zinc-screen", lost_work_s=381.0, restore_s=41.2, wait_s=0.0, from_checkpoint="1.8", epoch=2),
        event(241, 178, "job.zombie", "the old zinc-screen on gpu-c still ran: frozen, saves nothing", node="gpu-c", job="zinc-screen"),
        event(243, 95, "save.committed", "rerank-train 1.14 saved: 7.0 GiB, paused 1.9 s", job="rerank-train", node="l40s-1", checkpoint="1.14", size_bytes=7 * gib, freeze_s=1.9),
        event(245, 23, "notice.seen", "gpu-b will be taken at 14:01:37", node="gpu-b", job="gromacs-02", deadline_s=120.0),
        event(246, 22, "save.started", "final save of gromacs-02", node="gpu-b", job="gromacs-02"),
    ]  # fmt: skip
    return tuple(rows)


def rich_view(**changes: Any) -> FleetView:
    view = FleetView(
        context="ml-team", taken_at=NOON, nodes=rich_nodes(), jobs=rich_jobs(), events=rich_events(),
        operations=(
            OperationRow("op-31", "restore", "protein-mpnn", "fetch 5.5 of 9.0 GiB", "running", NOON - 240, "64 MiB/s, 56 s left"),
            OperationRow("op-30", "restore", "zinc-screen", "done", "done", NOON - 230, "epoch 2 on gpu-a"),
        ),
        controller=None, no_controller_since=NOON - 1220,
        source_ages_s={"fleet": 2.0, "store": 4.0, "cloud": 41.0, "prices": 2460.0},
    )  # fmt: skip
    return dataclasses.replace(view, **changes)


def settled_view() -> FleetView:
    """A fleet with nothing wrong: one job, two nodes, a controller."""
    return FleetView(
        context="default", taken_at=NOON, nodes=(node("host-a", jobs=("train-a",)), node("host-b")),
        jobs=(job("train-a", "protected", "host-a", 21.0, interval_s=60.0),), events=rich_events()[:2],
        controller="watch@ops-1 3s", source_ages_s={"fleet": 1.0, "store": 1.0},
    )  # fmt: skip
