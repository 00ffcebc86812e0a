"""How a machine of a pool is launched on Google Cloud: the record, and the requests that follow from it. Pure.

Shapes: REST reference of compute v1 (instances.insert, regionInstances.bulkInsert).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.clouds import recorded
from backends.clouds.lending import client_token
from backends.clouds.port import Market
from backends.clouds.recorded import Reader, Record
from backends.errors import UsageError

FLEET_LABEL, TOKEN_LABEL = "reprieve-fleet", "reprieve-token"  # labels take small letters, digits, - and _
KIND = r"[a-z][a-z0-9-]{1,61}"
_NAME = r"[a-z][a-z0-9-]{0,61}"
_PROJECT = r"[a-z][a-z0-9.:-]{3,80}"
_PATH = rf"projects/{_PROJECT}(?:/[A-Za-z0-9._-]{{1,80}}){{2,6}}"
_LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}\Z")
_KEYS = (
    "ssh-keys",
    "enable-oslogin",
    "block-project-ssh-keys",
)  # metadata that SSH needs; the rest may hold secrets


@dataclass(frozen=True, kw_only=True)
class Launch(Record):
    """A pool's launch record."""

    project: str
    image: str  # projects/P/global/images/NAME
    zones: tuple[str, ...] = ()  # asked one after another; empty: Google picks the zone, by bulkInsert
    disk_gib: int | None = None  # of the boot disk; None: the image's
    disk_kind: str | None = None  # pd-ssd, hyperdisk-balanced …; None: Google's default
    network: str | None = None  # projects/P/global/networks/NAME
    subnet: str | None = None  # projects/P/regions/R/subnetworks/NAME
    public: bool = False  # an address outside
    network_tags: tuple[str, ...] = ()
    account: str | None = None  # e-mail of the service account that the machine acts as
    scopes: tuple[str, ...] = ()
    accelerator: str | None = None  # TYPE:COUNT, for N1 machines only
    ssh_keys: str | None = None  # USER:KEY lines, as in the metadata
    os_login: bool = False
    notice_s: int | None = None  # 30 or 120 seconds between notice and end, where Google offers it


def read(pool: str, values: Mapping[str, Any]) -> Launch:
    """The record of a fleet file; UsageError names the pool, the key and what was expected."""
    told = Reader(pool, values)
    common = told.common(KIND)
    if not all(
        _LABEL.match(key) and (not value or _VALUE.match(value)) for key, value in common["tags"].items()
    ):
        raise told.wrong("tags", "labels of small letters, digits, - and _")
    notice = told.number("notice_s", 30, 120)
    if notice not in (None, 30, 120):
        raise told.wrong("notice_s", "30 or 120")
    return Launch(
        project=told.needed("project", _PROJECT, "a project's id"),
        image=told.needed("image", _PATH, "projects/P/global/images/NAME"),
        zones=told.texts("zones", _NAME, "zones such as us-central1-a"),
        disk_gib=told.number("disk_gib", 1, 65536),
        disk_kind=told.text("disk_kind", _NAME, "a kind such as pd-ssd"),
        network=told.text("network", _PATH, "projects/P/global/networks/NAME"),
        subnet=told.text("subnet", _PATH, "projects/P/regions/R/subnetworks/NAME"),
        public=told.flag("public", False),
        network_tags=told.texts("network_tags", _NAME, "network tags"),
        account=told.text("account", r"[A-Za-z0-9._-]{1,100}@[A-Za-z0-9.-]{1,100}", "a service account's e-mail"),
        scopes=told.texts("scopes", r"https://www\.googleapis\.com/auth/[a-z._-]{1,80}", "scopes"),
        accelerator=told.text("accelerator", rf"{_NAME}:[1-9][0-9]?", "TYPE:COUNT, such as nvidia-tesla-t4:1"),
        ssh_keys=told.text("ssh_keys", r"[^\x00-\x09\x0b-\x1f]{1,20000}", "USER:KEY lines"),
        os_login=told.flag("os_login", False),
        notice_s=notice,
        **common,
    )  # fmt: skip


_VALUE = re.compile(r"[a-z0-9_-]{1,63}\Z")


def path_of(value: object) -> str | None:
    """`projects/…` of a resource's whole address; None for anything else."""
    found = re.search(r"(projects/.+)\Z", value) if isinstance(value, str) else None
    return found.group(1) if found is not None and re.fullmatch(_PATH, found.group(1)) else None


