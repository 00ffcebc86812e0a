"""A move fetches what it can before the freeze: little is left for the gap, which is shorter than that of stop and restore."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from planner.quantities import parse_size
from tests.support.lab import Lab, until
from tests.support.reclaims import able_lab, host

pytestmark = [pytest.mark.lab, pytest.mark.prove]
MIB = 192
# Memory that never changes (and cannot be compressed) beside a counter that does.
PROGRAM = """
import os, sys, time
keep = os.urandom(int(sys.argv[2]) << 20)
for step in range(10**9):
    with open(sys.argv[1] + "/progress.txt", "a") as file:
        print(step, file=file)
    time.sleep(0.05)
"""


def begun(fleet: Lab, name: str) -> None:
    line = [
        sys.executable,
        "-c",
        f"import os,sys\nos.makedirs(sys.argv[1], exist_ok=True)\n{PROGRAM}",
        f"/data/{name}",
        str(MIB),
    ]
    fleet.cli(
        "jobs", "run", name, "--node", host(0), "--engine", "criu", "--files", f"/data/{name}", "--interval", "1h",
        "--yes", "--", *line,
    )  # fmt: skip
    until("its first save", lambda: fleet.checkpoints(name))


def test_the_gap_of_a_move_is_shorter_than_that_of_stop_and_restore(tmp_path: Path) -> None:
    with able_lab(tmp_path / "state", 2) as fleet:
        begun(fleet, "plain")
        fleet.cli("jobs", "stop", "plain", "--yes", "-o", "json")
        plain = fleet.cli("jobs", "restore", "plain", "--to", host(1), "--yes", "-o", "json").document
        begun(fleet, "moved")
        ran = fleet.cli("jobs", "move", "moved", "--to", host(1), "--yes", "-o", "json")
        print(ran.err)
        moved = ran.document
        fleet.moves("moved")
    print(f"gap: stop and restore {plain['gap_s']:.1f} s, move {moved['gap_s']:.1f} s; {moved['notes']}")
    (note,) = [note for note in moved["notes"] if "lay there before the freeze" in note]
    here, fetched = (parse_size(text.replace(" ", "")) for text in re.findall(r"[0-9.]+ [KMG]?i?B", note))
    assert here > MIB * 0.9 * 2**20
    assert fetched < here / 20
    assert moved["gap_s"] < plain["gap_s"]
