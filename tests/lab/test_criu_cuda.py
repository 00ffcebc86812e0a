"""`criu-cuda` with a real CRIU and a scripted cuda-checkpoint; the tests marked `gpu` need a device."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.engines.criu_tool import CriuTool
from backends.engines.cuda.engine import CudaEngine
from backends.engines.cuda.tool import CudaTool
from backends.engines.port import Process, RestoreRequest, Saved, SaveRequest
from backends.engines.system.nvml import NvmlAnswer
from backends.errors import EngineError
from backends.records.job import Job
from tests.contract.engine_suite import EngineSuite
from tests.support.cuda import GIB, FakeCuda, gpus, sweep
from tests.support.engines import RealBench, begin, criu_or_skip, end_all, goes_on
from tests.support.kinds import KINDS

pytestmark = pytest.mark.lab
CLOCK = SystemClock()
JOB = Job("cuda", "here")


class Node:
    """One engine whose GPUs tests may change."""

    def __init__(self, tool: CriuTool, place: Path) -> None:
        self.fake = FakeCuda(place / "fake")
        self.devices = gpus(1, 2)
        self.pids: tuple[int, ...] = ()
        self.used: int | None = 1 << 20
        self.engine = CudaEngine(
            tool,
            self.fake.tool(place / "run"),
            place / "run",
            CLOCK,
            devices=lambda: self.devices,
            sweep=lambda: sweep(*self.pids, used=self.used),
            arch="x86_64",
        )

    def on_gpu(self, *processes: Process) -> None:
        """These use CUDA."""
        self.pids = tuple(process.pid for process in processes)
        self.fake.has_cuda(*(process.inner_pid or process.pid for process in processes))


class CudaBench(RealBench):
    """The contract suite's workload, said to use CUDA."""

    def __init__(self, node: Node, home: Path) -> None:
        super().__init__(node.engine, home)
        self.node = node

    def start(self) -> Process:
        process = super().start()
        self.node.on_gpu(process)
        return process


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    yield Node(criu_or_skip(), tmp_path)
    end_all(tmp_path)


@pytest.fixture
def bench(node: Node, tmp_path: Path) -> CudaBench:
    return CudaBench(node, tmp_path / "home")


class TestCriuCuda(EngineSuite):
    """All of it."""


def save(node: Node, process: Process, place: Path) -> Saved:
    place.mkdir(mode=0o700)
    return node.engine.save(SaveRequest(JOB, process, place, 30.0, 30.0), lambda: None)


def request(saved: Saved, place: Path) -> RestoreRequest:
    return RestoreRequest(JOB, place, saved.files, saved.details, 30.0, place.with_name("aside"))


def test_a_move_to_other_gpus_names_every_one(node: Node, tmp_path: Path) -> None:
    process = begin(tmp_path / "home", KINDS["plain"], "-S", "-s")
    node.on_gpu(process)
    saved = save(node, process, tmp_path / "save")
    assert saved.details["cuda"]["device_bytes"] == 1 << 20
    assert saved.versions["driver"] == "590.48.01"
    goes_on(tmp_path / "home")
    node.engine.end(process)
    node.fake.has_cuda()
    (node.fake.home / f"state-{process.pid}").write_text("checkpointed")  # as it is in the image
    node.devices = gpus(3, 4)
    back = node.engine.restore(request(saved, tmp_path / "save"))
    assert ["restore", process.pid, None, "GPU-1=GPU-3,GPU-2=GPU-4"] in node.fake.calls()
    assert node.fake.state(process.pid) == "running"
    goes_on(tmp_path / "home")
    node.engine.end(back)


@pytest.mark.parametrize("action", ["lock", "checkpoint"])
def test_a_save_that_fails_on_the_gpu_leaves_the_job_running(node: Node, tmp_path: Path, action: str) -> None:
    process = begin(tmp_path / "home", KINDS["plain"], "-S", "-s")
    node.on_gpu(process)
    node.fake.fail(action, "OS call failed or operation not supported on this OS")
    with pytest.raises(EngineError, match="managed memory, CUDA IPC"):
        save(node, process, tmp_path / "save")
    assert node.fake.state(process.pid) == "running"
    goes_on(tmp_path / "home")
    node.engine.end(process)


def test_a_dump_that_fails_gives_the_gpu_back(node: Node, tmp_path: Path) -> None:
    process = begin(tmp_path / "home", KINDS["plain"], "-S", "-s")
    node.on_gpu(process)
    (tmp_path / "save").mkdir(mode=0o700)
    short = SaveRequest(JOB, process, tmp_path / "save", 0.0, 30.0)
    with pytest.raises(EngineError, match="the save was ended"):
        node.engine.save(short, lambda: None)
    assert node.fake.state(process.pid) == "running"
    goes_on(tmp_path / "home")
    node.engine.end(process)


