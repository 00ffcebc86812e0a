"""`jobs list`, `show`, `doctor`: they read and change nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

from backends.clock import format_utc
from backends.errors import UsageError
from backends.records.job import JobState
from console.cli.looking import check_state, controller_line, empty_line, look
from console.cli.session import on_fleet
from console.operations.common.scrubs import scrubs
from console.operations.view import FleetView, JobRow, risk_now
from planner.quantities import format_duration

if TYPE_CHECKING:
    from backends.schedulers.port import Answer
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet

DOCTOR_CODES = {"ok": 0, "needs_restart": 6, "self_save_only": 6, "impossible": 6}


def job_document(row: JobRow, view: FleetView, labels: dict[str, str]) -> dict[str, Any]:
    """One job as machine formats show it: units in the keys, unknown is null."""
    now = view.taken_at
    return {
        "name": row.name,
        "uid": row.uid or None,
        "state": row.state,
        "reason": row.reason,
        "awaits": row.awaits or None,
        "node": row.node,
        "engine": row.engine,
        "epoch": row.epoch,
        "pid": row.pid,
        "checkpoint": row.checkpoint,
        "frozen_at": None if row.frozen_at is None else format_utc(row.frozen_at),
        "checkpoint_age_s": None if row.frozen_at is None else max(0.0, now - row.frozen_at),
        "work_at_risk_s": risk_now(row, now),
        "interval_s": row.interval_s,
        "interval_reason": row.interval_reason or None,
        "next_save_in_s": None if row.next_save_at is None else row.next_save_at - now,
        "freeze_s": row.freeze_s,
        "size_bytes": row.size_bytes,
        "progress": row.progress,
        "stale": row.stale,
        "store": row.store or None,
        "labels": labels,
    }


def list_(invocation: Invocation) -> int:
    """`jobs list`."""
    from console.cli.invocation import Column

    check_state(invocation.arguments.get("state"), get_args(JobState))
    view, labels = look(invocation)
    node, state = invocation.arguments.get("node"), invocation.arguments.get("state")
    rows = [row for row in view.jobs if node in (None, row.node) and state in (None, row.state)]
    items = [job_document(row, view, labels.get(row.node or "", {})) for row in rows]
    columns = [
        Column("name", "JOB"),
        Column("state"),
        Column("node"),
        Column("work_at_risk_s", "AT RISK", doubt="stale"),
        Column("checkpoint"),
        Column("checkpoint_age_s", "AGE"),
        Column("interval_s"),
        Column("engine"),
        Column("reason"),
        Column("epoch", wide=True),
        Column("pid", wide=True),
        Column("size_bytes", wide=True),
        Column("freeze_s", wide=True),
        Column("uid", wide=True),
        Column("store", wide=True),
    ]
    invocation.emit_listing("job", items, columns)
    if not view.jobs:
        empty_line(invocation, "jobs", "reprieve jobs protect NAME --node NODE --pid PID", "jobs list")
    controller_line(invocation, view)
    return 0


def show(invocation: Invocation) -> int:
    """`jobs show NAME`: the row, its checkpoints' count, its reclaims and its last events."""
    name = invocation.arguments["name"]
    view, labels = look(invocation)
    row = next((row for row in view.jobs if row.name == name), None)
    if row is None:
        raise UsageError(f"job {name!r} is not in the fleet", hint="see `reprieve jobs list`")

    async def history(fleet: Fleet) -> dict[str, Any]:
        return {
            "events": [asdict(event) for _, event in fleet.ledger.events(limit=10, job=name)],
            "reclaims": [asdict(each) for each in fleet.ledger.reclaims() if each.uid == row.uid],
            "saves_measured": len(fleet.ledger.saves(row.uid)),
            "last_check": _last_check(fleet, name),
        }

    document = {
        "schema": "reprieve/job/v1",
        **job_document(row, view, labels.get(row.node or "", {})),
        **on_fleet(invocation, history),
    }
    invocation.emit(document, _job_text)
    controller_line(invocation, view)
    return 0


def _last_check(fleet: Fleet, name: str) -> dict[str, Any] | None:
    """What the newest check of a checkpoint of this job found; None when there was none."""
    found = scrubs(fleet.ledger, fleet.job(name)).values()
    newest = max(found, key=lambda scrub: scrub.at, default=None)
    return None if newest is None else {**asdict(newest), "at": format_utc(newest.at)}


def _job_text(document: dict[str, Any]) -> str:
    """The row, then a line an event and a line a reclaim."""
    from console.cli.render import pairs

    nested = ("schema", "events", "reclaims", "labels", "last_check")
    lines = [pairs({key: value for key, value in document.items() if key not in nested})]
    check = document["last_check"]
    if check is not None:
        found = "whole" if check["whole"] else f"DAMAGED: {check['reason']}"
        lines += ["", f"last check  {check['at']}  {check['checkpoint']} ({check['how']}): {found}"]
    if document["reclaims"]:
        lines.append("")
    for each in document["reclaims"]:
        lost = "–" if each["lost_work_s"] is None else format_duration(round(each["lost_work_s"], 1))
        lines.append(
            f"{format_utc(each['at'])}  {each['cause']}: {each['from_node']} → {each['to_node']} "
            f"from {each['from_checkpoint']}, lost work {lost}"
        )
    lines.append("")
    lines += [f"{event['time']}  {event['kind']:<16} {event['text']}" for event in document["events"]]
    return "\n".join(lines)


def doctor(invocation: Invocation) -> int:
    """`jobs doctor NAME`, or `--node N --pid P`: exit 0 when it can be protected as it stands, else 6."""
    arguments = invocation.arguments
    verdicts, other = on_fleet(invocation, lambda fleet: _examined(fleet, arguments))
    best = verdicts[0] if verdicts else {"answer": "impossible", "reasons": ["the node offers no engine"]}
    restarter = None if other is None or other.word == "no" else asdict(other)
    document = {
        "schema": "reprieve/doctor/v1",
        "job": arguments.get("name"),
        **best,
        "restarter": restarter,
        "verdicts": verdicts,
    }
    invocation.emit(document, lambda _document: _doctor_text(best, restarter))
    return DOCTOR_CODES.get(str(best.get("answer")), 6)


async def _examined(fleet: Fleet, arguments: dict[str, Any]) -> tuple[list[dict[str, Any]], Answer | None]:
    from backends.records.job import Attach, Job
    from console.operations.flows.protect import look_at

    name, node, pid = arguments.get("name"), arguments.get("node"), arguments.get("pid")
    if name is not None:
        job = fleet.job(name)
        return await look_at(fleet, job, pid)
    if node is None or pid is None:
        raise UsageError("jobs doctor needs the name of a job, or --node NODE --pid PID")
    return await look_at(fleet, Job(f"pid-{pid}", node, attach=Attach(pid=pid)), pid)


def _doctor_text(best: dict[str, Any], restarter: dict[str, Any] | None) -> str:
    lines = [f"{best.get('answer')}{' by engine ' + str(best['engine']) if best.get('engine') else ''}"]
    lines += [f"  {reason}" for reason in best.get("reasons") or ()]
    if best.get("restart_line"):
        lines.append(f"  restart it as: {best['restart_line']}")
    if restarter is not None:
        lines.append(f"  another restarter: {restarter['detail']}; against that: {restarter['remedy']}")
    return "\n".join(lines)
