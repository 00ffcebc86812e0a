"""`reprieve fleet discover`: instances of a provider, by tag, into the fleet's records."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from backends.clouds.port import Found
from backends.errors import ReprieveError, UsageError
from backends.records.node import Node
from console.cli.session import on_fleet

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet

AT_ONCE = 16


def discover(invocation: Invocation) -> int:
    """Find, show, ask, add; 0 when all new ones were added, 3 when some could not, 1 when none could."""
    typed = invocation.arguments
    found = _find(typed)
    known = on_fleet(invocation, _known)
    rows = planned(
        found, known, typed.get("user"), typed.get("address"), typed.get("identity_file"), typed["provider"]
    )
    fresh = [(row, node) for row, node in rows if node is not None]
    if fresh:
        lines = [f"add {node.name}: {node.pool}, {node.instance} at {node.ssh}" for _, node in fresh]
        invocation.confirm(1, lines, str(len(fresh)))
        told = on_fleet(invocation, lambda fleet: _add(fleet, [node for _, node in fresh]))
        for row, node in fresh:
            row.update(told[node.name])
    items = [row for row, _ in rows]
    document = {
        "schema": "reprieve/fleet-discovery/v1",
        "provider": typed["provider"],
        "region": typed["region"] or found_in(found),
        "items": items,
    }
    invocation.emit(document, _text)
    failed = [row for row in items if row["state"] == "failed"]
    if not failed:
        return 0
    return 3 if len(failed) < len(fresh) else 1


def _find(typed: dict[str, Any]) -> tuple[Found, ...]:
    tags = []
    for text in typed["tag"]:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"--tag {text!r}: KEY=VALUE is expected")
        tags.append((key, value))
    if typed["provider"] == "slurm":
        return _slurm(typed, tags)
    if typed["provider"] == "kubernetes":
        return _kubernetes(typed["region"], tags)
    if typed["provider"] in ("runpod", "vast"):
        return _market(typed["provider"], typed["region"], tags)
    if not typed["region"]:
        raise UsageError("--region is needed: the region to look in, such as us-east-1")
    if typed["provider"] == "gcp":
        return _google(typed["region"], tags)
    if typed["provider"] == "azure":
        from backends.clock import SystemClock
        from backends.clouds.azure.cloud import AzureCloud

        return AzureCloud(SystemClock()).running(typed["region"], tags)
    from backends.clouds.aws.instances import instances

    filters = [("instance-state-name", ["running"]), *((f"tag:{key}", [value]) for key, value in tags)]
    return instances(typed["region"], filters)


def _google(region: str, tags: list[tuple[str, str]]) -> tuple[Found, ...]:
    from backends.clock import SystemClock
    from backends.clouds.gcp.cloud import GoogleCloud, project_here

    for key, value in tags:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", key) or not re.fullmatch(r"[a-z0-9_-]{1,63}", value):
            raise UsageError(
                f"--tag {key}={value}: a label of Google Cloud is small letters, digits, - and _"
            )
    return GoogleCloud(SystemClock()).running(project_here(), region, tags)


def _kubernetes(region: str | None, tags: list[tuple[str, str]]) -> tuple[Found, ...]:
    from backends.clock import SystemClock
    from backends.clouds.kubernetes.cloud import KubernetesCloud

    for key, value in tags:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,252}", key) or not re.fullmatch(
            r"[A-Za-z0-9._-]{0,63}", value
        ):
            raise UsageError(f"--tag {key}={value}: a label of Kubernetes is letters, digits, . _ - and /")
    return KubernetesCloud(SystemClock()).running(tags, region)


def _market(provider: str, region: str | None, tags: list[tuple[str, str]]) -> tuple[Found, ...]:
    """Pods by name, or instances by label: neither has tags."""
    from backends.clock import SystemClock

    key = "name" if provider == "runpod" else "label"
    for told, _ in tags:
        if told != key:
            raise UsageError(f"--tag {told}=…: of {provider} {key}=… is expected")
    names = [value for _, value in tags]
    if provider == "runpod":
        from backends.clouds.markets.runpod import RunPodCloud

        return RunPodCloud(SystemClock()).running(names, region)
    from backends.clouds.markets.vast import VastCloud

    return VastCloud(SystemClock()).running(names, region)


def _slurm(typed: dict[str, Any], tags: list[tuple[str, str]]) -> tuple[Found, ...]:
    from backends.clock import SystemClock
    from backends.clouds.slurm.cloud import SlurmCloud

    options = {"name": "--name", "partition": "--partition", "account": "--account", "qos": "--qos"}
    for key, _ in tags:
        if key not in options:
            raise UsageError(f"--tag {key}=…: of Slurm jobs one of {', '.join(options)} is expected")
    cloud = SlurmCloud(SystemClock())
    cluster = cloud.cluster()
    if typed["region"] not in (None, cluster):
        raise UsageError(f"--region {typed['region']}: this machine's Slurm is of cluster {cluster}")
    return cloud.running([f"{options[key]}={value}" for key, value in tags])


async def _known(fleet: Fleet) -> dict[str, Node]:
    return dict(fleet.records.nodes())


def planned(
    found: Collection[Found],
    known: dict[str, Node],
    user: str | None,
    address: str | None,
    identity: object,
    provider: str = "aws",
) -> list[tuple[dict[str, Any], Node | None]]:
    """A row for each instance, and the node to add where it is a new one that can be used."""
    by_instance = {node.instance: name for name, node in known.items() if node.instance}
    names = set(known)
    rows: list[tuple[dict[str, Any], Node | None]] = []
    for each in sorted(found, key=lambda one: (one.name, one.instance)):
        row: dict[str, Any] = {
            "node": by_instance.get(each.instance), "instance": each.instance, "pool": each.pool, "zone": each.zone,
            "spot": each.spot, "state": "known", "reason": "",
        }  # fmt: skip
        rows.append((row, None))
        if row["node"] is not None:
            continue
        host = _host(each, address)
        if host is None or each.pool.endswith("/windows"):
            reason = "it has no such address" if host is None else "Windows: nothing can be saved there"
            row.update(state="skipped", reason=reason)
            continue
        name = _name(each, names)
        names.add(name)
        ssh = host if user is None else f"{user}@{host}"
        key = None if identity is None else str(identity)
        labels = {"lifecycle": "spot" if each.spot else "on-demand"}
        node = Node(name, ssh, provider, each.pool, each.instance, key, each.host_key, labels=labels)
        row["node"] = name
        rows[-1] = (row, node)
    return rows


def found_in(found: Collection[Found]) -> str | None:
    """The region that all of these are in, from their pools; None when nothing was found."""
    return next((each.pool.split("/")[1] for each in found), None)


def _host(each: Found, wanted: str | None) -> str | None:
    if wanted == "public":
        return each.public_address
    if wanted == "private":
        return each.private_address
    return each.public_address or each.private_address


def _name(each: Found, taken: Collection[str]) -> str:
    """The instance's own name where it may name a node and is free, else with its id behind it."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", each.name).strip("-._")[:40]
    if not plain:
        return re.sub(r"[^A-Za-z0-9._-]+", "-", each.instance)
    return plain if plain not in taken else f"{plain}-{each.instance.removeprefix('i-')[-8:]}"


async def _add(fleet: Fleet, nodes: list[Node]) -> dict[str, dict[str, str]]:
    """Pin and keep each node; what became of it, by name."""
    fleet.keys.verify_key()  # the fleet's key is made at the first add
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(node: Node) -> tuple[str, dict[str, str]]:
        async with turn:
            try:
                pinned, shown = await fleet.pin(node)
            except ReprieveError as error:
                return node.name, {"state": "failed", "reason": error.message}
        fleet.records.put_node(pinned)
        fleet.tell("node.added", f"{node.name} is in the fleet", node=node.name)
        return node.name, {"state": "added", "reason": shown}

    return dict(await asyncio.gather(*(one(node) for node in nodes)))


def _text(document: dict[str, Any]) -> str:
    if not document["items"]:
        return "no running instance has these tags"
    rows = [
        f"{row['node'] or '–':<24} {row['state']:<8} {row['instance']:<20} {row['pool']:<40} "
        f"{'spot' if row['spot'] else 'on-demand':<10} {row['reason']}".rstrip()
        for row in document["items"]
    ]
    added = [row["node"] for row in document["items"] if row["state"] == "added"]
    following = [f"next: reprieve fleet install {' '.join(added)}"] if added else []
    return "\n".join([*rows, *following])
