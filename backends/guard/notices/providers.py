"""Which notices a node has: what the fleet says of its provider, else what the machine says of itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from backends.clock import Clock
from backends.guard.notices.metadata import URL_VARIABLE
from backends.guard.notices.port import NoticeSource

_DMI = "sys/class/dmi/id"
_AZURE_TAG = (
    "7783-7084-3265-9085-8269-3286-77"  # chassis asset tag of every Azure machine (Azure Linux agent)
)


def provider_here(environment: Mapping[str, str] | None = None, base: Path = Path("/")) -> str | None:
    """The provider that runs this machine, from its environment and its firmware's words; None: nobody known."""
    known = os.environ if environment is None else environment
    if known.get("SLURM_JOB_ID"):
        return "slurm"
    if known.get("RUNPOD_POD_ID"):
        return "runpod"
    if known.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    words = {name: _word(base / _DMI / name) for name in ("sys_vendor", "product_name", "chassis_asset_tag")}
    if words["sys_vendor"] == "Amazon EC2":
        return "aws"
    if words["product_name"] == "Google Compute Engine":
        return "gcp"
    return "azure" if words["chassis_asset_tag"] == _AZURE_TAG else None


def _word(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()[:80]
    except OSError:
        return ""


def notice_source(provider: str | None, clock: Clock) -> NoticeSource | None:
    """Where notices of a node come from; None where its provider announces nothing.

    `none`, the fleet's word for a machine it knows nothing of, and no word at all let the machine speak for itself. A
    metadata address in the environment speaks AWS's language, as the practice fleet does.
    """
    told = provider if provider not in (None, "none") else provider_here()
    if told is None and provider is None and os.environ.get(URL_VARIABLE):
        told = "practice"
    if told in ("aws", "practice"):
        from backends.guard.notices.aws import AwsNotices

        return AwsNotices(clock)
    if told == "gcp":
        from backends.guard.notices.google import GoogleNotices

        return GoogleNotices(clock)
    if told == "azure":
        from backends.guard.notices.azure import AzureNotices

        return AzureNotices(clock)
    if told == "kubernetes":
        from backends.guard.notices.kubernetes import KubernetesNotices

        return KubernetesNotices(clock)
    return _by_signal(told, clock)


def _by_signal(told: str | None, clock: Clock) -> NoticeSource | None:
    from backends.guard.notices.containers import RunpodNotices, SlurmNotices

    if told == "runpod":
        return RunpodNotices()
    return SlurmNotices(clock) if told == "slurm" else None
