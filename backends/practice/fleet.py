"""The practice fleet: its hosts, its fake cloud, and what can be done to them. Lives in the daemon."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.errors import ReprieveError, UsageError
from backends.practice import metadata
from backends.practice.metadata import Metadata, MetadataMode
from backends.practice.metrics import Metrics
from backends.practice.port import Host, HostKind, HostSpec
from backends.practice.relay import Relay

DEFAULT_POOL = "practice/zone-a/small/linux"
NO_CAPACITY = "InsufficientInstanceCapacity"
_HOST_LIMIT = 5000


def letters(number: int) -> str:
    """1 → a, 26 → z, 27 → aa: short names that are easy to type."""
    text = ""
    while number > 0:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("a") + digit) + text
    return text


@dataclass
class Member:
    """A host of the fleet, alive or taken."""

    spec: HostSpec
    host: Host
    relay: Relay
    metadata: Metadata
    server: asyncio.Server  # of its metadata endpoint
    state: Literal["running", "noticed", "terminated"] = "running"
    partitioned: bool = False
    doom: asyncio.Task[None] | None = None  # the reclaim that a notice announced
    ended_at: float | None = None  # wall seconds

    def document(self) -> dict[str, Any]:
        """As `describe` shows it."""
        notice = self.metadata.deadline if self.metadata.mode == "notice" else None
        return {
            "name": self.spec.name,
            "state": self.state,
            "ssh": f"{self.host.user}@127.0.0.1:{self.relay.port}",
            "ssh_port": self.relay.port,
            "host_key": self.host.host_key,
            "instance": self.spec.instance,
            "pool": self.spec.pool,
            "pid": self.host.pid if self.state != "terminated" else None,
            "partitioned": self.partitioned,
            "metadata": self.metadata.mode,
            "notice_at": None if notice is None else format_utc(notice),
            "ended_at": None if self.ended_at is None else format_utc(self.ended_at),
        }


@dataclass
class Order:
    """A request for a replacement."""

    token: str
    pool: str
    ready_at: float  # monotonic seconds before which there is no capacity
    task: asyncio.Task[Member] | None = None


@dataclass
class Fleet:
    """All hosts and the fake cloud. Methods that take a host's name raise UsageError for an unknown one."""

    kind: HostKind
    directory: Path
    clock: Clock
    metrics: Metrics = field(default_factory=Metrics)
    members: dict[str, Member] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    capacity: bool = True
    capacity_delay_s: float = 0.0
    store_full: bool = False
    _count: int = 0

    async def add(self, pool: str = DEFAULT_POOL) -> Member:
        """Start one more bare host; it answers SSH when this returns."""
        if self._count >= _HOST_LIMIT:
            raise UsageError(f"the practice fleet has made {_HOST_LIMIT} hosts; start a new one")
        self._count += 1
        name = f"host-{letters(self._count)}"
        spec = HostSpec(
            name, self._count, f"i-{secrets.token_hex(8)}0", pool, self.directory / "hosts" / name
        )
        host = await self.kind.make(spec)
        state = Metadata(spec.instance, pool)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await metadata.serve(reader, writer, state, self.clock)

        server = await asyncio.start_server(serve, sock=host.metadata)
        relay = Relay(self.kind.ssh_socket(), host.connect)
        relay.open()
        member = Member(spec, host, relay, state, server)
        self.members[name] = member
        return member

    def member(self, name: str) -> Member:
        """The host called `name`, alive or not."""
        found = self.members.get(name)
        if found is None:
            known = ", ".join(self.members) or "none"
            raise UsageError(f"practice host {clean(name, limit=80)!r} does not exist; there are: {known}")
        return found

    def _living(self, name: str) -> Member:
        member = self.member(name)
        if member.state == "terminated":
            raise UsageError(f"practice host {name} was reclaimed already")
        return member

    async def reclaim(self, name: str, notice_s: float | None = None) -> Member:
        """Take a host: now, or after announcing it for `notice_s` seconds."""
        member = self._living(name)
        if notice_s is None:
            await self._end(member)
            return member
        self.announce(name, notice_s)
        if member.doom is not None:
            member.doom.cancel()
        member.doom = asyncio.create_task(self._end_after(member, notice_s))
        return member

    async def _end_after(self, member: Member, seconds: float) -> None:
        await self.clock.pause(seconds)
        member.doom = None
        await self._end(member)

    async def _end(self, member: Member) -> None:
        if member.state == "terminated":
            return
        member.state = "terminated"
        member.ended_at = self.clock.wall()
        if member.doom is not None:
            member.doom.cancel()
        member.server.close()
        await member.host.kill()
        await member.relay.close()

    async def notice_deaths(self) -> None:
        """Record hosts whose init ended without us: the cloud calls them terminated from now on."""
        for member in list(self.members.values()):
            if member.state != "terminated" and not member.host.alive():
                await self._end(member)

    def announce(self, name: str, notice_s: float) -> Member:
        """Let the metadata endpoint announce a reclaim in `notice_s` seconds; takes nothing by itself."""
        member = self._living(name)
        member.metadata.mode = "notice"
        member.metadata.since = self.clock.wall()
        member.metadata.deadline = self.clock.wall() + notice_s
        member.state = "noticed"
        return member

    def set_metadata(self, name: str, mode: MetadataMode) -> Member:
        """Set what the metadata endpoint does; `silent` withdraws a notice, and the reclaim it announced."""
        member = self._living(name)
        member.metadata.mode = mode
        member.metadata.since = self.clock.wall()
        if mode in ("silent", "hint"):
            member.state = "running"
            if member.doom is not None:
                member.doom.cancel()
                member.doom = None
        return member

    def instance(self, instance: str) -> tuple[str, str, str | None]:
        """(state, reason, end) that the cloud gives for an instance: running, terminated or unknown."""
        for member in self.members.values():
            if member.spec.instance == instance:
                if member.state == "terminated":
                    ended = None if member.ended_at is None else format_utc(member.ended_at)
                    return "terminated", "Server.SpotInstanceTermination", ended
                return "running", "running", None
        return "unknown", "InvalidInstanceID.NotFound", None

    def replace(self, pool: str, token: str) -> dict[str, Any]:
        """Ask for a bare host of `pool`, or look at the request with this token; never makes two for one token."""
        if not pool.startswith("practice/") or not token:
            raise UsageError(
                f"pool {clean(pool, limit=80)!r} is not this cloud's: practice/ZONE/TYPE/SYSTEM expected"
            )
        order = self.orders.get(token)
        if order is None:
            if not self.capacity:
                return {"token": token, "state": "failed", "reason": f"{NO_CAPACITY}: none in {clean(pool)}"}
            order = Order(token, pool, self.clock.monotonic() + self.capacity_delay_s)
            self.orders[token] = order
            order.task = asyncio.create_task(self._fill(order))
        if order.pool != pool:
            raise UsageError(f"token {clean(token, limit=64)!r} was used for pool {order.pool} before")
        if order.task is None or not order.task.done():
            return {"token": token, "state": "pending", "reason": "waiting for capacity"}
        failure = order.task.exception()
        if failure is not None:
            return {"token": token, "state": "failed", "reason": clean(failure)}
        return {"token": token, "state": "ready", "reason": "", "host": order.task.result().document()}

    async def _fill(self, order: Order) -> Member:
        await self.clock.pause(max(0.0, order.ready_at - self.clock.monotonic()))
        return await self.add(order.pool)

    def set_capacity(self, available: bool | None, delay_s: float | None) -> None:
        """How later requests for replacements go: refused or filled, and after how many seconds."""
        self.capacity = self.capacity if available is None else available
        self.capacity_delay_s = self.capacity_delay_s if delay_s is None else delay_s

    def partition(self, name: str, on: bool) -> Member:
        """Cut a host off: SSH neither answers nor refuses, its link carries nothing; or heal it."""
        member = self._living(name)
        if member.partitioned != on:
            member.host.cut(on)
            member.relay.set_silent(on)
            member.partitioned = on
        return member

    def fill_store(self, on: bool) -> None:
        """Let writes to the store fail with ENOSPC on the hosts, or work again."""
        self.kind.fill_store(on)
        self.store_full = on

    async def close(self) -> None:
        """End every host."""
        for order in self.orders.values():
            if order.task is not None:
                order.task.cancel()
        results = await asyncio.gather(
            *(self._end(member) for member in self.members.values()), return_exceptions=True
        )
        failures = [item for item in results if isinstance(item, BaseException)]
        if failures:
            raise ReprieveError(f"a practice host did not end: {clean(failures[0])}")
