"""Slurm as another restarter: `scontrol show job` tells whether it requeues a job, or has done so."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable

from backends.clean import clean
from backends.schedulers.port import Answer

LIMIT_S = 10.0
LIMIT_BYTES = 64 * 1024
# What Slurm calls jobs that it will not start again.
ENDED = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "REVOKED", "TIMEOUT")
WAITING = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING")
_NUMBER = re.compile(r"[0-9]{1,10}(_[0-9]{1,10})?\Z")

Run = Callable[[list[str]], str | None]


class Slurm:
    """Asks the Slurm of the machine this runs on."""

    def __init__(self, run: Run | None = None) -> None:
        self._run = run or output

    def ask(self, identity: str) -> Answer:
        """Whether Slurm starts job `identity` again by itself."""
        if not _NUMBER.match(identity):
            return Answer("unknown", f"{clean(identity, limit=40)!r} is no number of a Slurm job")
        text = self._run(["scontrol", "show", "job", "-o", identity])
        stop = f"scancel {identity}"
        if text is None:
            detail = f"Slurm cannot be asked about job {identity} from here (scontrol show job {identity})"
            return Answer("unknown", detail, f"see there that it is not requeued, or end it: {stop}")
        return judge(identity, text)


def judge(identity: str, text: str) -> Answer:
    """What the one-line form of `scontrol show job` means for a job whose node was lost.

    Requeue=1 on a job that Slurm still calls running means that it will be requeued once Slurm notices.
    """
    fields = dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", text))
    state, restarts = fields.get("JobState", "").partition("+")[0], fields.get("Restarts", "")
    stop = f"scancel {identity}"
    if not state or fields.get("JobId") not in (identity, identity.partition("_")[0]):
        return Answer("unknown", f"what Slurm says of job {identity} cannot be read", f"end it there: {stop}")
    again = restarts.isdigit() and int(restarts) > 0
    if state in WAITING:
        times = f", for the {restarts}. time" if again else ""
        return Answer(
            "did", f"Slurm has queued job {identity} again by itself (JobState={state}{times})", stop
        )
    if state in ENDED:
        return Answer("no", f"Slurm says that job {identity} has ended ({state})")
    requeue = fields.get("Requeue")
    if requeue == "0":
        return Answer("no", f"Slurm does not requeue job {identity} (Requeue=0, JobState={state})")
    if requeue == "1":
        detail = f"Slurm will requeue job {identity} itself (Requeue=1, JobState={state})"
        return Answer("will", detail, f"scontrol update JobId={identity} Requeue=0, or {stop}")
    return Answer(
        "unknown", f"Slurm does not say whether it requeues job {identity} (JobState={state})", stop
    )


def output(argv: list[str]) -> str | None:
    """What a command prints, cleaned and bounded; None when it fails or is not there."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=dict(os.environ),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return clean(done.stdout[:LIMIT_BYTES], limit=LIMIT_BYTES) if done.returncode == 0 else None
