"""`watch`: the controller in the foreground."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.clock import format_utc
from backends.errors import UsageError
from console.cli.session import on_fleet
from console.operations.flows.watch import Watch

LEAST_S = 1.0  # a look asks every node

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet


def _set_rounds(watch: Watch, rounds: dict[str, float]) -> Watch:
    for name, seconds in rounds.items():
        setattr(watch.upkeep, name, seconds)
    return watch


def run(invocation: Invocation) -> int:
    """`watch [--every D] [--once]`: restores by policy until stopped; starting it is the consent."""
    typed_s = invocation.arguments.get("every")
    every_s = 5.0 if typed_s is None else typed_s
    rounds = {
        name: float(seconds)
        for option, name in (("retain_every", "retain_every_s"), ("scrub_every", "scrub_every_s"))
        if (seconds := invocation.arguments.get(option)) is not None
    }
    if every_s < LEAST_S:
        raise UsageError(f"--every is {every_s:g} s; at least {LEAST_S:g} s is needed")

    def told(text: str) -> None:
        if invocation.output == "ndjson":
            line = {"schema": "reprieve/watch/v1", "time": format_utc(invocation.clock.wall()), "text": text}
            invocation.emit_line(line, text)
        else:
            invocation.say(text)

    async def looked(fleet: Fleet) -> list[dict[str, Any]]:
        watch = Watch(fleet, told, every_s=every_s, dry_run=invocation.dry_run)
        try:
            actions = await watch.look() if invocation.dry_run else await watch.once()
            if not invocation.dry_run:
                await _set_rounds(watch, rounds).upkeep.round()
        finally:
            await watch.close()
        return [{"job": each.job, "action": each.kind, "reason": each.reason} for each in actions]

    async def forever(fleet: Fleet) -> None:
        told(
            f"watching {fleet.context.name} every {every_s:g} s; Ctrl-C stops watching, jobs stay under their guards"
        )
        await _set_rounds(Watch(fleet, told, every_s=every_s), rounds).run()

    if invocation.arguments.get("once") or invocation.dry_run:
        if not invocation.dry_run:
            invocation.refuse_if_read_only()
        actions = on_fleet(invocation, looked, "watch")
        document = {"schema": "reprieve/watch-look/v1", "actions": actions}
        text = (
            "\n".join(f"{each['action']}: {each['job']}: {each['reason']}" for each in actions)
            or "nothing to do"
        )
        invocation.emit(document, lambda _document: text)
        return 0
    invocation.refuse_if_read_only()
    on_fleet(invocation, forever, "watch")
    return 0
