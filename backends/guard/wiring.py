"""Putting the real parts together: engines, stores, notices, for the guard of one root."""

from __future__ import annotations

from collections.abc import Sequence

from backends.clock import SystemClock
from backends.guard.disk.freezes import Freezes
from backends.guard.disk.layout import Layout, boot_id, identity
from backends.guard.disk.offset import ControllerClock
from backends.guard.disk.spool import Spool
from backends.guard.fingerprints import Fingerprints
from backends.guard.installed import engines
from backends.guard.jobs.tools import Tools
from backends.guard.notices.providers import notice_source
from backends.guard.probes.nvml import GpuWatch
from backends.guard.service import Guard
from backends.guard.storevault import opener


def guard_at(layout: Layout, engines_name: str, respawn: Sequence[str]) -> Guard:
    """The guard of `layout`; `engines_name` tells the watchdog where engines come from."""
    clock = SystemClock()
    who = identity(layout)
    here = boot_id()
    controller = ControllerClock(layout.controller_clock, clock, here)
    tools = Tools(
        layout=layout,
        identity=who,
        boot_id=here,
        clock=clock,
        engines=engines(),
        open_vault=opener(clock, Fingerprints(clock, layout.root), layout.pages, controller.offset_s),
        spool=Spool(layout.spool, who.guard, who.node, clock),
        freezes=Freezes(layout.frozen),
        controller=controller,
    )
    return Guard(tools, notice_source(who.provider, clock), engines_name, respawn, GpuWatch(clock))
