"""The files that let operators use a practice fleet like any other: its context and its node records."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from backends.clouds.practice.cloud import node_of
from backends.inventory.save import add_node
from backends.practice.layout import Layout
from backends.records.node import Node


def write(layout: Layout, description: dict[str, Any], *, bare: bool) -> None:
    """Write `context.json` and, unless `bare`, one record a host."""
    document = {
        "fleet": str(layout.fleet),
        "state": str(layout.state),
        "store": layout.store_url,
        "socket": str(layout.control),
    }
    _replace(layout.context, json.dumps(document, indent=2) + "\n")
    if not bare:
        for host in description["hosts"]:
            write_node(layout, node_of(host, layout.identity))


def write_node(layout: Layout, node: Node) -> Path:
    """Write one node's record, as `fleet add` would, and return its path."""
    return add_node(layout.fleet, node, replace=True)


def _replace(path: Path, text: str) -> None:
    """Write a private file so that readers see the old or the new one."""
    fresh = path.with_name(f".{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)