def taken(project: str, row: dict[str, Any], disk: dict[str, Any]) -> Launch:
    """The record of a running instance.

    Args:
        project: its project.
        row: the instance, of instances.get.
        disk: its boot disk, of disks.get.

    Raises:
        UsageError: the disk names no image.
    """
    name = clean(row.get("name"), limit=63)
    image = path_of(disk.get("sourceImage"))
    if image is None:
        raise UsageError(f"instance {name}: Google names no image for its boot disk; no record can be taken")
    card = _first(row.get("networkInterfaces"))
    account = _first(row.get("serviceAccounts"))
    device = _first(row.get("guestAccelerators"))
    tags = row.get("tags")
    metadata = row.get("metadata")
    items = metadata.get("items", []) if isinstance(metadata, dict) else []
    told = {
        str(each.get("key")): str(each.get("value", ""))
        for each in items if isinstance(each, dict) and each.get("key") in _KEYS
    }  # fmt: skip
    scheduling = row.get("scheduling")
    notice = scheduling.get("preemptionNoticeDuration") if isinstance(scheduling, dict) else None
    notice_s = str(notice.get("seconds", "")) if isinstance(notice, dict) else ""
    size, labels = str(disk.get("sizeGb", "")), row.get("labels")
    values = {
        "project": project, "image": image, "zones": [str(row.get("zone", "")).rpartition("/")[2]],
        "disk_gib": int(size) if size.isdigit() else None,
        "disk_kind": str(disk.get("type", "")).rpartition("/")[2] or None,
        "network": path_of(card.get("network")), "subnet": path_of(card.get("subnetwork")),
        "public": bool(card.get("accessConfigs")),
        "network_tags": tags.get("items", []) if isinstance(tags, dict) else [],
        "account": account.get("email"), "scopes": account.get("scopes", []),
        "accelerator": f"{str(device.get('acceleratorType')).rpartition('/')[2]}:{device.get('acceleratorCount')}"
        if device and str(row.get("machineType", "")).rpartition("/")[2].startswith("n1-") else None,
        "ssh_keys": told.get("ssh-keys") or None, "os_login": told.get("enable-oslogin", "").upper() == "TRUE",
        "notice_s": int(notice_s) if notice_s in ("30", "120") else None,
        "tags": recorded.kept_tags({str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else {}),
    }  # fmt: skip
    return read(f"of {name}", {key: value for key, value in values.items() if value is not None})


def _first(value: object) -> dict[str, Any]:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}


def labels(launch: Launch, fleet: str, token: str) -> dict[str, str]:
    """A machine's labels: the record's, and those by which it is found again."""
    return {**launch.tags, FLEET_LABEL: fleet, TOKEN_LABEL: client_token(token)}


def name_of(token: str, place: str, generation: int) -> str:
    """The machine's name: of the same request at the same place always the same, so that it is made once."""
    return f"reprieve-{client_token(token, place, generation)[-24:]}"


def request_id(token: str, place: str, generation: int) -> str:
    """The id by which Google knows a request that comes again: a UUID that follows from it."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, client_token(token, place, generation)))


def _machine(
    launch: Launch, market: Market, marked: Mapping[str, str], kind_of_disk: str | None
) -> dict[str, Any]:
    """What one machine and bulkInsert's have in common."""
    parameters: dict[str, Any] = {"sourceImage": launch.image, "labels": dict(marked)}
    if launch.disk_gib is not None:
        parameters["diskSizeGb"] = str(launch.disk_gib)
    if kind_of_disk is not None:
        parameters["diskType"] = kind_of_disk
    card: dict[str, Any] = {}
    if launch.network is not None:
        card["network"] = launch.network
    if launch.subnet is not None:
        card["subnetwork"] = launch.subnet
    if launch.public:
        card["accessConfigs"] = [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}]
    scheduling: dict[str, Any] = {"onHostMaintenance": "TERMINATE", "automaticRestart": False}
    if market == "spot":  # an operation on record proves the end of a machine that is deleted
        scheduling |= {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE"}
        if launch.notice_s is not None:
            scheduling["preemptionNoticeDuration"] = {"seconds": str(launch.notice_s)}
    items = [] if launch.ssh_keys is None else [{"key": "ssh-keys", "value": launch.ssh_keys}]
    items += [{"key": "enable-oslogin", "value": "TRUE"}] if launch.os_login else []
    items += [{"key": "user-data", "value": recorded.user_data(launch.mounts)}] if launch.mounts else []
    body: dict[str, Any] = {
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": parameters}],
        "networkInterfaces": [card],
        "scheduling": scheduling,
        "labels": dict(marked),
    }
    if items:
        body["metadata"] = {"items": items}
    if launch.network_tags:
        body["tags"] = {"items": list(launch.network_tags)}
    if launch.account is not None:
        body["serviceAccounts"] = [{"email": launch.account, "scopes": list(launch.scopes)}]
    return body


def insert_request(
    launch: Launch, kind: str, zone: str, *, name: str, market: Market, marked: Mapping[str, str]
) -> dict[str, Any]:
    """instances.insert for one machine in `zone`."""
    here = f"zones/{zone}"
    disk = None if launch.disk_kind is None else f"{here}/diskTypes/{launch.disk_kind}"
    body = {
        "name": name,
        "machineType": f"{here}/machineTypes/{kind}",
        **_machine(launch, market, marked, disk),
    }
    if launch.accelerator is not None:
        device, _, count = launch.accelerator.partition(":")
        body["guestAccelerators"] = [
            {"acceleratorType": f"{here}/acceleratorTypes/{device}", "acceleratorCount": int(count)}
        ]
    return body


def bulk_request(
    launch: Launch, kind: str, *, name: str, market: Market, marked: Mapping[str, str]
) -> dict[str, Any]:
    """regionInstances.bulkInsert for one machine of `kind` or a compatible type, in whichever of the zones has one."""
    properties = _machine(launch, market, marked, launch.disk_kind)
    if launch.accelerator is not None:
        device, _, count = launch.accelerator.partition(":")
        properties["guestAccelerators"] = [{"acceleratorType": device, "acceleratorCount": int(count)}]
    body: dict[str, Any] = {
        "count": "1",
        "minCount": "1",
        "perInstanceProperties": {name: {"name": name}},
        "instanceProperties": properties,
    }
    if launch.types:
        kinds = list(dict.fromkeys((kind, *launch.types)))
        selections = {
            f"choice-{rank}": {"rank": rank, "machineTypes": [each]} for rank, each in enumerate(kinds)
        }
        body["instanceFlexibilityPolicy"] = {"instanceSelections": selections}
    else:
        properties["machineType"] = kind
    if launch.zones:
        body["locationPolicy"] = {
            "locations": {f"zones/{each}": {"preference": "ALLOW"} for each in launch.zones}
        }
    return body
