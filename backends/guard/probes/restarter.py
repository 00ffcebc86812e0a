"""Whether a process was started by somebody who would start it again: told by two names of its environment, no more."""

from __future__ import annotations

import re
from pathlib import Path

from backends.records.restarter import RestarterRef

LIMIT = 1 << 20  # bytes of an environment that are looked at
_NUMBER = re.compile(r"[0-9]{1,10}\Z")
# SKYPILOT_TASK_ID of a managed job ends in _<name>_<job id>-<task id>; its first two words changed places once.
_MANAGED = re.compile(r"(?:sky-managed|managed-sky)-[A-Za-z0-9_.-]+_([0-9]{1,10})-[0-9]{1,6}\Z")


def restarter_of(pid: int, proc: Path = Path("/proc")) -> RestarterRef | None:
    """The scheduler job that process `pid` belongs to; None where there is none, or we may not look."""
    try:
        with (proc / str(pid) / "environ").open("rb") as file:
            parts = file.read(LIMIT).split(b"\0")
    except OSError:
        return None
    known = {
        name: value.decode("ascii", "replace") for name, _, value in (part.partition(b"=") for part in parts)
    }
    managed = _MANAGED.match(known.get(b"SKYPILOT_TASK_ID", ""))
    if managed is not None:
        return RestarterRef("skypilot", managed.group(1))
    for name in (b"SLURM_JOB_ID", b"SLURM_JOBID"):
        if _NUMBER.match(known.get(name, "")):
            return RestarterRef("slurm", known[name])
    return None
