"""A fleet as operations work on it: records, ledger, links, providers, stores and keys, all injectable."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from backends.clock import Clock, format_utc
from backends.clouds.port import Cloud, InstanceState
from backends.errors import CredentialsError, NotFoundError, UnreachableError, UsageError
from backends.ids import new_nonce
from backends.inventory.model import Pool, Renting
from backends.ledger.locks import Locks
from backends.ledger.port import Ledger
from backends.ledger.records import JobCurrent
from backends.nodes.port import NodeLink
from backends.records import strict
from backends.records.event import Event
from backends.records.job import Job
from backends.records.node import Node
from backends.records.status import JobStatus, NodeStatus
from backends.schedulers.port import Restarter
from console.operations.context import Context
from console.operations.decide.lease import LeaseWatch
from console.operations.decide.placement import GateAnswer
from console.operations.truth import Truth

T = TypeVar("T")

CALL_S = 20.0  # time-out of a short call to a node


class Records(Protocol):
    """The fleet's own records of nodes and jobs (the TOML inventory)."""

    def nodes(self) -> dict[str, Node]:
        """All nodes by name."""
        ...

    def jobs(self) -> dict[str, Job]:
        """All jobs by name."""
        ...

    def pools(self) -> dict[str, Pool]:
        """All pools with a record, by id."""
        ...

    def notices(self) -> tuple[str, ...]:
        """Queues in which providers tell of machines outside of them, such as aws-sqs:us-east-1/NAME."""
        ...

    def put_pool(self, pool: Pool) -> None:
        """Add or replace a pool's record; UsageError when it stands in a file of the user's own."""
        ...

    def renting(self) -> Renting:
        """What the fleet may rent by itself."""
        ...

    def put_node(self, node: Node) -> None:
        """Add or replace a node's record."""
        ...

    def remove_node(self, name: str) -> None:
        """Drop a node's record."""
        ...

    def may_write_job(self, name: str) -> bool:
        """Whether the job's record is this program's to write: not in a file of the user's own."""
        ...

    def put_job(self, job: Job) -> None:
        """Add or replace a job's record."""
        ...

    def remove_job(self, name: str) -> None:
        """Drop a job's record."""
        ...


class Links(Protocol):
    """Connections to nodes, one a node, kept open."""

    async def link(self, node: Node) -> NodeLink:
        """The connection to `node`; opened at the first call."""
        ...

    async def lasting(self) -> None:
        """From now on keep a channel open on each node for short questions: one takes a round trip, no more."""
        ...

    async def close(self) -> None:
        """Drop all connections."""
        ...


class Keys(Protocol):
    """The fleet's signing key and the jobs' keys, in 0600 files of this machine."""

    def verify_key(self) -> str:
        """Public half of the fleet's key, hex."""
        ...

    def job_key(self, uid: str) -> str:
        """The job's key, hex; NotFoundError when this machine does not hold it."""
        ...

    def new_job_key(self, uid: str) -> str:
        """Make, keep and return the key of a new job, hex."""
        ...


class Gate(Protocol):
    """The compatibility gate: may an image made there run on a node with these facts?"""

    def __call__(
        self,
        fingerprint: dict[str, Any],
        facts: dict[str, Any],
        overrides: dict[str, str],
        declared: dict[str, str],
    ) -> GateAnswer:
        """The answer; `declared` holds the versions that the job's record declares now."""
        ...


