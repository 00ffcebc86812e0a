"""Azure as a witness: does this node's virtual machine live? What cannot be asked is `unknown`, never gone.

Source: REST reference of Microsoft.Compute (virtual machines: get with the instance view, list by subscription). An instance is the
resource's path, `#`, and its vmId, which never comes back.
"""

from __future__ import annotations

import re
import threading
import urllib.parse
from typing import Any

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.clouds.azure.tokens import Tokens
from backends.clouds.http import NotFoundError, ask_with_token
from backends.clouds.port import InstanceState, Replacement, State
from backends.errors import ReprieveError
from backends.records.node import Node

SOURCE = "azure/virtualMachines.get"
ENDPOINT_VARIABLE = "AZURE_RESOURCE_MANAGER_URL"  # for sovereign clouds and private links
DEFAULT_ENDPOINT = "https://management.azure.com"
VERSION = "2024-07-01"
_PART = r"[A-Za-z0-9][A-Za-z0-9._()-]{0,89}"
_INSTANCE = re.compile(
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
_DENIED = "the identity needs Microsoft.Compute/virtualMachines/read and …/instanceView/read (role Reader)"


class AzureCloud:
    """Asks Azure's resource manager; see `port.Cloud`. One token, kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._tokens, self._lock = clock, Tokens(clock), threading.Lock()

    def instance(self, node: Node) -> InstanceState:
        """What Azure says of this node's machine; never raises."""
        asked = format_utc(self._clock.wall())
        match = _INSTANCE.fullmatch(node.instance or "")
        if match is None:
            reason = (
                f"node {node.name} has no instance of the form /subscriptions/…/virtualMachines/NAME#VMID"
            )
            return InstanceState("unknown", reason, asked, SOURCE)
        path, number = match.groups()
        try:
            state, reason = verdict(self._get(f"{path}?$expand=instanceView&api-version={VERSION}"), number)
        except NotFoundError:
            reason = (
                "Azure knows no such machine for these credentials (404): deleted, moved to another resource group, or out "
                "of their sight"
            )
            return InstanceState("unknown", reason, asked, SOURCE)
        except ReprieveError as error:
            return InstanceState("unknown", error.message, asked, SOURCE)
        return InstanceState(state, reason, asked, SOURCE)

    def replace(self, pool: str, token: str) -> Replacement:
        """Nothing is rented in this version."""
        return Replacement(token, "failed", reason=f"renting on Azure is not in this version ({pool})")

    def _get(self, path: str) -> dict[str, Any]:
        safe = urllib.parse.quote(path.lstrip("/"), safe="/?$&=#()")
        return ask_with_token(ENDPOINT_VARIABLE, DEFAULT_ENDPOINT, safe, self._token, "Azure", _DENIED)

    def _token(self) -> str:
        with self._lock:
            return self._tokens.token()


def verdict(document: dict[str, Any], number: str) -> tuple[State, str]:
    """What the answer to a get with the instance view says of exactly this machine: state and reason."""
    properties = document.get("properties")
    known = properties if isinstance(properties, dict) else {}
    here = str(known.get("vmId", ""))
    if re.fullmatch(r"[0-9a-fA-F-]{36}", here) and here.lower() != number.lower():
        return "terminated", f"another machine ({here}) has its name now"
    if here.lower() != number.lower():
        return "unknown", "the answer names no machine"
    view = known.get("instanceView")
    rows = view.get("statuses") if isinstance(view, dict) else None
    codes = (
        [clean(row.get("code", ""), limit=60) for row in rows if isinstance(row, dict)]
        if isinstance(rows, list)
        else []
    )
    if any(code.lower().startswith("hibernationstate/hibernated") for code in codes):
        return "unknown", "hibernated: its memory may come back"
    power = [code.partition("/")[2].lower() for code in codes if code.lower().startswith("powerstate/")]
    if len(power) != 1:
        return "unknown", "Azure tells no power state"
    return _POWER.get(power[0], "unknown"), f"PowerState/{power[0]}"
