"""Virtual machines of Azure as its resource manager tells of them: pure functions of its answers.

Source: REST reference of Microsoft.Compute and Microsoft.Network. An instance is the resource's path, `#`, and its vmId, which never
comes back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from backends.clean import clean
from backends.clouds.port import Found, State

_PART = r"[A-Za-z0-9][A-Za-z0-9._()-]{0,89}"
INSTANCE = re.compile(
    rf"(/subscriptions/[0-9a-f-]{{36}}/resourceGroups/{_PART}/providers/Microsoft\.Compute/virtualMachines/{_PART})"
    r"#([0-9a-f-]{36})",
    re.IGNORECASE,
)
_POWER: dict[str, State] = {
    "starting": "running",
    "running": "running",
    "stopping": "stopping",
    "deallocating": "stopping",
    "stopped": "stopped",
    "deallocated": "stopped",
}
NOT_MADE = "it could not be made"
Addresses = Mapping[str, tuple[str | None, str | None]]  # machine's path in small letters → (public, private)


def table(value: object) -> dict[str, Any]:
    """`value` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[dict[str, Any]]:
    """The objects of a list; empty for anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def verdict(document: dict[str, Any], number: str) -> tuple[State, str]:
    """What the answer to a get with the instance view says of exactly this machine: state and reason."""
    known = table(document.get("properties"))
    here = str(known.get("vmId", ""))
    if re.fullmatch(r"[0-9a-fA-F-]{36}", here) and here.lower() != number.lower():
        return "terminated", f"another machine ({here}) has its name now"
    if here.lower() != number.lower():
        return "unknown", "the answer names no machine"
    codes = [
        clean(row.get("code", ""), limit=60) for row in rows(table(known.get("instanceView")).get("statuses"))
    ]
    if any(code.lower().startswith("hibernationstate/hibernated") for code in codes):
        return "unknown", "hibernated: its memory may come back"
    power = [code.partition("/")[2].lower() for code in codes if code.lower().startswith("powerstate/")]
    if len(power) != 1:
        return "unknown", "Azure tells no power state"
    return _POWER.get(power[0], "unknown"), f"PowerState/{power[0]}"


def found_of(document: dict[str, Any], addresses: Addresses) -> Found:
    """One machine, of a get with the instance view.

    A machine that is being made has no power state yet: it is pending. One whose making failed never ran: it is terminated.
    """
    known = table(document.get("properties"))
    path, number = clean(document.get("id", ""), limit=400), clean(known.get("vmId", ""), limit=36)
    state, reason = verdict(document, number)
    making = str(known.get("provisioningState", "")).lower()
    pending = making in ("creating", "updating") and state in ("unknown", "running")
    if pending:
        state, reason = "running", f"provisioning: {making}"
    elif making == "failed" and state == "unknown":
        codes = [str(each.get("code", "")) for each in rows(table(known.get("instanceView")).get("statuses"))]
        why = [code.split("/")[2] for code in codes if code.lower().startswith("provisioningstate/failed/")]
        state, reason = (
            "terminated",
            f"{NOT_MADE}: {clean(', '.join(why) or 'Azure tells no reason', limit=120)}",
        )
    public, private = addresses.get(path.lower(), (None, None))
    disk = table(table(known.get("storageProfile")).get("osDisk"))
    system = "windows" if str(disk.get("osType", "")).lower() == "windows" else "linux"
    kind = clean(table(known.get("hardwareProfile")).get("vmSize", ""), limit=60)
    region = clean(document.get("location", ""), limit=60).lower()
    zones = document.get("zones")
    zone = clean(zones[0], limit=10) if isinstance(zones, list) and zones else ""
    created = known.get("timeCreated")
    return Found(
        instance=f"{path}#{number}",
        name=clean(document.get("name", ""), limit=80),
        pool=f"azure/{region}/{kind}/{system}",
        zone=f"{region}-{zone}" if zone else "",
        spot=known.get("priority") in ("Spot", "Low"),
        state=state,
        reason=reason,
        public_address=public,
        private_address=private,
        launched_at=clean(created, limit=40) if isinstance(created, str) else None,
        pending=pending,
        tags=tags_of(document),
    )


def tags_of(document: dict[str, Any]) -> dict[str, str]:
    """A resource's tags, cleaned."""
    return {
        clean(key, limit=512): clean(value, limit=256) for key, value in table(document.get("tags")).items()
    }


def addresses_of(cards: list[dict[str, Any]], publics: list[dict[str, Any]]) -> Addresses:
    """Each machine's addresses, of the lists of network interfaces and public addresses; its primary interface counts."""
    named = {
        str(each.get("id", "")).lower(): table(each.get("properties")).get("ipAddress") for each in publics
    }
    found: dict[str, tuple[str | None, str | None]] = {}
    for card in sorted(cards, key=lambda each: table(each.get("properties")).get("primary") is True):
        known = table(card.get("properties"))
        machine = str(table(known.get("virtualMachine")).get("id", "")).lower()
        for each in rows(known.get("ipConfigurations"))[:1]:
            inside = table(each.get("properties"))
            outside = named.get(str(table(inside.get("publicIPAddress")).get("id", "")).lower())
            if machine:
                found[machine] = (_address(outside), _address(inside.get("privateIPAddress")))
    return found


def _address(value: object) -> str | None:
    return clean(value, limit=60) if isinstance(value, str) and value else None
