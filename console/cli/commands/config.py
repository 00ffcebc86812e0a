"""`config`: where settings come from, and whether the files are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backends.errors import UsageError
from backends.inventory.load import load
from backends.inventory.model import Inventory
from backends.xdg import base
from console.cli.cells import UNKNOWN, cell, grid
from console.cli.invocation import Invocation
from console.config.schema import config_schema, fleet_schema
from console.operations.contexts import practice_directory

Document = dict[str, Any]


def path(invocation: Invocation) -> int:
    """Print every path that matters and whether something is there."""
    items = [
        {"name": name, "path": where, "exists": exists}
        for name, where, exists in (
            *(
                (_role(index), file, there)
                for index, (file, there) in enumerate(invocation.settings.files.items())
            ),
            *_places(invocation),
        )
    ]
    invocation.emit_listing("path", items, ("name", "path", "exists"))
    return 0


def _role(index: int) -> str:
    return ("user configuration", "system configuration")[index]


def _places(invocation: Invocation) -> list[tuple[str, str, bool]]:
    places = [("practice fleet", practice_directory()), ("cache", base("CACHE"))]
    try:
        context = invocation.context
    except UsageError:
        return [(name, str(where), where.exists()) for name, where in places]
    places[:0] = [("fleet", context.fleet), ("state", context.state)]
    places[-1] = ("cache", context.cache)
    return [(name, str(where), where.exists()) for name, where in places]


def show(invocation: Invocation) -> int:
    """Print the settings in force, with --origin where each comes from."""
    settings = invocation.settings
    document: Document = {
        "schema": "reprieve/config/v1",
        "settings": dict(settings.values),
        "contexts": list(settings.contexts),
    }
    if invocation.arguments["origin"]:
        document["origins"] = dict(settings.origins)
    invocation.emit(document, _settings_table)
    return 0


def _settings_table(document: Document) -> str:
    origins = document.get("origins")
    headers = ["SETTING", "VALUE", *(["ORIGIN"] if origins else [])]
    rows = [
        [name, cell(name, value), *([cell("", origins[name])] if origins else [])]
        for name, value in document["settings"].items()
    ]
    lines = grid(headers, rows, right=[False] * len(headers))
    return "\n".join([*lines, "", f"contexts: {', '.join(document['contexts']) or UNKNOWN}"])


def validate(invocation: Invocation) -> int:
    """Read the fleet's files (the configuration was read to get here) and say what they hold; 2 when wrong."""
    inventory = load(invocation.context.fleet)
    files = [name for name, there in invocation.settings.files.items() if there]
    document: Document = {
        "schema": "reprieve/config-validation/v1",
        "ok": True,
        "files": [*files, *map(str, inventory.files)],
        "nodes": len(inventory.nodes),
        "jobs": len(inventory.jobs),
        "pools": len(inventory.pools),
        "remarks": _remarks(inventory, invocation.context.fleet),
    }
    for remark in document["remarks"]:
        invocation.warn(remark)
    invocation.emit(document, _validation_text)
    return 0


def _remarks(inventory: Inventory, fleet: Path) -> list[str]:
    remarks = [
        f"job {job.name!r} is on node {job.node!r}, which is not in the fleet ({inventory.origins['jobs', job.name]})"
        for job in inventory.jobs.values()
        if job.node not in inventory.nodes
    ]
    if not inventory.files:
        remarks.append(
            f"the fleet has no file yet: {fleet} (reprieve fleet add NAME --ssh ADDRESS makes one)"
        )
    return remarks


def _validation_text(document: Document) -> str:
    counts = f"{document['nodes']} nodes, {document['jobs']} jobs, {document['pools']} pools"
    return "\n".join([*(f"ok  {file}" for file in document["files"]), counts])


def schema(invocation: Invocation) -> int:
    """Print the JSON Schema of config.toml or of a fleet file."""
    made = config_schema() if invocation.arguments["which"] == "config" else fleet_schema()
    if invocation.output == "table":
        import json

        invocation.emit(made, lambda document: json.dumps(document, indent=2))
    else:
        invocation.emit(made)
    return 0
