"""The real binding on a fake NVML with scripted GPUs: what facts, status and the gate make of each."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.compat import gate
from backends.engines.system.nvml import NvmlAnswer, ask_nvml, nvidia_seen, sweep_nvml
from backends.guard import facts
from backends.guard.probes.nvml import GpuWatch
from backends.records.facts import Facts
from backends.records.fingerprint import fingerprint_of
from backends.records.gpu import GpuProcess, GpuState
from console.operations.common.gpus import gpu_words, state_lines
from tests.support.engines import until
from tests.support.nvml import fake_nvml

GIB = 1 << 30
CLOCK = SystemClock()


def look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fleet: str, *flags: str) -> Facts:
    """Facts of a machine with the NVIDIA driver loaded and this fleet."""
    base = tmp_path / "machine"
    (base / "proc/driver/nvidia").mkdir(parents=True, exist_ok=True)
    (base / "proc/driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.142  Fri\n"
    )
    return facts.collect(base=base, root=tmp_path, nvml=fake_nvml(monkeypatch, fleet, *flags))


def words(found: Facts) -> str | None:
    from backends.records.strict import to_document

    return gpu_words(to_document(found))


def test_eight_equal_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = look(monkeypatch, tmp_path, "h100x8")
    assert found.gpus is not None
    assert (found.driver, found.cuda, len(found.gpus), found.gpu_reason) == ("580.142", "13.0", 8, "")
    first = found.gpus[0]
    assert (first.model, first.memory_bytes, first.memory_free_bytes) == (
        "NVIDIA H100 80GB HBM3",
        80 * GIB,
        71 * GIB,
    )
    assert (first.mig, first.mig_profiles, first.compute_capability, first.persistence) == (
        False,
        (),
        "9.0",
        True,
    )
    assert len({gpu.uuid for gpu in found.gpus}) == 8
    assert words(found) == "8x NVIDIA H100 80GB HBM3"


def test_partitions_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = look(monkeypatch, tmp_path, "mig")
    assert found.gpus is not None
    assert (found.gpus[0].mig, found.gpus[0].mig_profiles) == (True, ("1g.5gb", "3g.20gb"))
    assert words(found) == "1x NVIDIA A100-SXM4-40GB (MIG: 1g.5gb, 3g.20gb)"


def test_a_mixed_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = look(monkeypatch, tmp_path, "mixed")
    assert words(found) == "2x NVIDIA A100-SXM4-40GB, 1x NVIDIA H100 80GB HBM3"


def test_none_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = look(monkeypatch, tmp_path, "none")
    assert found.gpus == ()
    assert words(found) == "none"


@pytest.mark.parametrize(
    ("fleet", "text"),
    [
        ("mismatch", "the driver in the kernel and its libraries differ in version: it was upgraded"),
        ("unloaded", "the NVIDIA driver is not loaded: load it"),
    ],
)
def test_a_driver_that_does_not_answer_is_unknown_and_not_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fleet: str, text: str
) -> None:
    found = look(monkeypatch, tmp_path, fleet)
    assert found.gpus is None
    assert text in found.gpu_reason
    assert text in (words(found) or "")


@pytest.mark.parametrize(("fleet", "index"), [("lost", 2), ("dies", 1)])
def test_a_gpu_off_the_bus_is_named_and_the_others_are_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fleet: str, index: int
) -> None:
    found = look(monkeypatch, tmp_path, fleet)
    assert found.gpus is not None
    assert [gpu.model is None for gpu in found.gpus] == [number == index for number in range(3)]
    assert found.gpu_reason == f"GPU {index}: fell off the bus: drain the node and reboot it"


def test_every_absurd_value_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = look(monkeypatch, tmp_path, "absurd")
    assert found.gpus is not None
    gpu = found.gpus[0]
    assert replace(gpu, index=None, mig=None, mig_profiles=None) == type(gpu)(), "nothing but the place"
    assert found.cuda is None


def test_an_old_driver_lacks_functions_and_the_rest_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = look(monkeypatch, tmp_path, "old", "-DOLD_DRIVER")
    assert found.gpus is not None
    assert (found.gpus[0].mig, found.gpus[0].mig_profiles) == (None, None)
    assert found.gpus[0].memory_bytes == 80 * GIB


def test_a_hanging_driver_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvml(monkeypatch, "hang")
    before = CLOCK.monotonic()
    answer = ask_nvml(0.5)
    assert CLOCK.monotonic() - before < 10
    assert "did not answer within 0.5 s" in answer.fault


def test_without_the_library_the_kernels_list_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    answer = ask_nvml()
    if answer.code != 12:
        pytest.skip("this machine has NVML")
    (tmp_path / "proc/driver/nvidia/gpus/0").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/gpus/0/information").write_text("Model: \t\t Tesla T4\n")
    found = facts.collect(base=tmp_path, root=tmp_path, nvml=lambda: answer)
    assert found.gpus is not None
    assert found.gpus[0].model == "Tesla T4"
    assert "libnvidia-ml.so.1 is not on this node" in found.gpu_reason


def test_devices_that_nvml_does_not_list_are_a_fault(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / "dev" / name).touch()
    found = facts.collect(base=tmp_path, root=tmp_path, nvml=NvmlAnswer)
    assert (found.gpus, found.gpu_reason) == (None, "driver fault: 2 GPU devices, NVML lists 0")


def test_what_says_that_there_is_something_to_ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not nvidia_seen(tmp_path)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    assert nvidia_seen(tmp_path)
    fake_nvml(monkeypatch, "none")
    assert nvidia_seen(Path("/"))


def test_the_gate_between_the_fleets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = {
        name: look(monkeypatch, tmp_path, name) for name in ("h100x8", "mig", "mixed", "lost", "mismatch")
    }
    saved = fingerprint_of(here["h100x8"], engine="criu-cuda", gpus=here["h100x8"].gpus)

    def refused(name: str) -> dict[str, str]:
        rows = gate(saved, here[name]).refusals
        return {row.property: row.message for row in rows if row.property.startswith(("gpu", "driver"))}

    assert refused("h100x8") == {}
    assert "NVIDIA A100-SXM4-40GB on this node" in refused("mig")["gpu_model"]
    assert "GPU partitions (MIG): off in the save, on on this node" in refused("mig")["gpu_mig"]
    assert refused("mixed")["gpu_count"] == "GPU count: 8 in the save, 3 on this node"
    assert "unknown on this node" in refused("lost")["gpu_model"]
    assert "differ in version" in refused("mismatch")["gpu_model"]


def test_the_guard_sweeps_and_says_when_it_cannot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_nvml(monkeypatch, "mixed")
    once = sweep_nvml()
    watch = GpuWatch(CLOCK)
    assert watch.now() == (None, "NVML was not read yet")
    watch.begin()
    try:
        until(lambda: watch.now()[0] is not None, "the first sweep")
        states, reason = watch.now()
    finally:
        watch.end()
    assert states is not None
    assert reason == ""
    assert once.gpus == states
    assert states[0] == GpuState(
        index=0,
        uuid="GPU-00000000-0000-0000-0000-000000000000",
        memory_used_bytes=9 * GIB,
        utilisation=0.35,
        temperature_c=41,
        ecc_uncorrected=0,
        processes=(GpuProcess(4121, 8 * GIB), GpuProcess(4122, None)),
    )
    assert (states[1].utilisation, states[2].ecc_uncorrected) == (None, 3)
    from backends.records.strict import to_document

    lines = state_lines([to_document(state) for state in states], "")
    assert lines[0] == "GPU 0  busy 35%  used 9.0 GiB  41 °C  pids 4121, 4122"
    assert lines[2] == "GPU 2  busy –  used 1.0 GiB  41 °C  3 uncorrected memory errors"
    none = GpuWatch(CLOCK, tmp_path)
    none.begin()
    assert none.now() == ((), "")


def test_a_sweep_that_stops_is_unknown_after_a_while(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Later(SystemClock):
        ahead = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.ahead

    fake_nvml(monkeypatch, "mismatch")
    clock = Later()
    watch = GpuWatch(clock)
    watch.begin()
    try:
        until(lambda: "differ in version" in watch.now()[1], "the fault")
    finally:
        watch.end()
    clock.ahead = 60.0
    assert watch.now()[0] is None
    assert "has not answered for" in watch.now()[1]


def test_a_sweep_of_eight_takes_under_five_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvml(monkeypatch, "h100x8")
    source = """
import time
from backends.gpu.nvml import opened
with opened() as nvml:
    times = []
    for _ in range(20):
        begun = time.perf_counter(); states = nvml.sweep(); times.append(time.perf_counter() - begun)
assert len(states) == 8
print(min(times))
"""
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[4],
    )
    assert float(done.stdout) < 0.005
