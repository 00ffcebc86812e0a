"""`fleet show` and the gate on every scripted GPU fleet, the messages word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backends.engines.system.nvml import sweep_nvml
from backends.guard import facts
from backends.records.facts import Facts
from backends.records.fingerprint import fingerprint_of
from backends.records.strict import to_document
from console.cli.commands.fleet import _node_text
from console.operations.real.opening import gate
from tests.support.nvml import fake_nvml

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB"
UPGRADED = "the driver in the kernel and its libraries differ in version: it was upgraded while loaded; reboot the node"
BUS = "fell off the bus: drain the node and reboot it"

# fleet: what `fleet show` says of the GPUs; what it says of each now; why a job saved on h100x8 may not come here
SHOWN: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "h100x8": (f"8x {H100}", ("GPU 7  busy 35%  used 1.0 GiB  41 °C",), ()),
    "mig": (
        f"1x {A100} (MIG: 1g.5gb, 3g.20gb)",
        ("GPU 0  busy –",),
        (f"GPU model: {H100} in the save, {A100} on this node", "GPU count: 8 in the save, 1 on this node", "GPU partitions (MIG): off in the save, on"),
    ),
    "mixed": (f"2x {A100}, 1x {H100}", ("GPU 2  busy –",), ("GPU count: 8 in the save, 3 on this node",)),
    "none": ("none", (), ("GPU count: 8 in the save, 0 on this node",)),
    "mismatch": (UPGRADED, (f"GPU state unknown: NVML: {UPGRADED}",), (UPGRADED,)),
    "unloaded": ("the NVIDIA driver is not loaded", ("is not loaded",), ("the NVIDIA driver is not loaded",)),
    "lost": (f"GPU 2: {BUS}", (f"GPU 2  {BUS}",), (f"GPU model: {H100} in the save, unknown on this node",)),
    "dies": (f"GPU 1: {BUS}", (f"GPU 1  {BUS}",), (f"GPU model: {H100} in the save, unknown on this node",)),
    "absurd": ("1x unknown model", ("GPU 0  busy –  used –  – °C",), ("unknown on this node",)),
    "patchy": (
        "1x NVIDIA GB10",
        ("GPU 1  busy –  used –  – °C", "GPU 3  needs a reset"),
        ("GPU count: 8 in the save, 4 on this node",),
    ),
}  # fmt: skip


def look(monkeypatch: pytest.MonkeyPatch, place: Path, fleet: str) -> Facts:
    base = place / "machine"
    (base / "proc/driver/nvidia").mkdir(parents=True, exist_ok=True)
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.142  Fri\n"
    (base / "proc/driver/nvidia/version").write_text(text)
    return facts.collect(base=base, root=place, nvml=fake_nvml(monkeypatch, fleet))


_made: dict[str, Any] = {}


def made_on_h100(monkeypatch: pytest.MonkeyPatch, place: Path) -> dict[str, Any]:
    """The fingerprint of a save on eight H100, made once."""
    if not _made:
        source = look(monkeypatch, place, "h100x8")
        _made.update(to_document(fingerprint_of(source, engine="criu-cuda", gpus=source.gpus)))
    return _made


@pytest.mark.parametrize("fleet", SHOWN)
def test_a_fleet_is_shown_and_the_gate_says_why_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fleet: str
) -> None:
    words, now, refused = SHOWN[fleet]
    found = look(monkeypatch, tmp_path, fleet)
    sweep = sweep_nvml()
    document: dict[str, Any] = {
        "schema": "reprieve/node/v1", "name": "gpu-a", "facts": to_document(found), "events": [],
        "gpu_state": None if sweep.gpus is None else [to_document(state) for state in sweep.gpus],
        "gpu_state_missing": sweep.fault,
    }  # fmt: skip
    text = _node_text(document)
    assert words in text
    for line in now:
        assert line in text
    rows = gate(made_on_h100(monkeypatch, tmp_path), to_document(found), {}, {}).rows
    said = [
        row["message"] for row in rows if row["property"].startswith("gpu") and row["verdict"] == "refuse"
    ]
    assert bool(said) == bool(refused), said
    for line in refused:
        assert any(line in message for message in said), said


def test_all_scripted_fleets_are_here() -> None:
    source = (Path(__file__).parents[3] / "support" / "nvml" / "fake.c").read_text()
    named = source.split("Fleets: ")[1].split(".")[0].replace("\n *", "").split(", ")
    # `hang` answers nothing and `old` is built differently: both are in tests/unit/backends/gpu
    assert set(named) - {"hang", "old"} == set(SHOWN)
