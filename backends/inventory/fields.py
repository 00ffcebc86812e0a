"""How the keys of a fleet file map onto the records Node, Job and Pool, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, cast

from backends.errors import UsageError
from backends.inventory import values
from backends.inventory.document import Document
from backends.inventory.model import Pool
from backends.records.job import Attach, Job
from backends.records.node import Node

R = TypeVar("R")


@dataclass(frozen=True)
class Key:
    """One key of a table: the record's field it fills, its reader, and its writer (None: written as it is)."""

    field: str
    read: values.Reader
    write: Callable[[Any], Any] | None = None


_DURATION = values.write_duration
NODE_KEYS: dict[str, Key] = {
    "ssh": Key("ssh", values.ssh),
    "provider": Key("provider", values.text),
    "pool": Key("pool", values.text),
    "instance": Key("instance", values.text),
    "identity_file": Key("identity_file", values.text),
    "host_key": Key("host_key", values.text),
    "cordoned": Key("cordoned", values.boolean),
    "labels": Key("labels", values.texts),
    "fence": Key("fence", values.kind, lambda argv: {"command": list(argv)}),
    "on_unreachable": Key("on_unreachable", values.text),
    "terminate_after": Key("terminate_after_s", values.duration, _DURATION),
}

FENCE_KEYS: dict[str, Key] = {"command": Key("command", values.argv)}
ATTACH_KEYS: dict[str, Key] = {
    "pid": Key("pid", values.integer),
    "pid_file": Key("pid_file", values.text),
    "container": Key("container", values.text),
    "slurm": Key("slurm", values.integer),
}
JOB_KEYS: dict[str, Key] = {
    "node": Key("node", values.text),
    "uid": Key("uid", values.text),
    "command": Key("command", values.argv, list),
    "cwd": Key("cwd", values.text),
    "environment": Key("environment", values.texts),
    "attach": Key("attach", values.kind, lambda attach: _present(attach, ATTACH_KEYS)),
    "engine": Key("engine", values.text),
    "store": Key("store", values.url),
    "hours": Key("hours", values.hours),
    "interval": Key("interval_s", values.interval, _DURATION),
    "max_freeze": Key("max_freeze_s", values.duration, _DURATION),
    "max_overhead": Key("max_overhead", values.fraction),
    "max_store_usd_per_day": Key("max_store_usd_per_day", values.number),
    "deadline_at": Key("deadline_at", values.instant),
    "files": Key("files", values.paths, list),
    "runtime": Key("runtime", values.texts),
    "done": Key("done_file", values.kind, lambda path: {"file": path}),
    "restore": Key("restore", values.restore),
    "priority": Key("priority", values.integer),
    "stop_after_reclaims": Key("stop_after_reclaims", values.integer),
    "discount": Key("discount", values.fraction),
    "stop_when_unpaid": Key("stop_when_unpaid", values.boolean),
    "max_rent_usd": Key("max_rent_usd", values.number),
    "group": Key("group", values.text),
    "on_isolated": Key("on_isolated", values.text),
    "lease": Key("lease_s", values.duration, _DURATION),
    "signal": Key("signal", values.text),
    "marker": Key("marker", values.text),
    "resume": Key("resume", values.argv, list),
    "page_hash": Key("page_hash", values.text),
    "rollback": Key("rollback", values.boolean),
    "accept_unproven": Key("accept_unproven", values.boolean),
    "paused": Key("paused", values.boolean),
    "keep_last": Key("keep_last", values.integer),
    "min_age": Key("min_age_s", values.duration, _DURATION),
}
RENTING_KEYS: dict[str, Key] = {
    "rent": Key("rent", values.boolean),
    "on_demand": Key("on_demand", values.boolean),
    "max_usd": Key("max_usd", values.number),
    "max_nodes": Key("max_nodes", values.integer),
    "max_usd_month": Key("max_usd_month", values.number),
}
DONE_KEYS: dict[str, Key] = {"file": Key("file", values.text)}
POOL_KEYS = ("launch",)
LAUNCH_KEYS = (
    "image", "subnets", "security_groups", "profile", "volumes", "mounts", "tags", "tested_at", "key_name", "types",
    "hop_limit", "user", "identity_file", "address", "port",
)  # fmt: skip


