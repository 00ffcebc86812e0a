"""Could a machine of a pool that nobody has rented yet take a save? Only what is published of its type is known.

The answer is never `fits`: kernel, driver, CRIU and libraries of a machine are known once one of it answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from backends.clouds.aws.gpus import GPUS
from backends.compat import SELF_SAVED
from backends.records.facts import Gpu
from backends.records.fingerprint import Fingerprint

OfferVerdict = Literal["could", "refused", "unknown"]
GIB = 1 << 30


@dataclass(frozen=True)
class Offer:
    """One instance type as published. None is unknown."""

    instance_type: str
    arch: str | None = None  # uname -m
    ram_bytes: int | None = None
    gpu: tuple[str, int] | None = None  # model in short (H100) and count
    gpu_known: bool = False  # False: whether it has GPUs is unknown


# Families and sizes as AWS names them: letters, generation, attributes; the attribute g is Graviton.
_TYPE = re.compile(r"([a-z]+)(\d+)([a-z]*)(?:-[a-z0-9]+)?\.[a-z0-9-]+\Z")
# Families with accelerators that are no NVIDIA GPUs, or whose table is not complete here.
_ACCELERATED = re.compile(r"(p|g|gr|trn|inf|dl|f|vt)\d")


def aws_offer(instance_type: str, ram_gb: float | None) -> Offer:
    """What is published of an AWS instance type; `ram_gb` as the Spot Instance Advisor gives it."""
    match = _TYPE.match(instance_type)
    arch = None
    if match is not None:
        family, attributes = match.group(1), match.group(3)
        arm = "g" in attributes or family == "a" or "gb" in instance_type.partition(".")[0].partition("-")[2]
        arch = None if family == "mac" else "aarch64" if arm else "x86_64"
    gpu = GPUS.get(instance_type)
    plain = match is not None and _ACCELERATED.match(instance_type) is None
    ram = None if ram_gb is None else int(ram_gb * GIB)
    return Offer(instance_type, arch, ram, gpu, gpu is not None or plain)


def could_take(saved: Fingerprint, offer: Offer) -> tuple[OfferVerdict, str]:
    """The verdict on a pool and the sentence behind it; both values are named."""
    if saved.arch is not None and offer.arch is not None and saved.arch != offer.arch:
        return "refused", f"processor architecture: {saved.arch} in the save, {offer.arch} in this pool"
    needed = saved.memory_needed_bytes
    if needed is not None and offer.ram_bytes is not None and needed > offer.ram_bytes:
        return "refused", (
            f"memory: {needed / GIB:.1f} GiB needed, {offer.ram_bytes / GIB:.1f} GiB in this pool"
        )
    refusal, unknown = _gpus(saved, offer)
    if refusal:
        return "refused", refusal
    if saved.arch is None or offer.arch is None:
        unknown = unknown or "its processor architecture is not known"
    if unknown:
        return "unknown", unknown
    rest = "whether kernel, CRIU and libraries agree is known once a machine of it answers"
    return "could", rest.replace("kernel,", "kernel, driver,") if saved.gpus else rest


def _gpus(saved: Fingerprint, offer: Offer) -> tuple[str, str]:
    """(why the GPUs do not match, what cannot be told about them); both empty when they may."""
    if saved.gpus == () or saved.engine in SELF_SAVED:
        return "", ""
    if saved.gpus is None:
        return "", "the save does not say which GPUs it used"
    wanted = _short(saved.gpus)
    if any(gpu.mig for gpu in saved.gpus):
        return f"GPU partitions (MIG): {wanted} in the save; nobody has shown yet that such a save works", ""
    if not offer.gpu_known:
        return "", f"{wanted} needed; which GPUs {offer.instance_type} has is not known"
    if offer.gpu is None:
        return f"GPU: {wanted} in the save, none in this pool; this needs a cold start", ""
    model, count = offer.gpu
    there = f"{count}x {model}"
    if any(gpu.model is None for gpu in saved.gpus):
        return "", f"the save does not name its GPU model; {there} in this pool"
    if any(model.lower() not in _tokens(gpu.model or "") for gpu in saved.gpus):
        return f"GPU model: {wanted} in the save, {there} in this pool; this needs a cold start", ""
    if count != len(saved.gpus):
        return f"GPU count: {len(saved.gpus)} in the save, {count} in this pool ({model})", ""
    return "", ""


def _tokens(model: str) -> set[str]:
    """`NVIDIA A100-SXM4-40GB` in words: A10 is not in A100."""
    return set(re.split(r"[^a-z0-9]+", model.lower()))


def _short(gpus: tuple[Gpu, ...]) -> str:
    models = sorted({gpu.model or "unknown model" for gpu in gpus})
    return f"{len(gpus)}x {', '.join(models)}"
