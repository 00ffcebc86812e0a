"""The engines of a node, put together: what a guard asks for at its start."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from backends.clock import Clock
from backends.engines.criu import CriuEngine
from backends.engines.criu_tool import find_criu
from backends.engines.cuda.engine import CudaEngine
from backends.engines.cuda.tool import CudaTool
from backends.engines.oci.engine import OciEngine
from backends.engines.oci.runtime import Runtime
from backends.engines.port import Engine
from backends.engines.signal import SignalEngine

_PATH = "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/sbin"


def node_engines(run: Path, clock: Clock, bundled: Iterable[Path] = ()) -> dict[str, Engine]:
    """Engines by name, the preferred first.

    `criu` is absent where no criu program runs, `criu-cuda`, `crun` and `runc`
    where their own programs are missing too.
    `run` is a directory for what living jobs need. `bundled` are roots of unpacked CRIU packages that came with the
    node's bundle; they are preferred to the node's own criu, which may be older than its kernel.
    """
    own = shutil.which("criu", path=_PATH)
    tool = find_criu([*bundled, *([Path(own)] if own else [])])
    engines: dict[str, Engine] = {}
    if tool is not None:
        engines["criu"] = criu = CriuEngine(tool, run, clock)
        cuda = shutil.which("cuda-checkpoint", path=_PATH)
        if cuda is not None:
            engines["criu-cuda"] = CudaEngine(tool, CudaTool(Path(cuda), run), run, clock)
        for name in ("crun", "runc"):
            program = shutil.which(name, path=_PATH)
            if program is not None:
                runtime = Runtime(name, Path(program), tool, run / "criu-for-runtimes")
                engines[name] = OciEngine(runtime, criu, run, clock)
    engines["signal"] = SignalEngine(run, clock)
    return engines
