"""What operations ask of a provider: does an instance live, and can another be had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from backends.records.node import Node

State = Literal["running", "stopping", "stopped", "terminated", "unknown"]


@dataclass(frozen=True)
class InstanceState:
    """The provider's word on one instance. `unknown` is an answer of its own: it proves nothing."""

    state: State
    reason: str  # the provider's reason code or why it could not be asked
    asked_at: str  # RFC 3339
    source: str  # which API answered, for the record of proof
    ended_at: str | None = (
        None  # RFC 3339, when the machine was gone, where the provider tells; never before its true end
    )
    group: str = ""  # the scaling group that starts another machine in its place; empty: none, or not told


@dataclass(frozen=True)
class Found:
    """An instance that a provider lists; text is cleaned."""

    instance: str  # the provider's id
    name: str  # its name there; may be empty
    pool: str  # provider/region/type/os
    zone: str
    spot: bool
    state: State
    reason: str = ""  # why it ended, in the provider's words
    public_address: str | None = None
    private_address: str | None = None
    launched_at: str | None = None  # RFC 3339 by the provider's clock
    pending: bool = False  # counted as running, and still starting
    tags: dict[str, str] = field(default_factory=dict)
    host_key: str | None = None  # public host key line, where the provider itself vouches for it


@dataclass(frozen=True)
class Replacement:
    """A request for capacity: pending, or a bare node (no guard, no tools) that answers SSH."""

    token: str  # idempotent request token
    state: Literal["pending", "ready", "failed"]
    node: Node | None = None
    reason: str = ""
    usd_per_hour: float | None = None  # what it costs, by the price that was known when it was asked for


class Cloud(Protocol):
    """One provider. Raises UnreachableError or CredentialsError; neither ever means that a node is gone."""

    def instance(self, node: Node) -> InstanceState:
        """What the provider says of this node's instance now."""
        ...

    def replace(self, pool: str, token: str) -> Replacement:
        """Ask for one node of `pool`, or look at an earlier request with the same token; creates nothing twice."""
        ...


Market = Literal["spot", "on_demand"]


@runtime_checkable
class Renter(Protocol):
    """A provider that lends machines for money. Raises UnreachableError or CredentialsError."""

    def rent(self, pool: str, token: str, *, market: Market, max_usd: float) -> Replacement:
        """As `Cloud.replace`, on this market; `failed` with the reason when it could cost more than `max_usd` in its life."""
        ...

    def cancel(self, token: str) -> None:
        """Give a pending request up; a machine that came of it is ended. Unknown tokens are no error."""
        ...


@runtime_checkable
class Launcher(Protocol):
    """A renter that launches by a record of the pool. Raises UsageError, UnreachableError or CredentialsError."""

    def record(self, node: Node) -> dict[str, Any]:
        """How this node's machine was launched, as a pool's record has it; not tested yet."""
        ...

    def test(self, pool: str, table: Mapping[str, Any] | None = None) -> str:
        """Try the pool's record, or `table` in its place, without creating anything; when (RFC 3339) it passed."""
        ...

    def launchable(self, pool: str) -> str | None:
        """Why no machine of `pool` can be launched; None when one can. Contacts nobody."""
        ...

    def request(self, pool: str, token: str, *, market: Market) -> dict[str, Any]:
        """The exact call that `rent` would make: `call` and `parameters`. Contacts nobody."""
        ...


@dataclass(frozen=True)
class Owned:
    """Something at a provider that this fleet created; text is cleaned."""

    kind: Literal["instance", "volume", "template", "card", "address"]
    id: str
    region: str
    pool: str = ""  # provider/region/type/os; empty: it belongs to none
    state: str = ""
    created_at: str | None = None  # RFC 3339 by the provider's clock
    token: str = ""  # the request that it came of


@runtime_checkable
class Reaper(Protocol):
    """A provider that lists and removes what this fleet created there. Raises UnreachableError or CredentialsError."""

    def owned(self, region: str) -> tuple[Owned, ...]:
        """Everything in `region` that carries this fleet's mark and still exists."""
        ...

    def remove(self, thing: Owned) -> None:
        """Remove it; what is gone already is no error. Refused for what does not carry the mark any more."""
        ...


@runtime_checkable
class Terminator(Protocol):
    """A provider, or a fence command, that can also end a machine. Raises UnreachableError or CredentialsError."""

    def terminate(self, node: Node) -> None:
        """Ask that this node's machine be ended, however often; only what `instance` says afterwards is proof."""
        ...
