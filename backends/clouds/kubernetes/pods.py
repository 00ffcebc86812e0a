"""Pods as the API server tells of them: pure functions of its answers.

Source: Kubernetes documentation, "Pod lifecycle", "Disruptions". A name may be used again by another pod, so an instance is
NAMESPACE/NAME/UID. What the control plane says without the kubelet's word (a lost node, the garbage collector) proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from backends.clean import clean
from backends.clouds.port import Found, State

_PART = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_INSTANCE = re.compile(rf"({_PART})/({_PART})/([0-9a-f-]{{36}})\Z")
_SPOT = {
    "karpenter.sh/capacity-type": "spot",
    "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
}
_HEARSAY = ("DeletionByPodGC", "DeletionByTaintManager")  # ends that were written down without the kubelet


def name_of(instance: str | None) -> tuple[str, str, str] | None:
    """Namespace, name and uid; None for anything else."""
    match = _INSTANCE.match(instance or "")
    return (match[1], match[2], match[3]) if match else None


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def verdict(pod: dict[str, Any], uid: str) -> tuple[State, str]:
    """What an answer about a pod says of exactly this one: state and reason."""
    here, status = str(_table(pod.get("metadata")).get("uid", "")), _table(pod.get("status"))
    if here != uid:
        known = re.fullmatch(r"[0-9a-f-]{36}", here) is not None
        # A StatefulSet starts the next pod of a name only when the kubelet has confirmed the end of the last one;
        # after a forced deletion it does not wait, so the name alone is no proof.
        return "unknown", f"another pod ({here}) has its name now" if known else "the answer names no pod"
    phase, reason = (clean(status.get(key) or "", limit=60) for key in ("phase", "reason"))
    told = [
        str(row.get("reason"))
        for row in status.get("conditions", [])
        if isinstance(row, dict) and row.get("type") == "DisruptionTarget" and row.get("status") == "True"
    ]
    word = ", ".join(part for part in (phase, reason, *(clean(each, limit=60) for each in told)) if part)
    if phase in ("Succeeded", "Failed"):
        ended = _all_ended(status)
        if not ended or reason == "NodeLost" or any(each in _HEARSAY for each in told):
            return "unknown", f"{word}: not by the kubelet's word"
        return "terminated", word
    if phase in ("Pending", "Running") and reason != "NodeLost":
        return ("stopping" if _table(pod.get("metadata")).get("deletionTimestamp") else "running"), word
    return "unknown", word or "no phase"


def _all_ended(status: Mapping[str, Any]) -> bool:
    """Whether the kubelet wrote down the end of every container."""
    rows = status.get("containerStatuses")
    return isinstance(rows, list) and bool(rows) and all(
        isinstance(row, dict) and _table(_table(row.get("state")).get("terminated")).get("finishedAt") for row in rows
    )  # fmt: skip


def found_of(pod: dict[str, Any], machine: dict[str, Any]) -> Found:
    """One pod of a list, with the Kubernetes node that it is on (empty: not told)."""
    metadata, status = _table(pod.get("metadata")), _table(pod.get("status"))
    labels = _table(_table(machine.get("metadata")).get("labels"))
    namespace, name, uid = (clean(metadata.get(key) or "", limit=253) for key in ("namespace", "name", "uid"))
    region = clean(labels.get("topology.kubernetes.io/region") or "any", limit=40)
    kind = clean(labels.get("node.kubernetes.io/instance-type") or "unknown", limit=60)
    address = status.get("podIP")
    return Found(
        instance=f"{namespace}/{name}/{uid}",
        name=name,
        pool=f"kubernetes/{region}/{kind}/{clean(labels.get('kubernetes.io/os') or 'linux', limit=20)}".replace(
            " ", "-"
        ),
        zone=clean(labels.get("topology.kubernetes.io/zone") or "", limit=60),
        spot=any(labels.get(key) == value for key, value in _SPOT.items()),
        state=verdict(pod, uid)[0],
        private_address=clean(address, limit=60) if isinstance(address, str) and address else None,
        launched_at=clean(status["startTime"], limit=40)
        if isinstance(status.get("startTime"), str)
        else None,
        tags={clean(k, limit=253): clean(v, limit=63) for k, v in _table(metadata.get("labels")).items()},
    )
