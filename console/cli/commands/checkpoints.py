"""`checkpoints`: what jobs can come back to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.errors import UsageError
from console.cli.session import act, on_fleet
from console.operations.common.scrubs import scrubs
from console.operations.looks.checkpoints import checkpoints, save_document

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet


def list_(invocation: Invocation) -> int:
    """`checkpoints list [NAME]`."""
    name = invocation.arguments.get("name")

    found = on_fleet(invocation, lambda fleet: checkpoints(fleet, {"name": name}))
    for problem in found["problems"]:
        invocation.warn(problem)

    from console.cli.invocation import Column

    columns = [
        Column("job"),
        Column("checkpoint"),
        Column("state"),
        Column("age_s", "AGE"),
        Column("size_bytes"),
        Column("stored_bytes", "STORED"),
        Column("node"),
        Column("reason"),
        Column("engine", wide=True),
        Column("freeze_s", wide=True),
        Column("upload_s", wide=True),
        Column("frozen_at", wide=True),
        Column("checked_at", wide=True),
        Column("checked_how", wide=True),
    ]
    invocation.emit_listing("checkpoint", found["items"], columns)
    return 0


def show(invocation: Invocation) -> int:
    """`checkpoints show NAME ID`."""
    wanted = invocation.arguments["checkpoint"]

    async def work(fleet: Fleet) -> dict[str, Any]:
        job = fleet.job(invocation.arguments["name"])
        if not job.uid:
            raise UsageError(f"job {job.name} was never protected")
        saves = await fleet.blocking(fleet.truth(job).saves, job.uid, fleet.job_key(job.uid))
        for save in saves:
            if save.checkpoint == wanted:
                return {
                    "schema": "reprieve/checkpoint/v1",
                    **save_document(job, save, fleet.clock.wall(), scrubs(fleet.ledger, job).get(wanted)),
                    "fingerprint": save.fingerprint,
                }
        raise UsageError(
            f"job {job.name} has no checkpoint {wanted}", hint=f"reprieve checkpoints list {job.name}"
        )

    invocation.emit(on_fleet(invocation, work))
    return 0


def verify(invocation: Invocation) -> int:
    """`checkpoints verify NAME [ID] [--sample F | --full]`: reads only, and records that it did."""
    return act(invocation)


def prune(invocation: Invocation) -> int:
    """`checkpoints prune NAME`: what was shown is carried out, nothing else; refused where it may not go any more."""
    from console.operations.flows.upkeep import retain

    arguments = invocation.arguments
    name = arguments["name"]

    async def work(fleet: Fleet, shown: tuple[str, ...] | None = None) -> dict[str, Any]:
        job = fleet.job(name)
        if not job.uid:
            raise UsageError(f"job {name} was never protected")
        keep, age = arguments.get("keep_last"), arguments.get("min_age")
        return await retain(fleet, job, dry_run=shown is None, keep_last=keep, min_age_s=age, shown=shown)

    plan = on_fleet(invocation, work)
    lines = [f"delete {each}" for each in plan["delete"]] or ["nothing is old enough to delete"]
    lines += [f"keep {each}: {why}" for each, why in plan["keep"].items()]
    if plan.get("refused"):
        lines = [f"nothing may be deleted now: {plan['refused']}"]
    document = {"schema": "reprieve/prune/v1", "job": name, "dry_run": invocation.dry_run, **plan}
    if invocation.dry_run or not plan["delete"]:
        invocation.emit(document, lambda _document: "\n".join(lines))
        return 0
    invocation.confirm(3, lines, name)
    done = on_fleet(invocation, lambda fleet: work(fleet, tuple(plan["delete"])))
    invocation.emit(
        {**document, **done}, lambda made: f"{len(made['delete'])} checkpoints of {name} are deleted"
    )
    return 0
