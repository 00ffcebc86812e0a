"""Instances of Google Cloud as Compute Engine tells of them: pure functions of its answers.

Sources: REST reference of compute v1 (instances, zoneOperations). A name may be used again by another machine, so an instance is
PROJECT/ZONE/NAME/ID with the number that never comes back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.clouds.port import Found, State

_STATES: dict[str, tuple[State, str]] = {
    "PROVISIONING": ("running", ""),
    "STAGING": ("running", ""),
    "RUNNING": ("running", ""),
    "PENDING_STOP": ("stopping", ""),
    "STOPPING": ("stopping", ""),
    "SUSPENDING": ("stopping", ""),
    "SUSPENDED": ("unknown", ": its memory may come back"),
    "TERMINATED": ("stopped", ""),  # Google's word for stopped: the machine is off, its disk is there
}
_ENDS = {"compute.instances.preempted": "preempted", "delete": "deleted", "stop": "stopped"}
_PART = r"[a-z0-9][a-z0-9.:-]{0,80}"


@dataclass(frozen=True)
class Name:
    """Where an instance is and which one it is."""

    project: str
    zone: str
    name: str
    number: str

    def __str__(self) -> str:
        return f"{self.project}/{self.zone}/{self.name}/{self.number}"


def name_of(instance: str | None) -> Name | None:
    """The parts of an instance's id; None for anything else."""
    match = re.fullmatch(rf"({_PART})/({_PART})/({_PART})/([0-9]{{1,20}})", instance or "")
    return Name(*match.groups()) if match else None


def verdict(row: dict[str, Any], name: Name) -> tuple[State, str]:
    """What the answer to `instances.get` says of exactly this machine: state and reason."""
    number = str(row.get("id", ""))
    if number.isdigit() and number != name.number:
        return "terminated", f"another machine ({number}) has its name now"
    if number != name.number:
        return "unknown", "the answer names no machine"
    word = clean(row.get("status", ""), limit=40)
    state, more = _STATES.get(word, ("unknown", ""))
    return state, f"{word or 'no status'}{more}"


def end_of(document: dict[str, Any], name: Name) -> str | None:
    """Why this machine ended, by its zone's operations, newest last: `preempted`, `deleted`, `stopped`; None: none is told."""
    ends: list[tuple[str, str]] = []
    rows = document.get("items", [])
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict) or row.get("status") != "DONE" or row.get("error"):
            continue
        word = _ENDS.get(str(row.get("operationType")))
        if word is not None and str(row.get("targetId")) == name.number:
            ends.append((str(row.get("endTime") or row.get("insertTime") or ""), word))
    return max(ends)[1] if ends else None


def found_of(project: str, row: dict[str, Any]) -> Found:
    """One instance of a list."""
    zone, kind = _last(row.get("zone")), _last(row.get("machineType"))
    name, number = clean(row.get("name", ""), limit=63), clean(row.get("id", ""), limit=20)
    region = zone.rpartition("-")[0]
    scheduling = row.get("scheduling")
    plan = scheduling if isinstance(scheduling, dict) else {}
    labels = row.get("labels")
    made = row.get("creationTimestamp")
    return Found(
        instance=f"{project}/{zone}/{name}/{number}",
        name=name,
        pool=f"gcp/{region}/{kind}/{'windows' if _windows(row) else 'linux'}",
        zone=zone,
        spot=plan.get("provisioningModel") == "SPOT" or plan.get("preemptible") is True,
        state=_STATES.get(str(row.get("status")), ("unknown", ""))[0],
        public_address=_address(row, public=True),
        private_address=_address(row, public=False),
        launched_at=clean(made, limit=40) if isinstance(made, str) else None,
        pending=row.get("status") in ("PROVISIONING", "STAGING"),
        tags={
            clean(key, limit=63): clean(value, limit=63)
            for key, value in (labels.items() if isinstance(labels, dict) else ())
        },
    )


def _last(value: object) -> str:
    return clean(str(value or "").rpartition("/")[2], limit=60)


def _windows(row: dict[str, Any]) -> bool:
    disks = row.get("disks")
    texts = (
        [str(disk.get("licenses", "")) for disk in disks if isinstance(disk, dict)]
        if isinstance(disks, list)
        else []
    )
    return any("/windows-cloud/" in text for text in texts)


def _address(row: dict[str, Any], *, public: bool) -> str | None:
    cards = row.get("networkInterfaces")
    card = cards[0] if isinstance(cards, list) and cards and isinstance(cards[0], dict) else {}
    if not public:
        value = card.get("networkIP")
    else:
        ways = card.get("accessConfigs")
        value = (
            ways[0].get("natIP") if isinstance(ways, list) and ways and isinstance(ways[0], dict) else None
        )
    return clean(value, limit=60) if isinstance(value, str) and value else None
