"""What a fleet's files hold: nodes, jobs, pools, and where each record was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from backends.errors import UsageError
from backends.inventory.document import nearest
from backends.records.job import Job
from backends.records.node import Node

Kind = Literal["nodes", "jobs", "pools"]


@dataclass(frozen=True)
class Pool:
    """A pool's record: how a machine of it is launched, when that was recorded."""

    id: str  # provider/region/type/os
    launch: dict[str, Any] | None = None  # image, subnets, security groups …; None: not launchable


@dataclass(frozen=True)
class Renting:
    """What the fleet may rent by itself: nothing, unless its file says so."""

    rent: bool = False  # spot machines
    on_demand: bool = False  # on-demand machines, for jobs whose policy asks for them
    max_usd: float | None = None  # for one machine's whole life; both limits are needed to rent anything
    max_nodes: int | None = None  # rented machines at once
    max_usd_month: float | None = (
        None  # for all machines rented in a calendar month (UTC); None: no further limit
    )

    def __post_init__(self) -> None:
        for name in ("max_usd", "max_nodes", "max_usd_month"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value:g}; more than 0 is needed")
        if (self.rent or self.on_demand) and (self.max_usd is None or self.max_nodes is None):
            raise ValueError("renting needs both max_usd and max_nodes")


@dataclass(frozen=True)
class Origin:
    """Where a record stands."""

    path: Path
    line: int | None
    ours: bool  # a file that this program wrote for this one record; others are the user's own

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else str(self.path)


@dataclass(frozen=True)
class Inventory:
    """A fleet as its files describe it. Records are in the order of their names."""

    nodes: dict[str, Node] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    store: str | None = None  # [fleet] store
    renting: Renting = field(default_factory=Renting)  # [fleet] rent, on_demand, max_usd, max_nodes
    notices: tuple[str, ...] = ()  # [fleet] notices: where providers tell of machines outside of them
    origins: dict[tuple[Kind, str], Origin] = field(default_factory=dict)
    files: tuple[Path, ...] = ()  # files that were read; empty: the fleet has no file yet

    def node(self, name: str) -> Node:
        """The node of this name; UsageError with the nearest name otherwise."""
        if name not in self.nodes:
            raise _absent("node", name, self.nodes)
        return self.nodes[name]

    def job(self, name: str) -> Job:
        """The job of this name; UsageError with the nearest name otherwise."""
        if name not in self.jobs:
            raise _absent("job", name, self.jobs)
        return self.jobs[name]

    def ours(self, kind: Kind, name: str) -> bool:
        """Whether this program may rewrite the record: it wrote the file, or there is none yet."""
        origin = self.origins.get((kind, name))
        return origin is None or origin.ours


def _absent(kind: str, name: str, known: dict[str, Any]) -> UsageError:
    if not known:
        return UsageError(f"{kind} {name!r} is not in the fleet, which has no {kind}s yet")
    names = list(known)[:20]
    return UsageError(f"{kind} {name!r} is not in the fleet{nearest(name, names)}")
