"""The engines of a node, put together: what a guard asks for at its start."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from backends.clock import Clock
from backends.engines.criu import CriuEngine
from backends.engines.criu_tool import find_criu
from backends.engines.port import Engine
from backends.engines.signal import SignalEngine


def node_engines(run: Path, clock: Clock, bundled: Iterable[Path] = ()) -> dict[str, Engine]:
    """Engines by name, the preferred first; `criu` is absent where no criu program runs.

    `run` is a directory for what living jobs need. `bundled` are roots of unpacked CRIU packages that came with the
    node's bundle; they are preferred to the node's own criu, which may be older than its kernel.
    """
    own = shutil.which("criu", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/sbin")
    tool = find_criu([*bundled, *([Path(own)] if own else [])])
    engines: dict[str, Engine] = {}
    if tool is not None:
        engines["criu"] = CriuEngine(tool, run, clock)
    engines["signal"] = SignalEngine(run, clock)
    return engines
