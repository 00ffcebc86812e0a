"""`replay`: a recorded session in the console, or one of its moments as a document."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.clock import format_utc, parse_utc
from backends.errors import ReprieveError
from console.operations.view import risk_now

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.view import FleetView

BEFORE_S = 600.0  # the plain twin tells the events of so much time before the moment


def run(invocation: Invocation) -> int:
    """On a terminal the console; otherwise, or with `-o`, the moment in plain words."""
    from console.tui import recorder
    from console.tui.model.recorded import Tape, moment

    at, typed = invocation.arguments.get("at"), invocation.arguments.get("file")
    now = invocation.clock.wall()
    file = Path(typed) if typed else recorder.covering(invocation.context.state, at, now)
    tape = Tape(recorder.read(file))
    if at is not None:
        tape.seek(moment(at, tape.span[1] if typed else now))
    if invocation.output == "table" and sys.stdin.isatty() and sys.stdout.isatty():
        from console.tui.replay import main

        return main(tape, invocation.clock)
    invocation.emit(document(tape.view), plain)
    return 0


def document(view: FleetView) -> dict[str, Any]:
    """One moment: every node and job, and what had happened shortly before."""
    return {
        "schema": "reprieve/replay/v1",
        "name": format_utc(view.taken_at),
        "context": view.context,
        "nodes": [
            {"name": node.name, "state": node.state, "notice": node.notice, "reason": node.reason}
            for node in view.nodes
        ],
        "jobs": [
            {
                "name": job.name, "state": job.state, "node": job.node, "checkpoint": job.checkpoint,
                "risk_seconds": risk_now(job, view.taken_at), "reason": job.reason,
            }
            for job in view.jobs
        ],
        "events": [
            {"time": event.time, "kind": event.kind, "node": event.node, "job": event.job, "text": event.text}
            for event in view.events
            if _recent(event.time, view.taken_at)
        ],
    }  # fmt: skip


def _recent(time: str, now: float) -> bool:
    try:
        return 0.0 <= now - parse_utc(time) <= BEFORE_S
    except ReprieveError:
        return True


def plain(found: dict[str, Any]) -> str:
    """The same as lines; unknown is `–`."""
    lines = [f"{found['name']}  {found['context']}"]
    for title, columns in (
        ("nodes", ("name", "state", "notice", "reason")),
        ("jobs", ("name", "state", "node", "checkpoint", "risk_seconds", "reason")),
        ("events", ("time", "kind", "node", "job", "text")),
    ):
        lines += ["", f"{title}:"]
        lines += ["  " + "  ".join(_word(row[name]) for name in columns) for row in found[title]] or [
            "  none"
        ]
    return "\n".join(line.rstrip() for line in lines)


def _word(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.0f} s at risk" if isinstance(value, float) else str(value)
