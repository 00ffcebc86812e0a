"""The journal: batch runs and their items, an operation step by step."""

from __future__ import annotations

from typing import Any

from backends.clock import format_utc
from backends.ledger.records import Run
from console.operations.common.runs import find_run
from console.operations.fleet import Fleet

Document = dict[str, Any]
_LATEST = 1000  # runs looked through


def batch_runs(fleet: Fleet, limit: int = 50) -> list[Run]:
    """The newest batch runs."""
    return [run for run in fleet.ledger.runs(_LATEST) if run.kind == "batch"][:limit]


async def batches(fleet: Fleet, arguments: Document) -> Document:
    """Batch runs, newest first; with `items` true each with its items."""
    rows = []
    for run in batch_runs(fleet, arguments.get("limit") or 50):
        row: Document = {
            "name": run.id,
            "state": run.state,
            "created_at": format_utc(run.created_at),
            "file": run.arguments.get("file"),
            "detail": run.detail,
        }
        if arguments.get("items"):
            row["finished_at"] = None if run.finished_at is None else format_utc(run.finished_at)
            row["items"] = items_of(fleet, run.id)
        rows.append(row)
    return {"items": rows}


def items_of(fleet: Fleet, run: str) -> list[Document]:
    """Each item of a run: job, state, reason and what came of it."""
    return [
        {"item": item.item, "job": item.job, "state": item.state, "reason": item.reason, **item.result}
        for item in fleet.ledger.items(run)
    ]


async def operation(fleet: Fleet, arguments: Document) -> Document:
    """One operation: each journalled step with its time and result; nonces are left out."""
    run = find_run(fleet, arguments["id"])
    items = []
    for item in fleet.ledger.items(run.id):
        steps = [
            {"at": format_utc(step.at), "step": step.step, "phase": step.phase, "data": _shown(step.data)}
            for step in fleet.ledger.steps(run.id, item.item)
        ]
        items.append(
            {"item": item.item, "job": item.job, "state": item.state, "reason": item.reason, "steps": steps}
        )
    return {
        "schema": "reprieve/operation/v1",
        "id": run.id,
        "kind": run.kind,
        "state": run.state,
        "items": items,
    }


def _shown(data: Document) -> Document:
    return {
        key: value for key, value in data.items() if key not in ("nonce", "request") and value is not None
    }
