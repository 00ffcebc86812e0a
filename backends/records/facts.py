"""What a node is: the answer of the node verb `facts`. None is unknown, `()` is none at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Gpu:
    """One GPU as the node sees it."""

    index: int | None = None
    uuid: str | None = None
    model: str | None = None  # NVIDIA H100 80GB HBM3
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    mig: bool | None = None  # partitioned (Multi-Instance GPU)
    mig_profiles: tuple[str, ...] | None = None
    compute_capability: str | None = None  # 9.0
    persistence: bool | None = None  # the driver stays loaded while nobody uses the GPU


@dataclass(frozen=True)
class Criu:
    """The CRIU that the guard would use, and whether it works here."""

    path: str | None = None  # None: none found
    version: str | None = None
    ready: bool | None = None  # canary dump and restore with a socket; None: not tried
    reason: str = ""  # why it is not ready, or not tried
    origin: Literal["node", "bundle"] | None = None


@dataclass(frozen=True)
class FileIdentity:
    """What tells one build of an executable or library from another."""

    size_bytes: int
    build_id: str | None = None  # GNU build id, hex; None: the file has none


@dataclass(frozen=True)
class Image:
    """The machine image: what a restored process finds on disk, in short."""

    os_id: str | None = None  # ID of os-release
    os_version: str | None = None  # VERSION_ID of os-release
    files: dict[str, FileIdentity] = field(default_factory=dict)  # libc and the dynamic loader, by path


@dataclass(frozen=True)
class Facts:
    """One look at a node. Text is cleaned on the node and again by whoever reads it."""

    time: str  # RFC 3339 by the node's wall clock, for its offset
    wall_s: float  # the same instant, seconds since 1970
    boot_id: str | None = None
    uptime_s: float | None = None
    arch: str | None = None  # uname -m
    cpu_model: str | None = None
    cpu_flags: tuple[str, ...] | None = None  # sorted; only what every CPU of the machine has
    cpus: int | None = None
    kernel: str | None = None  # uname -r
    libc: str | None = None  # glibc 2.36
    python: str | None = None  # version of the interpreter that runs the guard
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    root_free_bytes: int | None = None  # where the bundle lies
    staging_free_bytes: int | None = None  # where saves under way lie
    criu: Criu = field(default_factory=Criu)
    tools: dict[str, str | None] = field(default_factory=dict)  # name → path; None: absent
    uid: int | None = None
    capabilities: tuple[str, ...] | None = None  # effective, of the guard: cap_sys_admin …
    cgroup_version: int | None = None
    lsm: tuple[str, ...] | None = None  # active security modules, as the kernel lists them
    gpus: tuple[Gpu, ...] | None = None  # None: unknown; () none
    gpu_reason: str = ""  # why `gpus` or their details are unknown
    driver: str | None = None  # NVIDIA kernel driver, full text
    cuda_checkpoint: str | None = (
        None  # version of the program that saves GPU state; None: absent, or it does not say
    )
    cuda: str | None = None  # newest CUDA version that this driver runs, 13.0
    image: Image = field(default_factory=Image)
    files: dict[str, FileIdentity | None] = field(default_factory=dict)  # asked for; None: absent
    runtime: dict[str, str] = field(default_factory=dict)  # declared versions on this node
    bundle: str | None = None  # digest of the installed bundle
    protocol: int = 1
