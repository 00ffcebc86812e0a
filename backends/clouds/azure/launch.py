"""How a machine of a pool is launched on Azure: the record, and the requests that follow from it. Pure.

Shapes: REST reference of Microsoft.Compute (virtual machines: create or update). Everything that a machine needs is made with it
and deleted with it: network interface, public address, disks.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.clouds import recorded
from backends.clouds.azure.api import NETWORK
from backends.clouds.azure.machines import rows, table
from backends.clouds.lending import client_token
from backends.clouds.port import Market
from backends.clouds.recorded import Reader, Record
from backends.errors import UsageError

KIND = r"[A-Za-z][A-Za-z0-9_]{1,59}"
_SUBSCRIPTION = r"[0-9a-fA-F-]{36}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._()-]{0,89}"
_ID = rf"/subscriptions/{_SUBSCRIPTION}/resourceGroups/{_NAME}(?:/[A-Za-z0-9._()-]{{1,90}}){{2,14}}"
_URN = r"[A-Za-z0-9._-]{1,80}(?::[A-Za-z0-9._-]{1,80}){3}"
_KEY = r"[a-z0-9@.-]{3,60} [A-Za-z0-9+/=]{16,2000}(?: [^\x00-\x1f]{0,200})?"


@dataclass(frozen=True, kw_only=True)
class Launch(Record):
    """A pool's launch record."""

    subscription: str
    group: str  # resource group
    image: str  # the path of an image, or PUBLISHER:OFFER:SKU:VERSION
    subnet: str  # its path
    admin: str  # the user that the SSH keys are for
    ssh_keys: tuple[str, ...]  # public keys: Azure makes no machine without one
    zones: tuple[str, ...] = ()  # asked one after another; empty: wherever Azure likes
    security_group: str | None = None  # its path
    public: bool = False  # a public address of its own
    disk_gib: int | None = None  # None: the image's
    disk_kind: str | None = None  # Premium_LRS …; None: Azure's default
    identities: tuple[str, ...] = ()  # paths of user-assigned identities
    plan: str | None = None  # PUBLISHER:PRODUCT:NAME of a marketplace image that needs one


def read(pool: str, values: Mapping[str, Any]) -> Launch:
    """The record of a fleet file; UsageError names the pool, the key and what was expected."""
    told = Reader(pool, values)
    keys = told.texts("ssh_keys", _KEY, "public SSH keys")
    if not keys:
        raise told.wrong("ssh_keys", "at least one public SSH key")
    return Launch(
        subscription=told.needed("subscription", _SUBSCRIPTION, "a subscription's id"),
        group=told.needed("group", _NAME, "a resource group"),
        image=told.needed("image", rf"{_ID}|{_URN}", "the path of an image, or PUBLISHER:OFFER:SKU:VERSION"),
        subnet=told.needed("subnet", _ID, "the path of a subnet"),
        admin=told.needed("admin", r"[a-z_][a-z0-9_-]{0,31}", "a user's name"),
        ssh_keys=keys,
        zones=told.texts("zones", "[0-9]{1,2}", "zones such as 1"),
        security_group=told.text("security_group", _ID, "the path of a network security group"),
        public=told.flag("public", False),
        disk_gib=told.number("disk_gib", 1, 65536),
        disk_kind=told.text("disk_kind", "[A-Za-z0-9_]{1,40}", "a kind such as Premium_LRS"),
        identities=told.texts("identities", _ID, "paths of user-assigned identities"),
        plan=told.text("plan", r"[A-Za-z0-9._-]+(?::[A-Za-z0-9._-]+){2}", "PUBLISHER:PRODUCT:NAME"),
        **told.common(KIND),
    )


def taken(document: dict[str, Any], card: dict[str, Any], *, public: bool) -> Launch:
    """The record of a running machine.

    Args:
        document: the machine, of a get.
        card: its network interface, of a get.
        public: whether it has a public address.

    Raises:
        UsageError: Azure does not tell its image, its subnet or its SSH keys.
    """
    known, name = table(document.get("properties")), clean(document.get("name"), limit=80)
    parts = str(document.get("id", "")).split("/")
    storage, profile = table(known.get("storageProfile")), table(known.get("osProfile"))
    told = table(storage.get("imageReference"))
    urn = ":".join(str(told.get(key, "")) for key in ("publisher", "offer", "sku", "version"))
    image = told.get("id") or (urn if all(urn.split(":")) else None)
    inside = table(table(card.get("properties")))
    subnets = [
        table(table(each.get("properties")).get("subnet")).get("id")
        for each in rows(inside.get("ipConfigurations"))
    ]
    ssh = table(table(profile.get("linuxConfiguration")).get("ssh"))
    keys = [str(each.get("keyData", "")).strip() for each in rows(ssh.get("publicKeys"))]
    for what, value in (("image", image), ("subnet", subnets and subnets[0]), ("SSH key", keys)):
        if not value or len(parts) < 9:
            raise UsageError(
                f"machine {name}: Azure names no {what} for it; its launch record cannot be taken"
            )
    disk = table(storage.get("osDisk"))
    plan = table(document.get("plan"))
    zones = document.get("zones")
    names = [str(plan.get(key, "")) for key in ("publisher", "product", "name")]
    values = {
        "subscription": parts[2], "group": parts[4], "image": image, "subnet": subnets[0], "ssh_keys": keys,
        "admin": profile.get("adminUsername"), "zones": zones if isinstance(zones, list) else [],
        "security_group": table(inside.get("networkSecurityGroup")).get("id"), "public": public,
        "disk_gib": disk.get("diskSizeGB"), "disk_kind": table(disk.get("managedDisk")).get("storageAccountType"),
        "identities": list(table(table(document.get("identity")).get("userAssignedIdentities"))),
        "plan": ":".join(names) if all(names) else None,
        "tags": recorded.kept_tags({str(k): str(v) for k, v in table(document.get("tags")).items()}),
    }  # fmt: skip
    return read(f"of {name}", {key: value for key, value in values.items() if value is not None})


