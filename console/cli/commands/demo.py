"""`reprieve demo`: a practice fleet on this machine loses nodes, and the jobs come back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from planner.quantities import format_duration

if TYPE_CHECKING:
    from backends.practice.launch import Running
    from console.cli.invocation import Invocation

Document = dict[str, Any]
MOST_HOSTS = 16  # what a machine of two cores carries
LEAST_STEPS = 400  # a job that ends before it is lost has no story


def run(invocation: Invocation) -> int:
    """Start the fleet, play the story with or without the console, and leave nothing behind."""
    from backends.errors import UsageError
    from backends.practice.launch import start
    from backends.xdg import base
    from console.operations.contexts import practice_directory

    typed = invocation.arguments
    headless = typed["headless"]
    if not headless and (invocation.machine or invocation.no_input):
        raise UsageError("demo needs a terminal for the console", hint="add --headless")
    hosts, mode = 3 if typed["hosts"] is None else typed["hosts"], typed["mode"] or "auto"
    if hosts < 3:
        raise UsageError(f"--hosts is {hosts}; the story needs at least 3")
    if hosts > MOST_HOSTS:
        raise UsageError(f"--hosts is {hosts}; at most {MOST_HOSTS} are expected")
    if typed["steps"] is not None and typed["steps"] < LEAST_STEPS:
        raise UsageError(f"--steps is {typed['steps']}; the story needs at least {LEAST_STEPS}")
    invocation.say("Starting the practice fleet …")
    with start(practice_directory(), hosts, mode, cache=base("CACHE"), clock=invocation.clock) as running:
        invocation.say(f"Practice fleet: {hosts} hosts, {running.mode}: {running.reason}.")
        if not headless:
            from console.cli.commands.demo_console import show

            return show(invocation, running)
        document = asyncio.run(_headless(invocation, running))
    invocation.emit(document, text)
    return 0 if document["ok"] else 1


async def _headless(invocation: Invocation, running: Running) -> Document:
    from console.operations.demo.telling import telling

    def detail(line: str) -> None:
        if invocation.verbose:
            invocation.say(f"    {line}")

    async with telling(
        running, invocation.clock, invocation.say, detail, steps=invocation.arguments["steps"]
    ) as story:
        return await story.tell()


def text(document: Document) -> str:
    """The story's end as people read it."""
    lines = [
        f"{'JOB':<9} {'FROM':<8} {'NOTICE':<7} {'TO':<8} {'CHECKPOINT':<11} {'EPOCH':>5} {'LOST WORK':>10} {'RESTORE':>9} {'WAIT':>8}"
    ]
    for item in document["reclaims"]:
        costs = [format_duration(item[name]) for name in ("lost_work_s", "restore_s", "wait_s")]
        lines.append(
            f"{item['job']:<9} {item['from_node']:<8} {'yes' if item['notice'] else 'no':<7} {item['to_node']:<8} "
            f"{item['from_checkpoint']:<11} {item['epoch']:>5} {costs[0]:>10} {costs[1]:>9} {costs[2]:>8}"
        )
    lines.append("")
    for job in document["jobs"]:
        same = job["final_digest"] == job["expected_digest"]
        lines.append(
            f"{job['job']:<9} digest {str(job['final_digest'])[:16]} {'=' if same else '≠'} "
            f"{str(job['expected_digest'])[:16]} of an uninterrupted run, {job['duplicate_processes']} duplicate processes"
        )
    verdict = (
        "Both jobs came back and ended as if nothing had happened."
        if document["ok"]
        else "The story did not end well."
    )
    lines += ["", f"{verdict} ({document['engine']}, {document['fleet']}, {document['duration_s']:.0f} s)"]
    return "\n".join(lines) + "\n"
