"""Real-world cases of area gpu that are about what a driver answers, by id; the others are in `test_compat_cases.py`."""

from __future__ import annotations

import csv
from typing import Any

import pytest

from backends.engines.system.nvml import sweep_nvml
from backends.gpu import values
from backends.records.strict import to_document
from console.operations.common.gpus import state_lines
from tests.support.nodes_cases import case, case_file
from tests.support.nvml import fake_nvml

MIB = 1 << 20


def test_rc_07_what_a_board_does_not_support_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The boards of the case as a driver's library answers for them: we read that, and no program's words."""
    data = case("RC-07")
    rows = list(csv.reader(case_file(data["input"]["file"]).read_text().splitlines()))[1:]
    wanted = data["expected"]
    answer = fake_nvml(monkeypatch, "patchy")()
    assert answer.gpus is not None
    assert len(answer.gpus) == len(rows) == wanted["rows"]
    assert [gpu.model for gpu in answer.gpus] == [row[2].strip() for row in rows]
    states = sweep_nvml().gpus
    assert states is not None

    def ours(index: int) -> dict[str, Any]:
        gpu, state = answer.gpus[index], states[index]
        whole, used = gpu.memory_bytes, state.memory_used_bytes
        return {
            "mem_total_mib": None if whole is None else whole // MIB,
            "mem_used_mib": None if used is None else used // MIB,
            "util": None if state.utilisation is None else round(state.utilisation * 100),
            "temp": state.temperature_c,
            "mig": gpu.mig,
        }

    for index in range(4):
        expected = {name: value for name, value in wanted[f"row{index}"].items() if name != "power_w"}
        assert {name: ours(index)[name] for name in expected} == expected, index
    known = [gpu.memory_bytes // MIB for gpu in answer.gpus if gpu.memory_bytes is not None]
    assert (sum(known), len(answer.gpus) - len(known)) == (204_078, 1)
    assert states[3].fault == values.explain(16)
    drawn = state_lines([to_document(state) for state in states], "")
    assert "busy –  used –  – °C" in drawn[1], "unknown is never drawn as 0"
    assert "needs a reset" in drawn[3]
