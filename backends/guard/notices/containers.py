"""Notices that come as SIGTERM: RunPod (5 s) and Slurm (until the time of the kill).

Sources: RunPod's documentation of pods ("pricing": SIGTERM, SIGKILL 5 s later); Slurm's preempt.html (end time = now +
GraceTime, SIGCONT and SIGTERM at once, SIGKILL at the end time); to its steps, not to its batch shell (tried, 22.05).
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from backends.clean import clean
from backends.clock import Clock
from backends.guard.notices.port import Reading

FORWARDED_VARIABLE = "REPRIEVE_SIGNALS"  # `forwarded`: process 1 hands SIGTERM on to the guard
RUNPOD_WINDOW_S = 5.0
KILL_WAIT_S = 30.0  # Slurm's default between SIGTERM and SIGKILL when no preemption is told of
PERIOD_S = 5.0
RECENT_S = 60.0  # a requeued job still tells of its earlier preemption
_TIMEOUT_S = 3.0


def hears_signals(environment: Mapping[str, str], pid: int) -> bool:
    """Whether the container's SIGTERM reaches the guard: it is process 1, or whoever is hands it on."""
    return pid == 1 or environment.get(FORWARDED_VARIABLE) == "forwarded"


class RunpodNotices:
    """SIGTERM is all that RunPod gives; where it does not reach the guard, notices cannot be read."""

    def __init__(self, environment: Mapping[str, str] | None = None, pid: int | None = None) -> None:
        self._heard = hears_signals(
            os.environ if environment is None else environment, pid if pid is not None else os.getpid()
        )

    @property
    def period_s(self) -> float:
        """Nothing to poll: only the end of a notice that nothing followed is looked for."""
        return PERIOD_S

    def read(self) -> Reading:
        """Whether a signal would be heard here."""
        if self._heard:
            return Reading("none")
        return Reading(
            "unreadable",
            "SIGTERM goes to process 1 of the container, which is not the guard; "
            f"let it hand the signal on and set {FORWARDED_VARIABLE}=forwarded",
        )

    def signalled(self) -> Reading | None:
        """The pod is being taken: 5 s."""
        return Reading("notice", "SIGTERM to the pod", window_s=RUNPOD_WINDOW_S)


@dataclass(frozen=True)
class SlurmJob:
    """What `scontrol show job -o` says of the end of a job; local times as wall seconds, None: not told."""

    end_at: float | None
    preempted_at: float | None
    partition: str | None = None
    killed: bool = False  # SIGTERM was the beginning of the kill itself: SIGKILL follows after KillWait


class SlurmNotices:
    """SIGTERM to the job's step, and the kill time that Slurm keeps for it."""

    def __init__(
        self,
        clock: Clock,
        environment: Mapping[str, str] | None = None,
        run: Callable[[list[str]], str | None] | None = None,
    ) -> None:
        self._clock = clock
        self._job = (os.environ if environment is None else environment).get("SLURM_JOB_ID")
        self._run = run or _output

    @property
    def period_s(self) -> float:
        """Nothing to poll: only the end of a notice that nothing followed is looked for."""
        return PERIOD_S

    def read(self) -> Reading:
        """Whether this guard belongs to a Slurm job: only then its SIGTERM comes here."""
        if self._job is not None:
            return Reading("none")
        return Reading(
            "unreadable",
            "the guard runs outside of a Slurm job (no SLURM_JOB_ID), so Slurm's SIGTERM does not reach it; "
            "start it inside the job",
        )

    def signalled(self) -> Reading | None:
        """The job will be killed; when, Slurm is asked."""
        if self._job is None:
            return None
        answer = self._run(["scontrol", "show", "job", "-o", self._job])
        job = SlurmJob(None, None) if answer is None else slurm_job(answer)
        now = self._clock.wall()
        if job.preempted_at is not None and abs(now - job.preempted_at) <= RECENT_S:
            end_at = job.end_at if job.end_at is not None else self._grace_end(job)
            if end_at is not None and job.killed:
                end_at += self._number(["scontrol", "show", "config"], "KillWait") or 0
            if end_at is not None:
                left = end_at - now
                return Reading("notice", "preempted by Slurm", left_s=left, window_s=max(0.0, left))
        left_s = None if job.end_at is None else job.end_at - now
        return Reading("notice", "SIGTERM from Slurm", left_s=left_s, window_s=KILL_WAIT_S)

    def _grace_end(self, job: SlurmJob) -> float | None:
        """The end of the partition's grace: of a job without a time limit Slurm shows no EndTime while it runs."""
        if job.partition is None or job.preempted_at is None:
            return None
        grace = self._number(["scontrol", "show", "partition", "-o", job.partition], "GraceTime")
        return None if grace is None else job.preempted_at + grace

    def _number(self, argv: list[str], key: str) -> int | None:
        """The whole number of `key` in what Slurm prints; None where it tells none."""
        match = re.search(rf"(?:^|\s){key}\s*=\s*(\d{{1,8}})\b", self._run(argv) or "")
        return int(match.group(1)) if match else None


def slurm_job(text: str) -> SlurmJob:
    """Read the one-line (or wrapped) form of `scontrol show job`; what is missing or odd is None."""
    fields = dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", text))
    partition = fields.get("Partition")
    known = partition if partition and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", partition) else None
    return SlurmJob(
        _local(fields.get("EndTime")), _local(fields.get("PreemptTime")), known,
        fields.get("JobState") == "COMPLETING",
    )  # fmt: skip


def _local(text: str | None) -> float | None:
    """Slurm's times are local; `None`, `Unknown` and `N/A` are no times."""
    try:
        moment = datetime.datetime.fromisoformat(text or "")
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _output(argv: list[str]) -> str | None:
    try:
        answer = subprocess.run(
            argv,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "SLURM_TIME_FORMAT": "standard"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return clean(answer.stdout, limit=64 * 1024, lines=True) if answer.returncode == 0 else None
