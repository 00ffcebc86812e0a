"""Choosing an engine, standing in for one that is gone, and what a checkpoint says of its machine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.engines.port import Process, Saved, Verdict
from backends.errors import EngineError, UsageError
from backends.guard.disk.layout import Layout, identity
from backends.guard.engines import choose, examine, named
from backends.guard.fingerprints import Fingerprints, mapped_files
from backends.guard.vault import Shipment
from backends.records.fingerprint import Fingerprint
from backends.records.job import Job
from backends.records.strict import read
from tests.support.nvml import fake_nvml

PROCESS = Process(1, 1)


class Stub:
    """An engine with one opinion."""

    def __init__(self, ready: str, verdict: str, line: str | None = None) -> None:
        self._ready, self._verdict = Verdict(ready, (f"ready: {ready}",)), Verdict(verdict, ("why",), line)  # type: ignore[arg-type]  # answers are given as text by the tables
        self.thawed: list[Process] = []

    def ready(self) -> Verdict:
        return self._ready

    def examine(self, job: Job, process: Process) -> Verdict:
        return self._verdict

    def thaw(self, process: Process) -> None:
        self.thawed.append(process)

    def freeze(self, process: Process) -> None:
        raise AssertionError

    end = freeze


def engines(**found: Stub) -> Any:
    return found


def job(**changes: Any) -> Job:
    return Job("a", "n", **changes)


def test_the_best_verdict_comes_first_and_names_its_engine() -> None:
    both = engines(criu=Stub("ok", "impossible"), signal=Stub("ok", "ok"))
    assert [(v.engine, v.answer) for v in examine(job(), PROCESS, both)] == [
        ("signal", "ok"),
        ("criu", "impossible"),
    ]
    assert choose(job(), PROCESS, both) is both["signal"]


def test_the_preferred_engine_wins_a_draw_and_a_named_one_is_obeyed() -> None:
    both = engines(criu=Stub("ok", "ok"), signal=Stub("ok", "ok"))
    assert choose(job(), PROCESS, both) is both["criu"]
    assert choose(job(engine="signal"), PROCESS, both) is both["signal"]


def test_auto_leaves_an_unproven_engine_alone_until_it_is_accepted() -> None:
    gpu: Any = Stub("ok", "ok")
    gpu._verdict = replace(gpu._verdict, unproven="engine criu-cuda is unproven on driver 590")
    both: Any = {"criu": Stub("ok", "impossible"), "criu-cuda": gpu}
    with pytest.raises(
        EngineError, match="is not saved: engine criu-cuda is unproven on driver 590"
    ) as caught:
        choose(job(), PROCESS, both)
    assert "--accept-unproven" in (caught.value.hint or "")
    assert "--accept-unproven" in examine(job(), PROCESS, both)[0].reasons[0], "doctor says it too"
    assert choose(job(accept_unproven=True), PROCESS, both) is gpu
    assert choose(job(engine="criu-cuda"), PROCESS, both) is gpu, "naming it is a word too"
    both["signal"] = Stub("ok", "ok")
    assert choose(job(), PROCESS, both) is both["signal"]


def test_an_engine_that_is_not_ready_is_not_asked() -> None:
    both = engines(criu=Stub("impossible", "ok"), signal=Stub("ok", "ok"))
    assert choose(job(), PROCESS, both) is both["signal"]


def test_refusals_name_reason_and_remedy() -> None:
    only = engines(criu=Stub("ok", "needs_restart", "UV_USE_IO_URING=0 node x"))
    with pytest.raises(EngineError, match=r"needs_restart.*why") as caught:
        choose(job(), PROCESS, only)
    assert caught.value.hint == "restart it with: UV_USE_IO_URING=0 node x"
    with pytest.raises(UsageError, match="'runc' of job a is not on this node: criu are"):
        choose(job(engine="runc"), PROCESS, only)


def test_a_start_with_signal_needs_a_marker() -> None:
    only = engines(signal=Stub("ok", "ok"))
    with pytest.raises(EngineError, match="marker"):
        choose(job(), None, only)
    assert choose(job(marker="save-*"), None, only) is only["signal"]


def test_an_engine_that_is_gone_still_lets_processes_run() -> None:
    only = engines(signal=Stub("ok", "ok"))
    gone = named(only, "criu")
    gone.thaw(PROCESS)
    assert only["signal"].thawed == [PROCESS]
    assert gone.examine(job(), PROCESS).answer == "impossible"
    with pytest.raises(EngineError, match="criu is not on this node any more"):
        gone.save(None, lambda: None)  # type: ignore[arg-type]  # refused before it is looked at
    assert named(only, "signal") is only["signal"]


def test_a_fingerprint_tells_the_machine_and_the_jobs_own_program(tmp_path: Path) -> None:
    mapped = mapped_files(os.getpid())
    assert any("python" in path for path in mapped)
    assert any("libc" in path for path in mapped)
    assert mapped_files(1 << 30) == {}
    saved = Saved(0.0, 0.0, 0.1, 0.2, 1000, (), (), {}, {})
    shipment = Shipment(job(runtime={"model": "m1"}), "criu", saved, tmp_path, os.getpid())
    document = Fingerprints(SystemClock(), tmp_path)(shipment)
    found = read(Fingerprint, document, what="fingerprint")
    assert found.arch == os.uname().machine
    assert found.kernel == os.uname().release
    assert (found.engine, found.runtime, found.memory_needed_bytes) == ("criu", {"model": "m1"}, 1000)
    assert set(mapped) <= set(found.files)
    assert (found.gpus, found.gpu_memory_needed_bytes) == ((), None), "a job that uses no GPU needs none"


def test_a_fingerprint_of_a_gpu_job_holds_every_gpu_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nvml(monkeypatch, "h100x8")
    saved = Saved(0.0, 0.0, 0.1, 0.2, 1000, (), (), {}, {"cuda": {"device_bytes": 77}})
    document = Fingerprints(SystemClock(), tmp_path)(
        Shipment(job(), "criu-cuda", saved, tmp_path, os.getpid())
    )
    found = read(Fingerprint, document, what="fingerprint")
    assert found.gpus is not None
    assert (len(found.gpus), found.gpu_memory_needed_bytes, found.driver) == (8, 77, "580.142")


def test_identity_is_made_once_and_kept(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.prepare()
    first = identity(layout)
    assert identity(layout) == first
    (layout.state / "guard.json").write_text('{"guard": "g", "node": "n", "provider": "aws", "later": 1}')
    assert (identity(layout).guard, identity(layout).provider) == ("g", "aws")
