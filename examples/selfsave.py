"""A program that saves itself: on SIGUSR1 it writes a checkpoint, with `--resume` it continues from the newest.

For the engine `signal`. A save is a directory `ckpt/<step>/` that holds `state.npz` and, written last, `COMPLETE`.
The final digest equals that of an uninterrupted run.

    python selfsave.py --directory /data/run2 --steps 400 [--resume] [--step-seconds 0.05]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import time
from pathlib import Path
from types import FrameType

import numpy as np


class Walk:
    """A seeded random walk of a large vector: cheap, deterministic, and worth saving."""

    def __init__(self, seed: int, size: int) -> None:
        self.seed, self.step_number = seed, 0
        self.state = np.zeros(size, dtype=np.float64)

    def step(self) -> None:
        """One step; depends only on the seed, the step number and the state."""
        self.step_number += 1
        rng = np.random.default_rng((self.seed, self.step_number))
        self.state = np.roll(self.state, 1) * 0.999 + rng.standard_normal(len(self.state))

    def save(self, directory: Path) -> None:
        """Write a complete save: data first, the marker last, each synced."""
        place = directory / "ckpt" / f"{self.step_number:08d}"
        place.mkdir(parents=True, exist_ok=True)
        with (place / "state.npz").open("wb") as file:
            np.savez(file, state=self.state, step=self.step_number)
            file.flush()
            os.fsync(file.fileno())
        with (place / "COMPLETE").open("w") as file:
            file.write(f"{self.step_number}\n")
            file.flush()
            os.fsync(file.fileno())

    def load_newest(self, directory: Path) -> None:
        """Continue from the newest complete save; without one, from the start."""
        for marker in sorted(directory.glob("ckpt/*/COMPLETE"), reverse=True):
            with np.load(marker.with_name("state.npz")) as saved:
                self.state, self.step_number = saved["state"], int(saved["step"])
            return


def main() -> None:
    """Walk, save when asked, and write the final digest to DONE."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--step-seconds", type=float, default=0.05)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    asked = False

    def ask(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    signal.signal(signal.SIGUSR1, ask)
    walk = Walk(options.seed, options.size)
    if options.resume:
        walk.load_newest(options.directory)
    with (options.directory / "progress.txt").open("a") as progress:
        while walk.step_number < options.steps:
            begun = time.monotonic()
            walk.step()
            progress.write(f"step {walk.step_number} mean {walk.state.mean():.6f}\n")
            progress.flush()
            if asked:
                asked = False
                walk.save(options.directory)
            time.sleep(max(0.0, options.step_seconds - (time.monotonic() - begun)))
    done = options.directory / "DONE.tmp"
    done.write_text(f"{hashlib.sha256(walk.state.tobytes()).hexdigest()} {options.steps}\n")
    done.rename(options.directory / "DONE")


if __name__ == "__main__":
    main()
