"""What a save needs of a machine: written into its manifest, compared by `backends.compat` before a restore."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from backends.records.facts import Facts, FileIdentity, Gpu
from backends.records.strict import read

FILES_LIMIT = (
    256  # executables and libraries of one job that a fingerprint names, and that a node is asked about
)


@dataclass(frozen=True)
class Fingerprint:
    """The machine a save was made on, as far as a restore depends on it. None is unknown."""

    engine: str = "criu"
    arch: str | None = None
    cpu_model: str | None = None  # for people only
    cpu_flags: tuple[str, ...] | None = None
    kernel: str | None = None
    libc: str | None = None
    criu: str | None = None
    cgroup_version: int | None = None
    lsm: tuple[str, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None  # those the job used; () for a job without
    driver: str | None = None
    cuda_checkpoint: str | None = None
    os_id: str | None = None
    os_version: str | None = None
    files: dict[str, FileIdentity] = field(default_factory=dict)  # executable and libraries by path
    runtime: dict[str, str] = field(default_factory=dict)  # versions the operator declared
    memory_needed_bytes: int | None = None
    gpu_memory_needed_bytes: int | None = None
    disk_needed_bytes: int | None = None


def read_fingerprint(document: dict[str, Any], *, what: str) -> Fingerprint:
    """The fingerprint of a manifest; fields of later versions are passed over; DamagedError for wrong types."""
    return read(Fingerprint, document, what=what, ignore_unknown=True)


def fingerprint_of(
    facts: Facts,
    *,
    engine: str,
    runtime: dict[str, str] | None = None,
    files: dict[str, FileIdentity] | None = None,
    gpus: tuple[Gpu, ...] | None = (),
    memory_needed_bytes: int | None = None,
    gpu_memory_needed_bytes: int | None = None,
    disk_needed_bytes: int | None = None,
) -> Fingerprint:
    """The fingerprint of a save made now on the machine of `facts`.

    `gpus`: those the job holds; `()` for a job that uses none; None when that could not be told.
    `files`: identities beside those of the machine image.
    """
    return Fingerprint(
        engine=engine,
        arch=facts.arch,
        cpu_model=facts.cpu_model,
        cpu_flags=facts.cpu_flags,
        kernel=facts.kernel,
        libc=facts.libc,
        criu=facts.criu.version,
        cgroup_version=facts.cgroup_version,
        lsm=facts.lsm,
        gpus=gpus,
        driver=facts.driver if gpus != () else None,
        cuda_checkpoint=facts.cuda_checkpoint if gpus != () else None,
        os_id=facts.image.os_id,
        os_version=facts.image.os_version,
        files={**facts.image.files, **(files or {})},
        runtime=dict(runtime or {}),
        memory_needed_bytes=memory_needed_bytes,
        gpu_memory_needed_bytes=gpu_memory_needed_bytes,
        disk_needed_bytes=disk_needed_bytes,
    )
