"""`fleet`: the nodes, what is installed on them, which may take jobs."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

from backends.errors import ReprieveError, UsageError
from backends.records.node import Node, NodeState
from console.cli.looking import check_state, controller_line, empty_line, look
from console.cli.session import act, checked, on_fleet
from console.operations.view import FleetView, NodeRow

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet


def node_document(row: NodeRow, labels: dict[str, str]) -> dict[str, Any]:
    """One node as machine formats show it."""
    return {
        "name": row.name,
        "state": row.state,
        "reason": row.reason,
        "notice": row.notice,
        "notice_left_s": row.notice_left_s,
        "jobs": list(row.jobs),
        "pool": row.pool,
        "provider": row.provider,
        "age_s": row.age_s,
        "guard": row.guard,
        "ssh": row.address,
        "labels": labels,
    }


def list_(invocation: Invocation) -> int:
    """`fleet list`."""
    from console.cli.invocation import Column

    check_state(invocation.arguments.get("state"), get_args(NodeState))
    view, labels = look(invocation)
    state = invocation.arguments.get("state")
    rows = [row for row in view.nodes if state in (None, row.state)]
    columns = [
        Column("name", "NODE"),
        Column("state"),
        Column("notice"),
        Column("jobs"),
        Column("pool"),
        Column("age_s", "AGE"),
        Column("reason"),
        Column("ssh", wide=True),
        Column("guard", wide=True),
    ]
    invocation.emit_listing("node", [node_document(row, labels.get(row.name, {})) for row in rows], columns)
    if not view.nodes:
        empty_line(invocation, "nodes", "reprieve fleet add NAME --ssh USER@HOST", "fleet list")
    controller_line(invocation, view)
    return 0


def show(invocation: Invocation) -> int:
    """`fleet show NAME`: the row, its facts and its last events."""
    name = invocation.arguments["name"]
    view, labels = look(invocation)
    row = _row(view, name)

    async def more(fleet: Fleet) -> dict[str, Any]:
        events = [asdict(event) for _, event in fleet.ledger.events(limit=500) if event.node == name][-10:]
        try:
            facts = await fleet.ask(fleet.node(name), "facts", {}, timeout_s=20.0)
        except ReprieveError as error:
            return {"facts": None, "facts_missing": error.message, "events": events}
        return {"facts": facts, "events": events, **await _gpu_state(fleet, name)}

    document = {
        "schema": "reprieve/node/v1",
        **node_document(row, labels.get(name, {})),
        **on_fleet(invocation, more),
    }
    invocation.emit(document, _node_text)
    return 0


async def _gpu_state(fleet: Fleet, name: str) -> dict[str, Any]:
    """What the node's GPUs do now; null with the reason where the guard does not say."""
    try:
        status = await fleet.ask(fleet.node(name), "status", {}, timeout_s=20.0)
    except ReprieveError as error:
        return {"gpu_state": None, "gpu_state_missing": error.message}
    return {"gpu_state": status.get("gpus"), "gpu_state_missing": status.get("gpu_reason") or ""}


def _row(view: FleetView, name: str) -> NodeRow:
    for row in view.nodes:
        if row.name == name:
            return row
    raise UsageError(f"node {name!r} is not in the fleet", hint="see `reprieve fleet list`")


def _node_text(document: dict[str, Any]) -> str:
    from console.operations.common.gpus import state_lines
    from console.operations.observe import brief_facts

    plain = {
        key: value
        for key, value in document.items()
        if key not in ("facts", "events", "schema", "labels", "gpu_state", "gpu_state_missing")
    }
    lines = [f"{key:<16} {'–' if value in (None, '', []) else value}" for key, value in plain.items()]
    facts = brief_facts(document.get("facts") or {})
    lines += ["", *(f"{key:<24} {value}" for key, value in facts.items())] if facts else []
    lines += state_lines(document.get("gpu_state"), document.get("gpu_state_missing") or "")
    events = document.get("events") or []
    lines += (
        ["", *(f"{event['time']}  {event['kind']}  {event['text']}" for event in events)] if events else []
    )
    return "\n".join(lines)


