"""Ten reclaims spread evenly over the interval between two saves cost what `plan` said beforehand.

The prediction is `plan` from the freezes, uploads and restores that the job's first reclaims measured; it is
written to a file before the reclaims that it is held against. Lost work is held by our own clock, which knows the
moment of the reclaim; the ledger's figure, which runs to the proof of death, must never be below it.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

from backends.clock import parse_utc
from tests.support.lab import CLOCK, Lab
from tests.support.reclaims import able_lab, host, saved_in, seeded, take

pytestmark = [pytest.mark.lab, pytest.mark.prove]
REHEARSALS = 3
RECLAIMS = 10
INTERVAL_S = 12.0
HUNDRED, BLOCK = 100, 20  # reclaims in all, and on one fleet
GAP = 20.0  # mean gap in intervals; the whole ones in it cost waiting and nothing else, so they are left out
SOON_S = 0.3  # a reclaim at a phase that is nearer than this waits for the next interval
TOLERANCE = 0.15
RARE = "0.01"  # per hour: at most one reclaim in an interval, as the even phases are


def test_mean_lost_work_and_mean_restore_are_as_planned(tmp_path: Path) -> None:
    rng = seeded("order of the phases")
    phases = [(number + 0.5) / RECLAIMS for number in range(RECLAIMS)]
    rng.shuffle(phases)
    with able_lab(tmp_path / "state", REHEARSALS + RECLAIMS + 1) as fleet:
        fleet.start("plan", host(0), "--interval", f"{INTERVAL_S:.0f}s")
        restores = []
        for number in range(REHEARSALS):
            saved_in(fleet, "plan", number + 1)
            restores.append(take(fleet, "plan", number)[1]["restore_s"])
        stored = tmp_path / "prediction.json"
        stored.write_text(json.dumps(predict(fleet, restores)))
        measured = [reclaim(fleet, REHEARSALS + each, phase) for each, phase in enumerate(phases)]
    prediction: dict[str, float] = json.loads(stored.read_text())
    assert len(measured) == RECLAIMS
    table(prediction, measured)
    hold(prediction, measured)


def test_a_hundred_reclaims_of_a_poisson_process(tmp_path: Path) -> None:
    """Reclaims at exponential gaps, far apart beside the interval: both means are what `plan` says of such a rate."""
    rng = seeded("gaps between the reclaims")
    phases = [rng.expovariate(1 / GAP) % 1.0 for _ in range(HUNDRED)]
    stored = tmp_path / "prediction.json"
    measured: list[dict[str, Any]] = []
    for block in range(0, HUNDRED, BLOCK):
        with able_lab(tmp_path / f"state{block}", REHEARSALS + BLOCK + 1) as fleet:
            fleet.start("plan", host(0), "--interval", f"{INTERVAL_S:.0f}s")
            restores = []
            for number in range(REHEARSALS):
                saved_in(fleet, "plan", number + 1)
                restores.append(take(fleet, "plan", number)[1]["restore_s"])
            if block == 0:
                stored.write_text(json.dumps(predict(fleet, restores)))
            for number, phase in enumerate(phases[block : block + BLOCK], REHEARSALS):
                measured.append(reclaim(fleet, number, phase))
    prediction: dict[str, float] = json.loads(stored.read_text())
    table(prediction, measured)
    assert len(measured) == HUNDRED
    hold(prediction, measured)


def hold(prediction: dict[str, float], measured: list[dict[str, Any]]) -> None:
    """The means are as predicted, and the books never say less than was lost."""
    assert all(each["ledger_lost_s"] >= each["lost_s"] - 0.1 for each in measured)
    for name in ("lost_s", "restore_s"):
        mean = fmean(each[name] for each in measured)
        assert mean == pytest.approx(prediction[name], rel=TOLERANCE), name


def predict(fleet: Lab, restores: list[float]) -> dict[str, float]:
    """Seconds that one reclaim costs by `plan`: lost work and restore apart, and the measured costs behind them."""
    saves = listed(fleet)
    costs = {
        "checkpoint-cost": median(save["freeze_s"] for save in saves),
        "upload": median(save["upload_s"] for save in saves),
        "restore": median(restores),
    }
    typed = [word for name, seconds in costs.items() for word in (f"--{name}", f"{seconds:.3f}s")]
    typed += ["--interval", f"{INTERVAL_S:.0f}s", "--hours", "1", "--rate", RARE, "--discount", "0.7"]
    document = fleet.cli("plan", *typed, "-o", "json").document
    return {
        "lost_s": document["lost_hours_per_reclaim"] * 3600 - costs["restore"],
        "restore_s": costs["restore"],
        "freeze_s": costs["checkpoint-cost"],
        "upload_s": costs["upload"],
    }


def listed(fleet: Lab) -> list[dict[str, Any]]:
    """The job's checkpoints as the console lists them."""
    items: list[dict[str, Any]] = fleet.cli("checkpoints", "list", "plan", "-o", "json").document["items"]
    return items


def reclaim(fleet: Lab, number: int, phase: float) -> dict[str, Any]:
    """One reclaim at `phase` of an interval that begins at a freeze; what it cost, in seconds."""
    frozen_at = saved_in(fleet, "plan", number + 1)
    moment = frozen_at + phase * INTERVAL_S
    while moment < CLOCK.wall() + SOON_S:
        moment += INTERVAL_S
    ended_at, back = take(fleet, "plan", number, moment)
    (used,) = [item for item in listed(fleet) if item["checkpoint"] == back["checkpoint"]]
    return {
        "phase": phase,
        "lost_s": ended_at - parse_utc(used["frozen_at"]),
        "ledger_lost_s": back["lost_work_s"],
        "restore_s": back["restore_s"],
    }


def table(prediction: dict[str, float], measured: list[dict[str, Any]]) -> None:
    """Print every reclaim, the means and the prediction."""
    print(f"measured before: freeze {prediction['freeze_s']:.2f} s, upload {prediction['upload_s']:.2f} s")
    print("phase  lost work  by ledger  restore")
    means = {name: fmean(each[name] for each in measured) for name in measured[0]}
    for label, each in [*((f"{row['phase']:.2f}", row) for row in measured), ("mean", means)]:
        print(f"{label:5}  {each['lost_s']:9.2f}  {each['ledger_lost_s']:9.2f}  {each['restore_s']:7.2f}")
    print(f"plan   {prediction['lost_s']:9.2f}             {prediction['restore_s']:7.2f}")
