"""The engines of this node, for the guard and for its watchdog, which loads nothing else of the guard's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import backends
from backends.clock import SystemClock
from backends.engines.catalogue import node_engines
from backends.engines.port import Engine
from backends.guard.disk.layout import layout_here


def engines() -> Mapping[str, Engine]:
    """The engines of this node, by name, the preferred first; a CRIU in the bundle before the node's own."""
    bundle = Path(backends.__file__).parents[2]
    return node_engines(layout_here().engines, SystemClock(), [bundle / "criu"])