def add(invocation: Invocation) -> int:
    """`fleet add NAME --ssh …`: the record, with the host key pinned that the node shows."""
    typed = invocation.arguments
    labels = dict(_pair(text) for text in typed.get("set_label") or [])
    identity = typed.get("identity_file")
    node = Node(
        typed["name"],
        typed["ssh"],
        typed.get("provider") or "none",
        typed.get("pool"),
        typed.get("instance"),
        None if identity is None else str(identity),
        typed.get("host_key"),
        labels=labels,
    )

    async def offered(fleet: Fleet) -> tuple[Node, str]:
        if node.name in fleet.records.nodes():
            raise UsageError(
                f"node {node.name!r} is in the fleet already",
                hint=f"to change it: reprieve fleet remove {node.name}, then add it anew",
            )
        return await fleet.pin(node)

    pinned, shown = on_fleet(invocation, offered)
    invocation.confirm(1, (f"add node {node.name} at {node.ssh}", shown), node.name)
    if invocation.yes:
        invocation.say(shown)  # nobody was asked, so it was not shown yet

    async def keep(fleet: Fleet) -> None:
        fleet.keys.verify_key()  # the fleet's key is made at the first add
        fleet.records.put_node(pinned)
        fleet.tell("node.added", f"{node.name} is in the fleet", node=node.name)

    on_fleet(invocation, keep)
    document = {
        "schema": "reprieve/node-state/v1",
        "node": node.name,
        "state": "added",
        "host_key": pinned.host_key,
    }
    invocation.emit(
        document, lambda _document: f"{node.name} is in the fleet; next: reprieve fleet install {node.name}"
    )
    return 0


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"--set-label {text!r}: KEY=VALUE is expected")
    return key, value


def remove(invocation: Invocation) -> int:
    """`fleet remove NAME`."""
    checked(invocation)
    name = invocation.arguments["name"]
    invocation.confirm(2, (f"take {name} out of the fleet's records; the machine is not touched",), name)
    return act(invocation)


def fence(invocation: Invocation) -> int:
    """`fleet fence NAME`: irreversible for everything that runs there."""
    name = invocation.arguments["name"]

    async def jobs(fleet: Fleet) -> list[str]:
        fleet.node(name)
        return [job.name for job in fleet.jobs().values() if job.uid and job.node == name]

    living = on_fleet(invocation, jobs)
    lines = [
        f"turn the machine of {name} off: everything in its memory is lost",
        f"jobs there: {', '.join(living) or 'none'}; each can come back from its last save",
    ]
    invocation.confirm(3, lines, name)
    return act(invocation)


def cordon(invocation: Invocation) -> int:
    """`fleet cordon NAME`."""
    checked(invocation)
    name = invocation.arguments["name"]
    invocation.confirm(1, (f"place nothing new on {name}; its jobs stay",), name)
    return act(invocation)


def uncordon(invocation: Invocation) -> int:
    """`fleet uncordon NAME`."""
    checked(invocation)
    name = invocation.arguments["name"]
    invocation.confirm(1, (f"let {name} take jobs again",), name)
    return act(invocation)


def install(invocation: Invocation) -> int:
    """`fleet install [NAME…]`: every file is listed under --dry-run and before the question."""
    names = invocation.arguments.get("names") or []

    async def plan(fleet: Fleet) -> list[str]:
        nodes = [fleet.node(name) for name in names] if names else list(fleet.records.nodes().values())
        lines: list[str] = []
        for node in nodes:
            lines.append(f"{node.name}:")
            try:
                lines += [f"  {line}" for line in await fleet.installer.plan(node)]
            except ReprieveError as error:
                lines.append(f"  {error.message}")
        return lines

    lines = on_fleet(invocation, plan) if invocation.dry_run or not invocation.yes else []
    invocation.confirm(1, lines or ["install the guard"], names[0] if len(names) == 1 else str(len(names)))
    return act(invocation)


