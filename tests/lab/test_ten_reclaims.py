"""A job reclaimed ten times in a row, at random moments, ends with the digest of an uninterrupted run."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from backends.practice import rehearsed
from tests.support.lab import CLOCK, training, until
from tests.support.reclaims import able_lab, host, saved_in, seeded, take

pytestmark = [pytest.mark.lab, pytest.mark.prove]
RECLAIMS = 10
STEPS = 1200
PAUSE_S = 0.06
INTERVAL_S = 2.0


def test_ten_reclaims_end_with_the_digest_of_an_uninterrupted_run(tmp_path: Path) -> None:
    rng = seeded("moments of the reclaims")
    with able_lab(tmp_path / "state", RECLAIMS + 1) as fleet:
        fleet.start("ten", host(0), "--interval", f"{INTERVAL_S}s", pause_s=PAUSE_S, steps=STEPS)
        for number in range(RECLAIMS):
            saved_in(fleet, "ten", number + 1)
            moment = CLOCK.wall() + rng.uniform(0.0, INTERVAL_S)
            before = fleet.steps("ten")
            assert before < STEPS, "the job must still be running when it is reclaimed"
            _, back = take(fleet, "ten", number, moment)
            print(
                f"reclaim {number + 1} about step {before}: from {back['checkpoint']}, now step {fleet.steps('ten')}"
            )
        assert fleet.show("ten")["epoch"] == RECLAIMS + 1
        (pid,) = fleet.processes("ten")
        directory = os.open(f"/proc/{pid}/root/data/ten", os.O_RDONLY)  # stays when the process is gone
        until("the job ends", lambda: not fleet.processes("ten"), STEPS * PAUSE_S * 4)
        digest, steps = Path(f"/proc/self/fd/{directory}/DONE").read_text().split()
        os.close(directory)
    expected = asyncio.run(rehearsed.uninterrupted(tuple(training(STEPS))))
    print(f"digest {digest}, uninterrupted {expected}")
    assert (digest, int(steps)) == (expected, STEPS)