def read_node(document: Document, name: str) -> Node:
    """The record of `[nodes.<name>]`; UsageError with file and line for anything wrong in it."""
    at = ("nodes", name)
    arguments = _read_table(document, at, NODE_KEYS)
    if "fence" in arguments:
        inner = _read_table(document, (*at, "fence"), FENCE_KEYS)
        if not inner.get("command"):
            raise document.error(
                'fence needs a command, as in fence = { command = ["power", "gpu-a"] }', *at, "fence"
            )
        arguments["fence"] = inner["command"]
    return _build(document, at, Node, name=name, **arguments)


def read_job(document: Document, name: str) -> Job:
    """The record of `[jobs.<name>]`; UsageError with file and line for anything wrong in it."""
    at = ("jobs", name)
    arguments = _read_table(document, at, JOB_KEYS)
    if "attach" in arguments:
        inner = _read_table(document, (*at, "attach"), ATTACH_KEYS)
        arguments["attach"] = _build(document, (*at, "attach"), Attach, **inner)
    if "done_file" in arguments:
        inner = _read_table(document, (*at, "done"), DONE_KEYS)
        if "file" not in inner:
            raise document.error('done needs a file, as in done = { file = "/data/DONE" }', *at, "done")
        arguments["done_file"] = inner["file"]
    if arguments.get("command") and "attach" in arguments:
        raise document.error(
            f"job {name!r} has both command and attach: one of them says what runs", *at, "attach"
        )
    return _build(document, at, Job, name=name, **arguments)


def read_pool(document: Document, name: str) -> Pool:
    """The record of `[pools."<id>"]`; UsageError with file and line for anything wrong in it."""
    at = ("pools", name)
    table = document.table(*at)
    for key in table:
        if key not in POOL_KEYS:
            raise document.unknown((*at, key), POOL_KEYS)
    if "launch" not in table:
        return Pool(name)
    launch = document.table(*at, "launch")
    for key in launch:
        if key not in LAUNCH_KEYS:
            raise document.unknown((*at, "launch", key), LAUNCH_KEYS)
    return Pool(name, launch)


def write_node(node: Node) -> dict[str, Any]:
    """The table of a node, without what is at its default."""
    return _present(node, NODE_KEYS)


def write_job(job: Job) -> dict[str, Any]:
    """The table of a job, without what is at its default."""
    return _present(job, JOB_KEYS)


def write_pool(pool: Pool) -> dict[str, Any]:
    """The table of a pool."""
    return {} if pool.launch is None else {"launch": pool.launch}


def _present(record: Any, keys: dict[str, Key]) -> dict[str, Any]:
    defaults = {item.name: item.default for item in fields(record) if item.default is not MISSING}
    defaults |= {
        item.name: item.default_factory() for item in fields(record) if item.default_factory is not MISSING
    }
    table = {}
    for key, rule in keys.items():
        value = getattr(record, rule.field)
        if rule.field not in defaults or value != defaults[rule.field]:
            table[key] = rule.write(value) if rule.write is not None else value
    return table


def _read_table(document: Document, at: tuple[str, ...], keys: dict[str, Key]) -> dict[str, Any]:
    arguments = {}
    for key, value in document.table(*at).items():
        if key not in keys:
            raise document.unknown((*at, key), keys)
        try:
            arguments[keys[key].field] = keys[key].read(value)
        except (ValueError, UsageError) as error:
            raise document.error(f"{key} of {at[-1]!r}: {error}", *at, key) from None
    return arguments


def _build(document: Document, at: tuple[str, ...], kind: type[R], **arguments: Any) -> R:
    required = [
        item.name
        for item in fields(cast(Any, kind))
        if item.default is MISSING and item.default_factory is MISSING and item.name not in arguments
    ]
    if required:
        raise document.error(f"[{'.'.join(at)}] needs {', '.join(required)}", *at)
    try:
        return kind(**arguments)
    except (ValueError, UsageError) as error:
        raise document.error(str(error), *at) from None
