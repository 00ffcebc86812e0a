"""`operations`: what is under way and what was done, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.clock import format_utc
from console.cli.session import on_fleet
from console.operations.looks.journal import operation
from console.operations.steps import step_words

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet


def list_(invocation: Invocation) -> int:
    """`operations list`."""
    from console.cli.invocation import Column

    limit = invocation.arguments.get("limit") or 50

    async def work(fleet: Fleet) -> list[dict[str, Any]]:
        rows = []
        for run in fleet.ledger.runs(limit):
            items = fleet.ledger.items(run.id)
            rows.append(
                {
                    "name": run.id,
                    "kind": run.kind,
                    "state": run.state,
                    "target": items[0].job if len(items) == 1 else f"{len(items)} jobs",
                    "created_at": format_utc(run.created_at),
                    "finished_at": None if run.finished_at is None else format_utc(run.finished_at),
                    "detail": items[0].reason if len(items) == 1 and items[0].reason else run.detail,
                }
            )
        return rows

    names = ("kind", "state", "target", "created_at", "detail")
    columns = [
        Column("name", "OPERATION"),
        *(Column(name) for name in names),
        Column("finished_at", wide=True),
    ]
    invocation.emit_listing("operation", on_fleet(invocation, work), columns)
    return 0


def show(invocation: Invocation) -> int:
    """`operations show ID`: each journalled step with its time and result; nonces are left out."""
    wanted = {"id": invocation.arguments["id"]}
    invocation.emit(on_fleet(invocation, lambda fleet: operation(fleet, wanted)), _text)
    return 0


def _text(document: dict[str, Any]) -> str:
    lines = [f"{document['kind']} {document['id']}: {document['state']}"]
    for item in document["items"]:
        lines.append(f"{item['job']}: {item['state']}{'  ' + item['reason'] if item['reason'] else ''}")
        for step in item["steps"]:
            words = " ".join(
                f"{key}={value}" for key, value in step["data"].items() if not isinstance(value, dict)
            )
            lines.append(f"  {step['at']}  {step['phase']:<9} {step_words(step['step'])}  {words}".rstrip())
    return "\n".join(lines)
