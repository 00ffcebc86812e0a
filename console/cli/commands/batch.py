"""`batch`: many restores from a file, journalled, resumable."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.clean import clean
from backends.errors import UsageError
from console.cli.session import checked, on_fleet
from console.operations.decide.batch import BatchItem, exit_code, read_items
from console.operations.looks.journal import batches, items_of

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet


def restore(invocation: Invocation) -> int:
    """`batch restore FILE|-`."""
    from console.operations.flows import batch

    source = str(invocation.arguments["file"])
    if invocation.arguments.get("resume"):
        run = on_fleet(invocation, lambda fleet: _found(fleet, source))
        return _proceed(invocation, run)
    items = read_items(_data(source), source)
    plan = on_fleet(invocation, lambda fleet: batch.plan(fleet, items))
    if invocation.dry_run:
        document = {"schema": "reprieve/batch-plan/v1", "file": source, "items": plan}
        invocation.emit(document, lambda _document: "\n".join(_plan_line(row) for row in plan))
        return 0
    forced = any(item.force for item in items)
    lines = [f"restore {len(items)} jobs", *(_plan_line(row) for row in plan[:20])]
    if len(plan) > 20:
        lines.append(f"… and {len(plan) - 20} more: --dry-run shows all")
    invocation.confirm(3 if forced else 2, lines, str(len(items)))
    run = on_fleet(invocation, lambda fleet: _begun(fleet, items, source))
    invocation.say(f"batch run {run}; if this is interrupted: reprieve batch resume {run}")
    return _proceed(invocation, run)


async def _found(fleet: Fleet, source: str) -> str:
    from console.operations.flows import batch

    return batch.unfinished(fleet, source)


async def _begun(fleet: Fleet, items: list[BatchItem], source: str) -> str:
    from console.operations.flows import batch

    return batch.begin(fleet, items, file=source)


def _data(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise UsageError(f"batch file {source} cannot be read: {clean(error.strerror or error)}") from None


def _plan_line(row: dict[str, Any]) -> str:
    reason = f"  ({row['reason']})" if row["reason"] else ""
    return f"{row['job']}: {row['checkpoint'] or 'no checkpoint'} → {row['node'] or 'no node'}{reason}"


def _proceed(invocation: Invocation, run: str) -> int:
    from console.operations.flows import batch

    lines: list[dict[str, Any]] = []

    def on_item(line: dict[str, Any]) -> None:
        lines.append(line)
        where = f" on {line['node']}" if line["node"] else ""
        invocation.emit_line(
            line, f"{line['job']}: {line['state']}{where}{'  ' + line['reason'] if line['reason'] else ''}"
        )

    most = invocation.arguments.get("max_parallel") or 4
    fail_fast = bool(invocation.arguments.get("fail_fast"))
    document = on_fleet(
        invocation,
        lambda fleet: batch.proceed(
            fleet, run, on_item, invocation.progress, max_parallel=most, fail_fast=fail_fast
        ),
    )
    counts = ", ".join(
        f"{document[state]} {state}"
        for state in ("restored", "already_restored", "failed", "refused", "cancelled")
        if document[state]
    )
    if invocation.output in ("ndjson", "table", "wide"):
        invocation.emit_line(document, f"batch {run}: {counts}")
    else:
        invocation.emit({**document, "results": lines})
    return exit_code([line["state"] for line in lines])


def resume(invocation: Invocation) -> int:
    """`batch resume RUN`."""
    run = invocation.arguments["run"]
    checked(invocation)
    invocation.confirm(2, (f"go on with batch {run}: what ended is left alone",), run)
    return _proceed(invocation, run)


def list_(invocation: Invocation) -> int:
    """`batch list`."""
    from console.cli.invocation import Column

    found = on_fleet(invocation, lambda fleet: batches(fleet, {"limit": invocation.arguments.get("limit")}))
    columns = [Column("name", "RUN"), Column("state"), Column("created_at"), Column("file"), Column("detail")]
    invocation.emit_listing("batch", found["items"], columns)
    return 0


def show(invocation: Invocation) -> int:
    """`batch show RUN`."""
    from console.operations.common.runs import find_run

    async def work(fleet: Fleet) -> dict[str, Any]:
        run = find_run(fleet, invocation.arguments["run"])
        return {
            "schema": "reprieve/batch/v1",
            "run": run.id,
            "state": run.state,
            "detail": run.detail,
            "items": items_of(fleet, run.id),
        }

    document = on_fleet(invocation, work)
    invocation.emit(
        document,
        lambda made: "\n".join(
            [f"batch {made['run']}: {made['state']} ({made['detail']})"]
            + [
                f"{row['item']:>4}  {row['job']:<20} {row['state']:<18} {row['reason']}"
                for row in made["items"]
            ]
        ),
    )
    return 0
