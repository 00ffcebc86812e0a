"""Who plays: the practice jobs, and what an uninterrupted run of each ends with."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from backends.practice.rehearsed import examples
from backends.records.job import Job

STEPS = 700
STEP_SECONDS = 0.08
STATE_MIB = 200


@dataclass(frozen=True)
class Role:
    """One job of the story."""

    job: Job
    plain_run: tuple[str, ...]  # argv of the uninterrupted run, without `--directory`
    steps: int

    @property
    def directory(self) -> str:
        """Where the job works, the same path on every host."""
        return self.job.files[0]


def roles(
    mode: str, directory: Path, metrics: str, hosts: list[str], *, steps: int = STEPS
) -> tuple[Role, ...]:
    """Two jobs: numpy training saved below the application, or, without CRIU, programs that save themselves."""
    return tuple(
        _role(mode, f"train-{letter}", number, hosts[number - 1], directory, metrics, steps)
        for number, letter in enumerate("ab", 1)
    )


def _role(mode: str, name: str, number: int, host: str, directory: Path, metrics: str, steps: int) -> Role:
    place = f"/data/{name}" if mode == "namespaces" else str(directory / "data" / name)
    loopback = mode != "namespaces"
    script = str(examples() / ("selfsave.py" if loopback else "train.py"))
    plain = [sys.executable, script, "--steps", str(steps), "--seed", str(number)]
    if not loopback:
        plain += ["--state-mib", str(STATE_MIB)]
    command = [*plain, "--step-seconds", str(STEP_SECONDS), "--directory", place]
    command += [] if loopback else ["--metrics", metrics]
    job = Job(
        name=name,
        node=host,
        command=tuple(command),
        engine="signal" if loopback else "criu",
        interval_s=6.0,
        max_freeze_s=30.0,
        hours=steps * STEP_SECONDS / 3600.0,
        files=(place,),
        done_file=f"{place}/DONE",
        restore="same-pool",
        marker=f"{place}/ckpt/*/COMPLETE" if loopback else None,
        resume=(*command, "--resume") if loopback else (),
        environment={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    return Role(job, tuple(plain), steps)