class Installer(Protocol):
    """Puts the guard on nodes and takes it off."""

    async def plan(self, node: Node) -> tuple[str, ...]:
        """What `install` would make, one a line; changes nothing."""
        ...

    async def install(self, node: Node) -> None:
        """Install or upgrade; raises ReprieveError with the cause."""
        ...

    async def uninstall(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Reverse it: what was removed, and what was left because it is not ours."""
        ...

    async def pin(self, node: Node) -> tuple[Node, str]:
        """The node with its host key pinned, and a line about that key for people."""
        ...


@dataclass
class Fleet:
    """One opened fleet. Blocking parts run in threads, unless `inline` (tests, simulations)."""

    context: Context
    clock: Clock
    ledger: Ledger
    locks: Locks
    records: Records
    links: Links
    cloud_of: Callable[[Node], Cloud | None]
    truth_at: Callable[[str], Truth]  # store URL → store
    keys: Keys
    gate: Gate
    installer: Installer
    who: str = "console"
    inline: bool = False
    restarters: dict[str, Restarter] = field(default_factory=dict)  # kind → whom to ask
    leases: LeaseWatch = field(default_factory=LeaseWatch)
    placing: dict[str, str] = field(default_factory=dict)  # uid → node it is being brought to by this program

    async def blocking(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Run a blocking call without holding up the loop."""
        if self.inline:
            return call(*arguments, **named)
        return await asyncio.to_thread(call, *arguments, **named)

    def node(self, name: str) -> Node:
        """The record of a node; UsageError naming it when there is none."""
        node = self.records.nodes().get(name)
        if node is None:
            raise UsageError(
                f"node {name!r} is not in the fleet {self.context.name}", hint="see `reprieve fleet list`"
            )
        return node

    def job(self, name: str) -> Job:
        """The record of a job, with the uid and node that the ledger knows; UsageError when there is none."""
        job = self.records.jobs().get(name)
        if job is None:
            raise UsageError(
                f"job {name!r} is not in the fleet {self.context.name}", hint="see `reprieve jobs list`"
            )
        known = [each for each in self.ledger.jobs().values() if each.name == name]
        return _merged(job, known[-1] if known else None)

    def jobs(self) -> dict[str, Job]:
        """All jobs by name, each with the uid and node that the ledger knows."""
        current = {known.name: known for known in self.ledger.jobs().values()}
        return {name: _merged(job, current.get(name)) for name, job in self.records.jobs().items()}

    def store_url(self, job: Job) -> str:
        """The job's store, else the fleet's default; UsageError when neither is set."""
        url = job.store or self.context.store or ""
        if not url:
            raise UsageError(
                f"job {job.name} has no store and the fleet {self.context.name} has no default",
                hint='give --store URL, or set [fleet] store = "file:///…"',
            )
        return url

    def stores(self) -> tuple[str, ...]:
        """Every store of the fleet, the default one first: where its protected jobs save."""
        found = [self.context.store or "", *(job.store or "" for job in self.jobs().values() if job.uid)]
        return tuple(dict.fromkeys(filter(None, found)))

    def truth(self, job: Job) -> Truth:
        """The store of a job."""
        return self.truth_at(self.store_url(job))

    def job_key(self, uid: str) -> str:
        """The job's key; CredentialsError when this machine does not hold it."""
        try:
            return self.keys.job_key(uid)
        except NotFoundError:
            raise CredentialsError(
                f"the key of job {uid} is not on this machine ({self.context.state / 'keys'})",
                hint="run this where the job was protected, or copy its key file there",
            ) from None

    async def ask(
        self, node: Node, verb: str, document: dict[str, Any], *, timeout_s: float = CALL_S
    ) -> dict[str, Any]:
        """One verb on one node."""
        link = await self.links.link(node)
        return await link.call(verb, document, timeout_s=timeout_s)

    async def status(self, node: Node, *, timeout_s: float = CALL_S) -> NodeStatus:
        """The guard's status; UnreachableError, or DamagedError when the answer is not one."""
        answer = await self.ask(node, "status", {}, timeout_s=timeout_s)
        return strict.read(NodeStatus, answer, what=f"status of node {node.name}", ignore_unknown=True)

    async def job_status(self, node: Node, uid: str) -> tuple[NodeStatus, JobStatus | None]:
        """The guard's status and its word of one job, None when it has none."""
        status = await self.status(node)
        return status, next((job for job in status.jobs if job.uid == uid), None)

    async def instance(self, node: Node) -> InstanceState | None:
        """The provider's word; `unknown` with the reason when it cannot be had, None without a provider."""
        cloud = self.cloud_of(node)
        if cloud is None:
            return None
        try:
            return await self.blocking(cloud.instance, node)
        except (UnreachableError, CredentialsError) as error:
            return InstanceState("unknown", error.message, self.now_text(), node.provider)

    def now_text(self) -> str:
        """The wall time as RFC 3339."""
        return format_utc(self.clock.wall())

    def tell(
        self,
        kind: str,
        text: str,
        *,
        node: str | None = None,
        job: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> Event:
        """Put one event of our own into the ledger and return it."""
        event = Event(f"{self.who}/{new_nonce()}", self.now_text(), kind, node, job, text, data or {})
        self.ledger.add_event(event)
        return event

    async def install(self, node: Node) -> None:
        """Put the guard on a node."""
        await self.installer.install(node)

    async def pin(self, node: Node) -> tuple[Node, str]:
        """The node with the host key that it shows, and a line about it."""
        return await self.installer.pin(node)

    async def close(self) -> None:
        """Close connections, ledger and locks."""
        await self.links.close()
        self.ledger.close()
        self.locks.close()


def _merged(job: Job, known: JobCurrent | None) -> Job:
    """The record with what the ledger knows of the same incarnation."""
    if known is None or job.uid not in ("", known.uid):
        return job
    if (job.uid, job.node) == (known.uid, known.node or job.node):
        return job  # a copy is dear, and every look asks for every job
    return dataclasses.replace(job, uid=known.uid, node=known.node or job.node)