def uninstall(invocation: Invocation) -> int:
    """`fleet uninstall NAME…`: stops the guard and removes what install wrote; jobs run on, unprotected.

    Where something stands still there, or that cannot be known, the node's name is to be typed (tier 3).
    """
    from console.operations.flows.zombies import without_guard

    checked(invocation)
    names = list(invocation.arguments["names"])
    lines = [
        f"{name}: stop the guard and remove everything that install wrote; its jobs run on" for name in names
    ]

    async def standing(fleet: Fleet) -> list[str]:
        found = await asyncio.gather(*(without_guard(fleet, fleet.node(name)) for name in names))
        return [line for each in found for line in each]

    left = on_fleet(invocation, standing)
    invocation.confirm(3 if left else 2, [*lines, *left], names[0] if len(names) == 1 else str(len(names)))

    async def work(fleet: Fleet) -> list[dict[str, Any]]:
        async def one(name: str) -> dict[str, Any]:
            node = fleet.node(name)
            try:
                gone, left = await fleet.installer.uninstall(node)
            except ReprieveError as error:
                return {"node": name, "state": "failed", "reason": error.message}
            fleet.tell("node.uninstalled", f"the guard was removed from {name}", node=name)
            return {"node": name, "state": "removed", "reason": "", "removed": list(gone), "left": list(left)}

        return list(await asyncio.gather(*(one(name) for name in names)))

    rows = on_fleet(invocation, work)
    failed = [row for row in rows if row["state"] == "failed"]
    document = {"schema": "reprieve/installation/v1", "items": rows}
    invocation.emit(
        document,
        lambda _d: "\n".join(f"{row['node']}: {row['state']} {row['reason']}".rstrip() for row in rows),
    )
    return 0 if not failed else 3 if len(failed) < len(rows) else 1


def doctor(invocation: Invocation) -> int:
    """`fleet doctor [NAME…]`: exit 0 when every node asked can save and restore, 6 otherwise."""
    names = invocation.arguments.get("names") or []

    async def work(fleet: Fleet) -> list[dict[str, Any]]:
        nodes = [fleet.node(name) for name in names] if names else list(fleet.records.nodes().values())
        return list(await asyncio.gather(*(_checked(fleet, node) for node in nodes)))

    from console.cli.invocation import Column

    rows = on_fleet(invocation, work)
    columns = [
        Column("name", "NODE"),
        Column("state"),
        Column("kernel"),
        Column("criu"),
        Column("gpus"),
        Column("reason"),
    ]
    invocation.emit_listing("node-check", rows, columns)
    if not rows:
        empty_line(invocation, "nodes", "reprieve fleet add NAME --ssh USER@HOST", "fleet doctor")
    return 0 if all(row["state"] == "ok" for row in rows) else 6


async def _checked(fleet: Fleet, node: Node) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": node.name,
        "state": "not_ready",
        "reason": "",
        "kernel": None,
        "criu": None,
        "gpus": None,
    }
    try:
        facts = await fleet.ask(node, "facts", {}, timeout_s=60.0)
        await fleet.status(node)
    except ReprieveError as error:
        return {**row, "reason": error.message + (f" ({error.hint})" if error.hint else "")}
    criu = facts.get("criu") or {}
    gpus = facts.get("gpus")
    row |= {
        "kernel": facts.get("kernel"),
        "criu": criu.get("version"),
        "gpus": None if gpus is None else len(gpus),
    }
    if criu.get("ready") is True:
        return {**row, "state": "ok"}
    reason = criu.get("reason") or "the CRIU canary was not tried"
    return {**row, "state": "ok", "reason": f"only programs that save themselves: {reason}"}
