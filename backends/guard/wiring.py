"""Putting the real parts together: engines, stores, notices, for the guard of one root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import backends
from backends.clock import SystemClock
from backends.engines.catalogue import node_engines
from backends.engines.port import Engine
from backends.guard.disk.freezes import Freezes
from backends.guard.disk.layout import Layout, boot_id, identity, layout_here
from backends.guard.disk.spool import Spool
from backends.guard.fingerprints import Fingerprints
from backends.guard.jobs.tools import Tools
from backends.guard.notices.providers import notice_source
from backends.guard.probes.nvml import GpuWatch
from backends.guard.service import Guard
from backends.guard.storevault import opener


def engines() -> Mapping[str, Engine]:
    """The engines of this node, by name, the preferred first; a CRIU in the bundle before the node's own."""
    bundle = Path(backends.__file__).parents[2]
    return node_engines(layout_here().engines, SystemClock(), [bundle / "criu"])


def guard_at(layout: Layout, engines_name: str, respawn: Sequence[str]) -> Guard:
    """The guard of `layout`; `engines_name` tells the watchdog where engines come from."""
    clock = SystemClock()
    who = identity(layout)
    tools = Tools(
        layout=layout,
        identity=who,
        boot_id=boot_id(),
        clock=clock,
        engines=engines(),
        open_vault=opener(clock, Fingerprints(clock, layout.root), layout.pages),
        spool=Spool(layout.spool, who.guard, who.node, clock),
        freezes=Freezes(layout.frozen),
    )
    return Guard(tools, notice_source(who.provider, clock), engines_name, respawn, GpuWatch(clock))
