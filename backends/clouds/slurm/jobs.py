"""Slurm's words on jobs, read: pure functions of what its commands print.

Sources: squeue(1) (states, `-O` fields), sacct(1). A job's texts of its owner's choice come last on a line, so that none of
them can stand for a state.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from backends.clouds.port import Found, State

FIELDS = "JobID:|,State:|,BatchHost:|,Partition:|,RestartCnt:|,Reason:|,UserName:|,Comment:1000"
_KEY = re.compile(r"reprieve(?: (ssh-ed25519 [A-Za-z0-9+/]{60,80}={0,2}))?\s*")

# The job's processes are gone for certain: Slurm says so after its epilog, not before.
_ENDED = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT", "REVOKED",
})  # fmt: skip
_WAITS = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})


@dataclass(frozen=True)
class SlurmJob:
    """One job as squeue tells of it; text is cleaned."""

    number: str
    state: str  # RUNNING, COMPLETING, PREEMPTED …
    host: str  # where its batch script runs; empty while it waits
    partition: str
    restarts: int  # times it was requeued
    reason: str  # why it waits
    user: str
    comment: str

    @property
    def instance(self) -> str:
        """The run of this job: its number, and `+n` after n requeues."""
        return f"{self.number}+{self.restarts}" if self.restarts else self.number

    @property
    def ended(self) -> bool:
        """Whether it is over and holds nothing."""
        return self.state in _ENDED or self.state == "NODE_FAIL"

    @property
    def prepared(self) -> bool:
        """Whether the script of `holder` runs there and has said so."""
        return self.state == "RUNNING" and bool(self.host) and _KEY.fullmatch(self.comment) is not None

    @property
    def host_key(self) -> str | None:
        """The host's public key line, as the script inside told it through Slurm."""
        match = _KEY.fullmatch(self.comment)
        return match.group(1) if match else None


def jobs_of(text: str) -> tuple[SlurmJob, ...]:
    """The jobs of what `squeue -h -O FIELDS` printed; lines of another form are passed over."""
    found = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|", 7)]
        if len(parts) != 8 or not re.fullmatch(r"[0-9]{1,10}", parts[0]):
            continue
        number, state, host, partition, restarts, reason, user, comment = parts
        times = int(restarts) if re.fullmatch(r"[0-9]{1,6}", restarts) else 0
        host = host if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", host) and host != "n/a" else ""
        found.append(SlurmJob(number, state, host, partition, times, reason, user, comment))
    return tuple(found)


def parts_of(instance: str) -> tuple[str, int] | None:
    """Job number and run of an instance's id; None for anything else."""
    match = re.fullmatch(r"([0-9]{1,10})(?:\+([0-9]{1,6}))?", instance)
    return (match.group(1), int(match.group(2) or 0)) if match else None


def verdict(state: str, restarts: int, run: int) -> tuple[State, str]:
    """What a job's state says of its run number `run`: the state for `port.InstanceState`, and why.

    A suspended job may come back, and a node that failed may still compute behind Slurm's back: neither is an end.
    """
    word = (
        state.split(" ", maxsplit=1)[0].rstrip("+") or "UNKNOWN"
    )  # sacct: "CANCELLED by 1000", cut words end in +
    if word in ("COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED"):
        return ("stopping" if word == "COMPLETING" else "unknown"), word
    if restarts > run:
        return "terminated", f"requeued: this is run {restarts} ({word})"
    if word in _ENDED:
        return "terminated", word
    if word == "RUNNING":
        return "running", word
    if word == "NODE_FAIL":
        return "unknown", "NODE_FAIL: Slurm lost touch with the node; what ran there may still run"
    if word == "SUSPENDED":
        return "unknown", "SUSPENDED: it may come back with its memory"
    if word in _WAITS and run == 0:
        return "unknown", f"{word}: it has not begun"
    return "unknown", word


def silent(text: str) -> str | None:
    """Why `sinfo -o %T` of a node does not confirm that its jobs ended; None when the node answers Slurm.

    A mark behind the word says more: `*` is no answer. A node that Slurm gave up (down) ends its jobs on paper only.
    """
    states = [line.strip().lower() for line in text.splitlines() if line.strip()]
    if not states:
        return "Slurm no longer knows its node"
    for state in states:
        if "*" in state or state.startswith(("down", "unk", "fail", "reboot", "future")):
            return f"its node is {state}: Slurm could not see the end"
    return None


def found_of(job: SlurmJob, cluster: str) -> Found:
    """A running job as a machine that can be added to a fleet."""
    return Found(
        instance=job.instance,
        name=f"slurm-{job.number}",
        pool=pool_of(cluster, job.partition),
        zone=job.partition,
        spot=True,  # any allocation ends: by its time limit where not by preemption
        state=verdict(job.state, job.restarts, job.restarts)[0],
        private_address=job.host or None,
        tags={"user": job.user},
        host_key=job.host_key,
    )


def pool_of(cluster: str, partition: str) -> str:
    """The pool of a partition."""
    return f"slurm/{cluster}/{partition}/linux"
