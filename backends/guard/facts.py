"""The node verb `facts`: what this machine is, with or without a running guard."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

from backends.clean import clean
from backends.clock import Clock, SystemClock, format_utc
from backends.engines.catalogue import node_engines
from backends.engines.criu import CriuEngine
from backends.engines.cuda.tool import CudaTool
from backends.engines.system.nvml import NvmlAnswer
from backends.errors import ReprieveError
from backends.guard.probes import gpus, machine
from backends.guard.probes.identity import identify
from backends.records.facts import Criu, Facts, FileIdentity, Image
from backends.records.fingerprint import FILES_LIMIT

TOOLS = (
    "nsenter", "unshare", "iptables", "iptables-restore", "nft", "ip", "systemctl", "runc", "crun", "podman",
    "cuda-checkpoint",
)  # fmt: skip
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def collect(
    paths: tuple[str, ...] = (),
    *,
    clock: Clock | None = None,
    base: Path = Path("/"),
    root: Path | None = None,
    nvml: Callable[[], NvmlAnswer] | None = None,
) -> Facts:
    """Look at this machine; what is missing, odd or absurd is None.

    Args:
        paths: absolute files whose identity is wanted too (executables and libraries of a save).
        clock: for the time of the look.
        base: where /proc, /sys, /dev and /etc lie; tests give their own.
        root: the node's root; None: REPRIEVE_NODE_ROOT or /opt/reprieve.
        nvml: how the driver's library is asked; None: by a child process on this machine, not at all elsewhere.
    """
    watch = clock or SystemClock()
    now = watch.wall()
    place = root or Path(os.environ.get("REPRIEVE_NODE_ROOT") or "/opt/reprieve")
    model, flags, cpus = machine.cpu(base)
    total, available = machine.memory(base)
    found, reason, driver, cuda = gpus.look(base, nvml)
    tools = {name: shutil.which(name, path=_path()) for name in TOOLS}
    return Facts(
        time=format_utc(now),
        wall_s=now,
        boot_id=machine.line(base / "proc/sys/kernel/random/boot_id"),
        uptime_s=machine.uptime_s(base),
        arch=clean(os.uname().machine, limit=40) or None,
        cpu_model=model,
        cpu_flags=flags,
        cpus=cpus,
        kernel=machine.line(base / "proc/sys/kernel/osrelease"),
        libc=machine.libc(),
        python=platform.python_version(),
        memory_bytes=total,
        memory_available_bytes=available,
        root_free_bytes=machine.free_bytes(place),
        staging_free_bytes=machine.free_bytes(place / "staging"),
        criu=_criu(place, watch),
        tools=tools,
        uid=os.getuid(),
        capabilities=machine.capabilities(base),
        cgroup_version=machine.cgroup_version(base),
        lsm=machine.modules(base),
        gpus=found,
        gpu_reason=reason,
        driver=driver,
        cuda_checkpoint=_cuda_checkpoint(tools["cuda-checkpoint"], place),
        cuda=cuda,
        image=_image(base),
        files=_identities(paths),
        bundle=_bundle(place),
    )


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:{_PATH}".strip(":")


def _image(base: Path) -> Image:
    identity, version = machine.os_release(base)
    files = {}
    # The libraries this interpreter runs on are those that most jobs here have mapped.
    for row in (machine.text(base / "proc/self/maps") or "").splitlines():
        path = row.partition("/")[2]
        name = path.rpartition("/")[2]
        if name.startswith(("libc.so", "libc-", "ld-linux", "ld-2", "ld-musl")) and f"/{path}" not in files:
            found = identify(Path(f"/{path}"))
            if found is not None:
                files[f"/{path}"] = found
    return Image(identity, version, files)


def _identities(paths: tuple[str, ...]) -> dict[str, FileIdentity | None]:
    return {path: identify(Path(path)) for path in paths[:FILES_LIMIT] if path.startswith("/")}


def _bundle(root: Path) -> str | None:
    try:
        return clean((root / "current").readlink().name, limit=80)
    except OSError:
        return None


def _cuda_checkpoint(program: str | None, root: Path) -> str | None:
    """The version of cuda-checkpoint here; None when there is none, or when it does not say."""
    try:
        return CudaTool(Path(program), root / "run/engines").version() if program is not None else None
    except (ReprieveError, OSError):
        return None


def _criu(root: Path, clock: Clock) -> Criu:
    """The CRIU that the engine would use here and its canary's verdict, remembered per program and kernel."""
    try:
        bundled = root / (root / "current").readlink() / "criu"
    except OSError:
        bundled = root / "criu"  # nothing is installed: no such directory
    try:
        engine = node_engines(root / "run/engines", clock, [bundled]).get("criu")
        if not isinstance(engine, CriuEngine):
            return Criu(ready=False, reason="no criu on this machine, and none in the bundle")
        verdict = engine.ready()
    except (ReprieveError, OSError) as error:
        return Criu(reason=f"CRIU could not be tried: {clean(error)}")
    path = engine.tool.argv[-1]
    return Criu(
        path=path,
        version=engine.tool.version,
        ready=verdict.answer == "ok",
        reason="; ".join(clean(reason) for reason in verdict.reasons),
        origin="bundle" if Path(path).is_relative_to(bundled) else "node",
    )