def test_a_guard_that_died_half_way_is_made_good_by_a_thaw(node: Node, tmp_path: Path) -> None:
    process = begin(tmp_path / "home", KINDS["plain"], "-S", "-s")
    node.on_gpu(process)
    (node.fake.home / f"state-{process.pid}").write_text("checkpointed")
    node.engine.thaw(process)
    assert node.fake.state(process.pid) == "running"
    node.engine.end(process)


REFUSED: list[tuple[NvmlAnswer, int | None, str]] = [
    (gpus(1, 2, free=0), None, "GPU memory, 0.0 GiB are free here"),
    (gpus(1), None, "differ from those of the save"),
    (NvmlAnswer(fault="NVML: gone"), None, "NVML: gone"),
]


@pytest.mark.parametrize(("devices", "used", "words"), REFUSED)
def test_a_restore_that_cannot_work_is_refused_before_anything_moves(
    node: Node, tmp_path: Path, devices: NvmlAnswer, used: int | None, words: str
) -> None:
    process = begin(tmp_path / "home", KINDS["plain"], "-S", "-s")
    node.on_gpu(process)
    node.used = GIB // 8
    saved = save(node, process, tmp_path / "save")
    node.engine.end(process)
    node.devices = devices
    before = (tmp_path / "home" / "log.txt").read_bytes()
    with pytest.raises(EngineError, match=words):
        node.engine.restore(request(saved, tmp_path / "save"))
    assert (tmp_path / "home" / "log.txt").read_bytes() == before


def test_a_gpu_state_that_does_not_come_back_ends_the_restore(node: Node, tmp_path: Path) -> None:
    process = begin(tmp_path / "home", KINDS["plain"], "-S", "-s")
    node.on_gpu(process)
    saved = save(node, process, tmp_path / "save")
    node.engine.end(process)
    (node.fake.home / f"state-{process.pid}").write_text("checkpointed")
    node.fake.fail("restore", "out of memory", state="failed")
    with pytest.raises(EngineError, match=r"is failed.*not enough free GPU memory"):
        node.engine.restore(request(saved, tmp_path / "save"))


def test_doctor_says_what_is_unproven_and_what_uses_no_gpu(node: Node, tmp_path: Path) -> None:
    process = begin(tmp_path / "home", KINDS["plain"], "-S", "-s")
    assert node.engine.examine(JOB, process).answer == "impossible"
    node.on_gpu(process)
    verdict = node.engine.examine(JOB, process)
    assert (verdict.answer, verdict.engine) == ("ok", "criu-cuda"), verdict.reasons
    assert verdict.unproven == "engine criu-cuda is unproven on driver 590.48.01 with NVIDIA H100 80GB HBM3"
    node.devices = gpus(1, 2, mig=True)
    assert node.engine.examine(JOB, process).answer == "self_save_only"
    node.engine.end(process)


VECTORS = r"""
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
handle = ctypes.c_void_p(); device = ctypes.c_int(); memory = ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(handle), 0, device) == 0
SIZE = 1 << 26
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), SIZE) == 0
assert cuda.cuMemsetD32_v2(memory, 0, SIZE // 4) == 0
word = ctypes.c_uint32()
def check(step):
    assert cuda.cuMemcpyDtoH_v2(ctypes.byref(word), memory, 4) == 0
    assert word.value == step - 1, (word.value, step)
    assert cuda.cuMemsetD32_v2(memory, step, SIZE // 4) == 0
run(check)
"""


@pytest.mark.gpu
@pytest.mark.parametrize("number", [1, 2])
def test_a_real_device(tmp_path: Path, number: int) -> None:
    """Memory on the device goes on where it was, in one process or two."""
    tool, program = criu_or_skip(), shutil.which("cuda-checkpoint")
    if program is None or not Path("/dev/nvidiactl").exists():
        pytest.skip("no GPU or no cuda-checkpoint on this machine")
    engine: Any = CudaEngine(tool, CudaTool(Path(program), tmp_path / "run"), tmp_path / "run", CLOCK)
    assert engine.ready().answer == "ok", engine.ready().reasons
    source = (
        VECTORS
        if number == 1
        else "if os.fork() == 0:\n    log = open(home / 'child.txt', 'a', buffering=1)\n" + VECTORS
    )
    process = begin(tmp_path / "home", source, "-S", "-s")
    (tmp_path / "save").mkdir(mode=0o700)
    saved = engine.save(SaveRequest(JOB, process, tmp_path / "save", 120.0, 120.0), lambda: None)
    goes_on(tmp_path / "home")
    engine.end(process)
    back = engine.restore(request(saved, tmp_path / "save"))
    goes_on(tmp_path / "home")
    engine.end(back)
