"""What operations ask of a provider: does an instance live, and can another be had."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

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
    tags: dict[str, str] = field(default_factory=dict)
    host_key: str | None = None  # public host key line, where the provider itself vouches for it


@dataclass(frozen=True)
class Replacement:
    """A request for capacity: pending, or a bare node (no guard, no tools) that answers SSH."""

    token: str  # idempotent request token
    state: Literal["pending", "ready", "failed"]
    node: Node | None = None
    reason: str = ""


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
class Terminator(Protocol):
    """A provider, or a fence command, that can also end a machine. Raises UnreachableError or CredentialsError."""

    def terminate(self, node: Node) -> None:
        """Ask that this node's machine be ended, however often; only what `instance` says afterwards is proof."""
        ...
