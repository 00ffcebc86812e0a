"""Writing records back: one file a record, atomically, 0600; files of the user's own are never rewritten."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.errors import UsageError
from backends.inventory import fields, write_toml
from backends.inventory.load import MARK, load, records_directory
from backends.inventory.model import Kind, Pool
from backends.records.job import Job
from backends.records.node import Node
from backends.xdg import private

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")  # becomes a part of a path


def add_node(fleet: Path, node: Node, *, replace: bool = False) -> Path:
    """Write a node's record and return its file.

    Raises UsageError when the node exists (unless `replace`), or stands in a file of the user's own.
    """
    return _put(fleet, "nodes", node.name, fields.write_node(node), replace=replace)


def put_job(fleet: Path, job: Job) -> Path:
    """Write or replace a job's record and return its file; UsageError when it stands in a file of the user's own."""
    return _put(fleet, "jobs", job.name, fields.write_job(job), replace=True)


def put_pool(fleet: Path, pool: Pool) -> Path:
    """Write or replace a pool's record and return its file; UsageError for a name that is no pool, or a user's own file."""
    parts = pool.id.split("/")
    if len(parts) != 4 or not all(_PART.match(part) for part in parts):
        raise UsageError(f"pool {clean(pool.id, limit=80)!r}: provider/region/type/os is expected")
    return _put(fleet, "pools", pool.id, fields.write_pool(pool), replace=True)


def remove_node(fleet: Path, name: str) -> Path:
    """Delete a node's record and return the file that held it; UsageError when absent or the user's own."""
    return _remove(fleet, "nodes", name)


def remove_job(fleet: Path, name: str) -> Path:
    """Delete a job's record and return the file that held it; UsageError when absent or the user's own."""
    return _remove(fleet, "jobs", name)


def _put(fleet: Path, kind: Kind, name: str, table: dict[str, Any], *, replace: bool) -> Path:
    origin = load(fleet).origins.get((kind, name))
    if origin is not None and not origin.ours:
        raise _users_own(kind, name, str(origin))
    if origin is not None and not replace:
        raise UsageError(f"{kind.removesuffix('s')} {name!r} exists already: {origin}")
    path = records_directory(fleet) / kind / f"{name}.toml"
    if origin is None and path.exists():
        raise UsageError(f"{path} exists and does not describe {name!r}: move it away")
    text = f"{MARK}; it rewrites this file. Records of your own belong in other files.\n" + write_toml.table(
        (kind, name), table
    )
    try:
        _write_atomically(path, text.encode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {clean(error.strerror or error)}") from None
    return path


def _remove(fleet: Path, kind: Kind, name: str) -> Path:
    inventory = load(fleet)
    if kind == "nodes":
        inventory.node(name)
    else:
        inventory.job(name)
    origin = inventory.origins[kind, name]
    if not origin.ours:
        raise _users_own(kind, name, str(origin))
    try:
        origin.path.unlink()
        _sync(origin.path.parent)
    except OSError as error:
        raise UsageError(f"{origin.path} cannot be removed: {clean(error.strerror or error)}") from None
    return origin.path


def _users_own(kind: str, name: str, where: str) -> UsageError:
    return UsageError(
        f"{kind.removesuffix('s')} {name!r} stands in {where}, a file of your own, which is never rewritten: "
        "edit it there"
    )


def _write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path`, whole or not at all, readable by the owner only."""
    private(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
