"""How a machine of a pool is launched on AWS: the record, taken from a running instance, read from and written to fleet files.

Pure. It stands in the fleet's files as `[pools."aws/REGION/TYPE/linux".launch]`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backends.clean import clean
from backends.errors import UsageError

_LISTS = ("subnets", "security_groups", "mounts", "types")
_TEXTS = ("image", "profile", "key_name", "user", "identity_file", "address", "tested_at")
_IDS = {"image": "ami-", "subnets": "subnet-", "security_groups": "sg-"}
_ID = re.compile(r"[a-z]+-[0-9a-zA-Z]{1,64}\Z")
_TYPE = re.compile(r"[a-z0-9-]{1,32}\.[a-z0-9-]{1,32}\Z")
_MOUNT = re.compile(r"\S+ /\S* [a-z0-9.]{1,20}(?: \S+)?\Z")
_DEVICE = re.compile(r"[A-Za-z0-9/._-]{1,64}\Z")


@dataclass(frozen=True)
class Volume:
    """One EBS volume as it is made anew; its contents are not copied."""

    device: str  # /dev/xvda
    size_gib: int
    kind: str = "gp3"
    encrypted: bool = False


@dataclass(frozen=True)
class Launch:
    """A pool's launch record. Lists may be empty, texts absent: AWS's default holds then."""

    image: str
    subnets: tuple[str, ...] = ()  # asked one after another
    security_groups: tuple[str, ...] = ()
    profile: str | None = None  # ARN or name of the instance profile
    volumes: tuple[Volume, ...] = ()
    mounts: tuple[
        str, ...
    ] = ()  # file systems as in fstab: SOURCE DIRECTORY TYPE [OPTIONS]; made by cloud-init
    tags: dict[str, str] = field(default_factory=dict)
    key_name: str | None = None
    types: tuple[str, ...] = ()  # further instance types that may come instead, by one CreateFleet
    hop_limit: int = 2  # of the metadata service: containers need 2
    user: str | None = None  # for SSH; None: ssh_config's
    identity_file: str | None = None
    address: str | None = (
        None  # public | private: which one SSH takes; None: the public one where there is one
    )
    port: int | None = None
    tested_at: str | None = None  # RFC 3339, when a trial of this record passed


def read(pool: str, table: Mapping[str, Any]) -> Launch:
    """The record of a fleet file.

    Raises:
        UsageError: naming the pool, the key and what was expected.
    """

    def wrong(key: str, expected: str) -> UsageError:
        return UsageError(
            f"pool {clean(pool)}: {key} of its launch record is {clean(table.get(key), limit=80)!r}; {expected} expected"
        )

    values: dict[str, Any] = {}
    for key in _TEXTS:
        value = table.get(key)
        if value is not None and (not isinstance(value, str) or not value.isprintable() or not value):
            raise wrong(key, "text")
        values[key] = value
    for key in _LISTS:
        value = table.get(key, [])
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            raise wrong(key, "a list of texts")
        values[key] = tuple(value)
    for key, start in _IDS.items():
        each_of = [values[key]] if key == "image" else values[key]
        if not all(each and _ID.match(each) and each.startswith(start) for each in each_of):
            raise wrong(key, f"{start}…")
    if not all(_TYPE.match(each) for each in values["types"]):
        raise wrong("types", "instance types")
    if not all(_MOUNT.match(each) for each in values["mounts"]):
        raise wrong("mounts", "lines as in fstab, such as fs-1:/ /data nfs4")
    if values["address"] not in (None, "public", "private"):
        raise wrong("address", "public or private")
    tags = table.get("tags", {})
    if not isinstance(tags, dict) or not all(isinstance(each, str) for each in tags.values()):
        raise wrong("tags", "a table of texts")
    for key, low, high in (("hop_limit", 1, 64), ("port", 1, 65535)):
        value = table.get(key)
        if value is not None and (type(value) is not int or not low <= value <= high):
            raise wrong(key, f"a whole number from {low} to {high}")
        if value is not None:
            values[key] = value
    volumes = tuple(_volume(each) for each in table.get("volumes", ()))
    if None in volumes:
        raise wrong("volumes", "tables of device, size_gib, kind and encrypted")
    return Launch(**values, tags=dict(tags), volumes=tuple(each for each in volumes if each is not None))


def _volume(value: Any) -> Volume | None:
    if not isinstance(value, dict) or not set(value) <= {"device", "size_gib", "kind", "encrypted"}:
        return None
    device, size = value.get("device"), value.get("size_gib")
    kind, encrypted = value.get("kind", "gp3"), value.get("encrypted", False)
    if not (isinstance(device, str) and _DEVICE.match(device) and isinstance(kind, str) and kind.isalnum()):
        return None
    if not (type(size) is int and 0 < size <= 65536 and isinstance(encrypted, bool)):
        return None
    return Volume(device, size, kind, encrypted)


def write(launch: Launch) -> dict[str, Any]:
    """The record as a table of a fleet file, without what is at its default."""
    table: dict[str, Any] = {}
    for item in dataclasses.fields(launch):
        value = getattr(launch, item.name)
        if item.name == "volumes":
            value = [dataclasses.asdict(each) for each in value]
        if value not in (None, (), [], {}):
            table[item.name] = list(value) if isinstance(value, tuple) else value
    return table


def taken(row: Mapping[str, Any], volumes: Mapping[str, Mapping[str, Any]]) -> Launch:
    """The record of a running instance.

    Args:
        row: the instance, of a DescribeInstances answer.
        volumes: its volumes by id, of a DescribeVolumes answer; one that is missing is left out.

    Raises:
        UsageError: the answer names no image.
    """
    found = []
    for mapping in row.get("BlockDeviceMappings", []):
        told = volumes.get(mapping.get("Ebs", {}).get("VolumeId", ""), {})
        if isinstance(told.get("Size"), int) and _DEVICE.match(str(mapping.get("DeviceName", ""))):
            kind = str(told.get("VolumeType", "gp3"))
            found.append(Volume(mapping["DeviceName"], told["Size"], kind, bool(told.get("Encrypted"))))
    options = row.get("MetadataOptions", {})
    hops = options.get("HttpPutResponseHopLimit")
    tags = {
        clean(tag.get("Key", ""), limit=128): clean(tag.get("Value", ""), limit=256)
        for tag in row.get("Tags", [])
    }
    image = row.get("ImageId")
    if not isinstance(image, str) or not _ID.match(image):
        raise UsageError(f"instance {clean(row.get('InstanceId'), limit=40)}: EC2 names no image for it")
    groups = tuple(clean(each.get("GroupId", ""), limit=80) for each in row.get("SecurityGroups", []))
    subnet = row.get("SubnetId")
    profile = row.get("IamInstanceProfile", {}).get("Arn")
    key = row.get("KeyName")
    return Launch(
        image=image,
        subnets=(clean(subnet, limit=80),) if subnet else (),
        security_groups=groups,
        profile=clean(profile, limit=300) if profile else None,
        volumes=tuple(found),
        tags={
            name: value
            for name, value in tags.items()
            if name != "Name" and not name.startswith(("aws:", "reprieve:"))
        },
        key_name=clean(key, limit=255) if key else None,
        hop_limit=hops if isinstance(hops, int) and 2 <= hops <= 64 else 2,
    )


def merged(old: Launch | None, new: Launch) -> Launch:
    """A record taken again, with what only people know (mounts, types, more subnets, how SSH goes) kept from before."""
    if old is None:
        return new
    subnets = old.subnets if set(new.subnets) <= set(old.subnets) else new.subnets
    kept = {name: getattr(old, name) for name in ("mounts", "types")}
    for name in ("user", "identity_file", "address", "port"):
        kept[name] = getattr(new, name) if getattr(old, name) is None else getattr(old, name)
    return dataclasses.replace(new, subnets=subnets, **kept)
