"""Slurm as a provider: is this allocation over, and another one in its place.

What cannot be asked or is not known is `unknown`, never gone. Nothing of it is priced in dollars: an allocation costs what the
site charges, so the fleet's `max_usd` is not compared with anything here; `max_nodes` holds.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable

from backends.clock import Clock, format_utc
from backends.clouds.port import Found, InstanceState, Market, Replacement, State
from backends.clouds.slurm import holder
from backends.clouds.slurm.jobs import FIELDS, SlurmJob, found_of, jobs_of, parts_of, pool_of, silent, verdict
from backends.clouds.slurm.tools import NoSuchJobError, slurm
from backends.errors import CredentialsError, ReprieveError, UnreachableError, UsageError
from backends.records.node import Node

SOURCE = "slurm/squeue"
EXPORTED = (
    "PATH,HOME,USER,LOGNAME,SHELL,LANG"  # no more of the controller's environment: it may hold credentials
)
Run = Callable[[list[str], str], str]


class SlurmCloud:
    """Asks Slurm's controller, then its accounting; see `port.Cloud`, `port.Renter`, `port.Terminator`."""

    def __init__(self, clock: Clock, run: Run = slurm) -> None:
        self._clock, self._run = clock, run
        self._seen: dict[str, InstanceState] = {}  # ends that were confirmed; a node may go down afterwards

    def instance(self, node: Node) -> InstanceState:
        """What Slurm says of this node's allocation; never raises.

        Gone is what Slurm ended on a node that answers it: of one that does not, Slurm writes the end down unseen.
        """
        asked = format_utc(self._clock.wall())
        if node.instance in self._seen:
            return self._seen[node.instance]
        wanted = parts_of(node.instance or "")
        if wanted is None:
            reason = f"node {node.name} has no Slurm job number as its instance"
            return InstanceState("unknown", reason, asked, SOURCE)
        number, run = wanted
        source = SOURCE
        try:
            job = next((one for one in self._jobs(["-j", number]) if one.number == number), None)
            if job is not None:
                state, reason = verdict(job.state, job.restarts, run)
                # Where an earlier run was, squeue no longer tells; the node's record does.
                host = job.host if job.restarts == run else node.ssh.rpartition("@")[2].partition(":")[0]
            else:
                source = "slurm/sacct"
                state, reason, host = self._accounted(number, run)
            if state == "terminated":
                return self._confirm(node, InstanceState(state, reason, asked, source), host)
        except ReprieveError as error:
            return InstanceState("unknown", error.message, asked, source)
        return InstanceState(state, reason, asked, source)

    def _confirm(self, node: Node, end: InstanceState, host: str) -> InstanceState:
        states = self._run(["sinfo", "-h", "-N", "-n", host, "-o", "%T"], "") if host else ""
        doubt = silent(states)
        if doubt is not None:
            return dataclasses.replace(end, state="unknown", reason=f"{end.reason}, but {doubt}")
        self._seen[str(node.instance)] = end
        return end

    def replace(self, pool: str, token: str) -> Replacement:
        """One allocation in the partition of `pool`, or how an earlier request with this token stands.

        Further options are those that sbatch itself reads from the environment (SBATCH_ACCOUNT, SBATCH_TIMELIMIT,
        SBATCH_GRES …). Raises UnreachableError or CredentialsError.
        """
        parts = pool.split("/")
        if len(parts) != 4 or parts[0] != "slurm" or not parts[2]:
            return Replacement(token, "failed", reason=f"pool {pool} is not slurm/CLUSTER/PARTITION/linux")
        name = name_of(token)
        alive = self._alive(name)
        if not alive:
            try:
                self._submit(name, parts[2])
            except (CredentialsError, UsageError):
                raise
            except ReprieveError as error:  # sbatch says what is wrong with the request
                return Replacement(token, "failed", reason=error.message)
            alive = self._alive(name)
        if not alive:
            return Replacement(token, "failed", reason="the Slurm job was submitted and ended at once")
        first, *others = alive
        for one in others:  # another controller asked at the same time; singleton keeps these from running
            self._run(["scancel", one.number], "")
        if not first.prepared:
            told = f"{first.state.lower()}" + (f" ({first.reason})" if first.state == "PENDING" else "")
            return Replacement(token, "pending", reason=f"Slurm job {first.number} is {told}")
        node = Node(
            f"slurm-{first.number}", first.host, "slurm", pool_of(parts[1], first.partition), first.instance,
            host_key=first.host_key,
        )  # fmt: skip
        return Replacement(token, "ready", node)

    def rent(self, pool: str, token: str, *, market: Market, max_usd: float) -> Replacement:
        """As `replace`: Slurm knows one market, and no prices."""
        if market != "spot":
            return Replacement(token, "failed", reason="Slurm has no on-demand market")
        return self.replace(pool, token)

    def cancel(self, token: str) -> None:
        """Cancel every living job of this token."""
        for job in self._alive(name_of(token)):
            self._run(["scancel", job.number], "")

    def terminate(self, node: Node) -> None:
        """`scancel`: SIGTERM now, SIGKILL after the cluster's KillWait."""
        wanted = parts_of(node.instance or "")
        if wanted is None:
            raise UnreachableError(f"node {node.name} has no Slurm job number as its instance")
        self._run(["scancel", wanted[0]], "")

    def running(self, filters: list[str]) -> tuple[Found, ...]:
        """Your running jobs that match `filters`, options of squeue."""
        cluster = self.cluster()
        return tuple(
            found_of(job, cluster)
            for job in jobs_of(self._run(["squeue", "-h", "--me", "-t", "R", *filters, "-O", FIELDS], ""))
        )

    def cluster(self) -> str:
        """The cluster's name, from Slurm's configuration."""
        for line in self._run(["scontrol", "show", "config"], "").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "ClusterName" and value.strip():
                return value.strip()
        raise UnreachableError("slurm: scontrol show config names no cluster")

    def _jobs(self, options: list[str]) -> tuple[SlurmJob, ...]:
        try:
            return jobs_of(self._run(["squeue", "-h", "-t", "all", *options, "-O", FIELDS], ""))
        except NoSuchJobError:
            return ()

    def _alive(self, name: str) -> list[SlurmJob]:
        jobs = [
            job for job in self._jobs(["--me", "-n", name]) if not job.ended and job.state != "COMPLETING"
        ]
        return sorted(jobs, key=lambda job: int(job.number))

    def _submit(self, name: str, partition: str) -> None:
        options = [
            f"--job-name={name}", f"--partition={partition}", "--nodes=1", "--ntasks=1", "--no-requeue",
            "--dependency=singleton", "--output=/dev/null", f"--export={EXPORTED}",
        ]  # fmt: skip
        self._run(["sbatch", "--parsable", *options], holder.SCRIPT)

    def _accounted(self, number: str, run: int) -> tuple[State, str, str]:
        """The accounting's word on a job that the controller has forgotten."""
        if run:  # a row of sacct does not tell its run
            return "unknown", f"the controller has forgotten job {number}", ""
        try:
            text = self._run(["sacct", "-n", "-P", "-X", "-j", number, "-o", "JobIDRaw,State,NodeList"], "")
        except ReprieveError as error:
            return "unknown", f"the controller has forgotten job {number}; {error.message}", ""
        rows = [line.split("|") for line in text.splitlines()]
        known = [row for row in rows if len(row) == 3 and row[0] == number]
        if len(known) != 1:
            return "unknown", f"neither the controller nor the accounting knows job {number}", ""
        return (*verdict(known[0][1], 0, run), known[0][2])


def name_of(token: str) -> str:
    """The job name that stands for a request."""
    return f"reprieve-{hashlib.sha256(token.encode()).hexdigest()[:20]}"
