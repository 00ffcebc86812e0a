"""A loopback resource manager of Azure: machines with their cards, addresses and tags. Shapes: REST reference."""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from backends.clock import SystemClock, format_utc
from tests.support.fakehttp import Asked, Reply, serving

SUBSCRIPTION = "0b0c0d0e-0000-4000-8000-00000000000b"
REGION = "eastus"
_BASE = f"/subscriptions/{SUBSCRIPTION}"
GROUP = f"{_BASE}/resourceGroups/rg-ml"
MACHINES = f"{GROUP}/providers/Microsoft.Compute/virtualMachines"
IMAGE, OTHER_IMAGE = (f"{GROUP}/providers/Microsoft.Compute/images/train-{number}" for number in (1, 2))
SUBNET = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/net/subnets/default"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKy"


@dataclass
class Azure:
    """Answers requests; tests set what is short and what is refused."""

    machines: dict[str, dict[str, Any]] = field(default_factory=dict)  # path → document
    cards: dict[str, dict[str, Any]] = field(default_factory=dict)
    publics: dict[str, dict[str, Any]] = field(default_factory=dict)
    disks: dict[str, dict[str, Any]] = field(default_factory=dict)
    short: set[str] = field(default_factory=set)  # sizes and zones that are refused at once
    short_later: set[str] = field(
        default_factory=set
    )  # sizes and zones whose machine fails after it was accepted
    invalid: dict[str, Any] | None = None  # what a validation says
    asked: list[Asked] = field(default_factory=list)
    refusal: tuple[int, dict[str, Any]] | None = None
    token: tuple[int, dict[str, Any]] = (200, {"access_token": "t0k", "expires_in": "3599"})
    subscriptions: list[str] = field(default_factory=lambda: [SUBSCRIPTION])

    def __call__(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        status, body = self._answer(asked)
        return status, "application/json", "" if body is None else json.dumps(body)

    def created(self) -> list[dict[str, Any]]:
        """The bodies of all creating calls."""
        return [{"path": each.path, **json.loads(each.body)} for each in self.asked if each.method == "PUT"]

    def _answer(self, asked: Asked) -> tuple[int, dict[str, Any] | None]:
        path = asked.path.partition("?")[0]
        if path == "/metadata/identity/oauth2/token":
            return self.token
        if self.refusal is not None:
            return self.refusal
        if asked.headers.get("authorization") != "Bearer t0k":
            return 401, {
                "error": {"code": "InvalidAuthenticationToken", "message": "The access token is invalid."}
            }
        if "api-version=" not in asked.path:
            return 400, {"error": {"code": "MissingApiVersionParameter"}}
        if path.endswith("/validate"):
            return (400, {"error": self.invalid}) if self.invalid else (200, {"properties": {}})
        if path.endswith("/deallocate"):
            self.power(path.removesuffix("/deallocate"), "deallocated")
            return 202, None
        if asked.method == "PUT":
            return self._put(path, json.loads(asked.body))
        if asked.method == "DELETE":
            self.delete(path)
            return 202, None
        return self._get(path, asked.path)

    def _get(self, path: str, whole: str) -> tuple[int, dict[str, Any]]:
        providers = f"{_BASE}/providers/Microsoft"
        lists: dict[str, list[dict[str, Any]]] = {
            "/subscriptions": [{"subscriptionId": each} for each in self.subscriptions],
            f"{_BASE}/locations": [{"name": "eastus"}, {"name": "westeurope"}],
            f"{providers}.Compute/virtualMachines": [
                {**each, "properties": {k: v for k, v in each["properties"].items() if k != "instanceView"}}
                for each in self.machines.values()
            ],
            f"{providers}.Compute/disks": list(self.disks.values()),
            f"{providers}.Network/networkInterfaces": list(self.cards.values()),
            f"{providers}.Network/publicIPAddresses": list(self.publics.values()),
        }
        if path in lists:  # two pages, whenever there is enough for two
            rows, second = lists[path], "skiptoken" in whole
            if len(rows) < 2:
                return 200, {"value": rows}
            page = rows[1:] if second else rows[:1]
            more = (
                {}
                if second
                else {
                    "nextLink": f"{os.environ['AZURE_RESOURCE_MANAGER_URL']}{path}?api-version=1&$skiptoken=a%2Bb"
                }
            )
            return 200, {"value": page, **more}
        for store in (self.machines, self.cards, self.publics, self.disks):
            if path in store:
                row = store[path]
                if store is self.machines and "instanceView" in whole:
                    self._on(row)
                    return 200, row
                return 200, row
        return 404, {"error": {"code": "ResourceNotFound"}}

    def _on(self, row: dict[str, Any]) -> None:
        """A machine that is being made is there, or has failed, at the second look."""
        inside = row["properties"]
        if inside["provisioningState"] != "Creating":
            return
        inside["looks"] = inside.get("looks", 0) + 1
        if inside["looks"] < 2:
            return
        if {inside["hardwareProfile"]["vmSize"], *row.get("zones", [])} & self.short_later:
            inside["provisioningState"] = "Failed"
            inside["instanceView"] = {"statuses": [{"code": "ProvisioningState/failed/AllocationFailed"}]}
        else:
            inside["provisioningState"] = "Succeeded"
            self.power(row["id"], "running")

    def _put(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path in self.machines:
            return 200, self.machines[path]
        kind = body["properties"]["hardwareProfile"]["vmSize"]
        if {kind, *body.get("zones", [])} & self.short:
            return 409, {"error": {"code": "SkuNotAvailable", "message": f"{kind} is not available here"}}
        return 201, self.put(path, body)

    def put(self, path: str, body: dict[str, Any], state: str = "Creating") -> dict[str, Any]:
        """A machine with its card and address."""
        number, name = len(self.cards) + 4, path.rpartition("/")[2]
        inside = {**body["properties"], "vmId": str(uuid.uuid4()), "provisioningState": state,
                  "timeCreated": format_utc(SystemClock().wall())}  # fmt: skip
        inside["storageProfile"] = {**inside["storageProfile"]}
        inside["storageProfile"]["osDisk"] = {"osType": "Linux", **inside["storageProfile"]["osDisk"]}
        asked = inside.pop("networkProfile")["networkInterfaceConfigurations"][0]
        card_path = f"{GROUP}/providers/Microsoft.Network/networkInterfaces/{name}-nic"
        configuration = asked["properties"]["ipConfigurations"][0]["properties"]
        told: dict[str, Any] = {"privateIPAddress": f"10.0.0.{number}", "subnet": configuration["subnet"]}
        if "publicIPAddressConfiguration" in configuration:
            address = f"{GROUP}/providers/Microsoft.Network/publicIPAddresses/{name}-ip"
            self.publics[address] = {"id": address, "location": REGION, "tags": asked.get("tags", {}),
                                     "properties": {"ipAddress": f"203.0.113.{number}", "ipConfiguration": {"id": card_path}}}  # fmt: skip
            told["publicIPAddress"] = {"id": address}
        self.cards[card_path] = {
            "id": card_path, "location": REGION, "tags": asked.get("tags", {}),
            "properties": {"virtualMachine": {"id": path}, "ipConfigurations": [{"properties": told}],
                           "networkSecurityGroup": asked["properties"].get("networkSecurityGroup")},
        }  # fmt: skip
        inside["networkProfile"] = {"networkInterfaces": [{"id": card_path}]}
        self.machines[path] = {
            "id": path,
            "name": name,
            **{k: v for k, v in body.items() if k != "properties"},
            "properties": inside,
        }
        return self.machines[path]

    def power(self, path: str, word: str) -> None:
        """Its power state."""
        self.machines[path]["properties"]["instanceView"] = {"statuses": [{"code": f"PowerState/{word}"}]}

    def delete(self, path: str) -> None:
        """A machine goes with its card and its address."""
        if self.machines.pop(path, None) is not None:
            name = re.escape(path.rpartition("/")[2])
            for store in (self.cards, self.publics):
                for key in [key for key in store if re.search(rf"/{name}-(nic|ip)$", key)]:
                    del store[key]
        for store in (self.cards, self.publics, self.disks):
            store.pop(path, None)


@contextlib.contextmanager
def azure_peer() -> Iterator[Azure]:
    """A server until the block ends; the environment leads the program there."""
    peer = Azure()
    with serving(peer) as base:
        names = ("RESOURCE_MANAGER_URL", "AUTHORITY_HOST", "POD_IDENTITY_AUTHORITY_HOST")
        with mock.patch.dict(os.environ, {f"AZURE_{name}": base for name in names}):
            for name in ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET", "ACCESS_TOKEN", "SUBSCRIPTION_ID"):
                os.environ.pop(f"AZURE_{name}", None)
            yield peer