def places(launch: Launch, kind: str) -> list[tuple[str, str | None]]:
    """(type, zone) of everything that may be asked for, in order."""
    kinds = dict.fromkeys((kind, *launch.types))
    return [(each, zone) for each in kinds for zone in launch.zones or (None,)]


def name_of(token: str, place: tuple[str, str | None], generation: int) -> str:
    """The machine's name: of the same request at the same place always the same, so that it is made once."""
    return f"reprieve-{client_token(token, *place, generation)[-24:]}"


def path_of(launch: Launch, name: str) -> str:
    """Where the machine is."""
    return (
        f"/subscriptions/{launch.subscription}/resourceGroups/{launch.group}/providers/Microsoft.Compute/virtualMachines/"
        f"{name}"
    )


def create_request(
    launch: Launch,
    place: tuple[str, str | None],
    region: str,
    *,
    name: str,
    market: Market,
    mark: Mapping[str, str],
) -> dict[str, Any]:
    """The body that creates one machine."""
    kind, zone = place
    profile: dict[str, Any] = {
        "computerName": name,
        "adminUsername": launch.admin,
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "ssh": {
                "publicKeys": [
                    {"path": f"/home/{launch.admin}/.ssh/authorized_keys", "keyData": key}
                    for key in launch.ssh_keys
                ]
            },
        },
    }
    if launch.mounts:
        data = recorded.user_data(launch.mounts).encode()
        profile["customData"] = base64.b64encode(data).decode()
    disk: dict[str, Any] = {"createOption": "FromImage", "deleteOption": "Delete"}
    if launch.disk_gib is not None:
        disk["diskSizeGB"] = launch.disk_gib
    if launch.disk_kind is not None:
        disk["managedDisk"] = {"storageAccountType": launch.disk_kind}
    properties: dict[str, Any] = {
        "hardwareProfile": {"vmSize": kind},
        "storageProfile": {"imageReference": _image(launch.image), "osDisk": disk},
        "osProfile": profile,
        "networkProfile": {
            "networkApiVersion": NETWORK,
            "networkInterfaceConfigurations": [_card(launch, name, mark)],
        },
    }
    if market == "spot":  # kept when evicted: a machine that is deleted leaves no proof of its end
        properties |= {
            "priority": "Spot",
            "evictionPolicy": "Deallocate",
            "billingProfile": {"maxPrice": -1},
        }
    body: dict[str, Any] = {
        "location": region,
        "tags": {**launch.tags, **mark},
        "properties": properties,
    }
    if zone is not None:
        body["zones"] = [zone]
    if launch.identities:
        body["identity"] = {
            "type": "UserAssigned",
            "userAssignedIdentities": {each: {} for each in launch.identities},
        }
    if launch.plan is not None:
        publisher, product, plan = launch.plan.split(":")
        body["plan"] = {"publisher": publisher, "product": product, "name": plan}
    return body


def _image(image: str) -> dict[str, str]:
    if image.startswith("/"):
        return {"id": image}
    return dict(zip(("publisher", "offer", "sku", "version"), image.split(":"), strict=True))


def _card(launch: Launch, name: str, mark: Mapping[str, str]) -> dict[str, Any]:
    inside: dict[str, Any] = {"primary": True, "subnet": {"id": launch.subnet}}
    if launch.public:
        inside["publicIPAddressConfiguration"] = {
            "name": f"{name}-ip",
            "sku": {"name": "Standard"},
            "tags": dict(mark),
            "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": "Static"},
        }
    card: dict[str, Any] = {
        "primary": True,
        "deleteOption": "Delete",
        "ipConfigurations": [{"name": "one", "properties": inside}],
    }
    if launch.security_group is not None:
        card["networkSecurityGroup"] = {"id": launch.security_group}
    return {"name": f"{name}-nic", "tags": dict(mark), "properties": card}


def trial_request(body: dict[str, Any], name: str, version: str) -> dict[str, Any]:
    """A template's validation of that machine: rights, policies, quota and names are looked at, nothing is made."""
    resource = {"type": "Microsoft.Compute/virtualMachines", "apiVersion": version, "name": name, **body}
    schema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
    template = {"$schema": schema, "contentVersion": "1.0.0.0", "resources": [resource]}
    return {"properties": {"mode": "Incremental", "template": template}}
