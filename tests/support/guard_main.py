"""The guard of tests as a process: the real service and store, the test engine, notices only when asked for."""

from __future__ import annotations

import os
import sys

from backends.clock import SystemClock
from backends.guard.disk.freezes import Freezes
from backends.guard.disk.layout import boot_id, identity, layout_here
from backends.guard.disk.offset import ControllerClock
from backends.guard.disk.spool import Spool
from backends.guard.jobs.tools import Tools
from backends.guard.notices.aws import AwsNotices
from backends.guard.notices.metadata import URL_VARIABLE
from backends.guard.service import Guard
from backends.guard.storevault import opener
from tests.support.guard_engine import engines


def main() -> None:
    """Serve until told to end."""
    layout, clock = layout_here(), SystemClock()
    layout.prepare()
    who = identity(layout)
    here = boot_id()
    controller = ControllerClock(layout.controller_clock, clock, here)
    tools = Tools(
        layout=layout,
        identity=who,
        boot_id=here,
        clock=clock,
        engines=engines(),
        open_vault=opener(clock, lambda shipment: {}, layout.pages, controller.offset_s),
        spool=Spool(layout.spool, who.guard, who.node, clock),
        freezes=Freezes(layout.frozen),
        controller=controller,
    )
    source = AwsNotices(clock, timeout_s=1.0, period_s=0.2) if URL_VARIABLE in os.environ else None
    respawn = [sys.executable, "-m", "tests.support.guard_main"]
    guard = Guard(tools, source, "tests.support.guard_engine:engines", respawn)
    guard.obey_signals()
    guard.run()
    os._exit(0)


if __name__ == "__main__":
    main()
