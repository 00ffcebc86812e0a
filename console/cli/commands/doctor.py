"""`doctor`: this machine, the fleet and the store, with a remedy for each fault."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from backends.clock import format_utc
from backends.errors import ReprieveError
from backends.store.probe import probe
from console.cli.looking import look
from console.operations.context import FLEET_KEY
from console.operations.real.keys import FileKeys
from console.operations.real.toml_records import TomlRecords

if TYPE_CHECKING:
    from console.cli.invocation import Invocation

Row = dict[str, Any]
SIGN = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


def row(check: str, state: str, message: str, remedy: str = "") -> Row:
    """One line of the result."""
    return {"check": check, "state": state, "message": message, "remedy": remedy}


def run(invocation: Invocation) -> int:
    """`doctor`: exit 0 when nothing stands in the way, 1 otherwise. Writes probe objects to the store unless read-only."""
    rows = [row("python", "ok", f"{platform.python_version()} at {sys.executable}")]
    for check in (_records, _key, _store, _fleet):
        rows += _tried(check, invocation)
    document = {
        "schema": "reprieve/doctor/v1",
        "ok": all(each["state"] != "fail" for each in rows),
        "checks": rows,
    }
    invocation.emit(document, _text)
    return 0 if document["ok"] else 1


def _text(document: dict[str, Any]) -> str:
    lines = []
    for each in document["checks"]:
        lines.append(f"{SIGN[each['state']]}  {each['check']:<12} {each['message']}")
        if each["remedy"]:
            lines.append(f"{'':<18} {each['remedy']}")
    return "\n".join(lines)


def _tried(check: Callable[[Invocation], list[Row]], invocation: Invocation) -> list[Row]:
    name = check.__name__.strip("_")
    try:
        return check(invocation)
    except ReprieveError as error:
        return [row(name, "fail", error.message, error.hint or "")]


def _records(invocation: Invocation) -> list[Row]:
    inventory = TomlRecords(invocation.context.fleet).inventory()
    if not inventory.nodes:
        return [
            row("records", "warn", "the fleet has no node yet", "reprieve fleet add NAME --ssh USER@HOST")
        ]
    return [
        row(
            "records",
            "ok",
            f"{len(inventory.nodes)} nodes, {len(inventory.jobs)} jobs in {invocation.context.fleet}",
        )
    ]


def _key(invocation: Invocation) -> list[Row]:
    path = invocation.context.state / FLEET_KEY
    if not path.exists():
        return [row("fleet key", "warn", "none yet", "it is made by the first `reprieve fleet add`")]
    FileKeys(invocation.context.state).fleet_key()
    return [row("fleet key", "ok", f"{path}, readable by you alone")]


def _store(invocation: Invocation) -> list[Row]:
    from backends.store.open import open_store

    context = invocation.context
    url = context.store or TomlRecords(context.fleet).inventory().store
    if not url:
        return [
            row(
                "store",
                "warn",
                "the fleet has no default store",
                "reprieve store init file:///…, then [fleet] store",
            )
        ]
    store = open_store(url)
    if invocation.read_only or context.read_only:
        store.list("controllers/")
        return [row("store", "ok", f"{url} answers; not probed, this context is read-only")]
    bad = [each for each in probe(store) if not each["ok"]]
    if bad:
        return [row("store", "fail", f"{url}: {each['message']}", "reprieve store check") for each in bad]
    return [row("store", "ok", f"{url} keeps its promises")]


def _fleet(invocation: Invocation) -> list[Row]:
    view, _ = look(invocation)
    rows = []
    for node in view.nodes:
        state = "ok" if node.state in ("ok", "cordoned") else "fail"
        remedy = "" if state == "ok" else f"reprieve fleet doctor {node.name}"
        rows.append(row(f"node {node.name}", state, node.reason or node.state, remedy))
    if view.no_controller_since is not None:
        since = format_utc(view.no_controller_since)
        rows.append(
            row(
                "controller",
                "warn",
                f"NO CONTROLLER since {since}",
                "reprieve watch, on a machine that stays",
            )
        )
    elif view.controller is None:
        rows.append(
            row("controller", "warn", "none was ever seen", "reprieve watch, on a machine that stays")
        )
    else:
        rows.append(row("controller", "ok", view.controller))
    return rows
