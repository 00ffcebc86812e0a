"""`reprieve fleet reap`: what this fleet rented or made at a provider and nobody uses, listed and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from console.cli.session import on_fleet

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.decide.reap import Judged
    from console.operations.fleet import Fleet


def reap(invocation: Invocation) -> int:
    """List, ask, remove; 0 when all that may go is gone, 3 when some could not be removed, 1 when none could."""
    from console.operations.decide.reap import YOUNG_S
    from console.operations.flows.reaping import leftovers, remove, row_of

    typed = invocation.arguments
    provider, regions = typed["provider"], typed.get("region") or None
    young_s = typed.get("min_age")

    async def look(fleet: Fleet) -> list[Judged]:
        return await leftovers(fleet, provider, regions, young_s=YOUNG_S if young_s is None else young_s)

    judged = on_fleet(invocation, look)
    going = [each for each in judged if each.removable]
    rows: list[dict[str, Any]] = [row_of(each) for each in judged]
    if going:
        lines = [
            f"remove {each.thing.kind} {each.thing.id} in {each.thing.region}: {each.reason}"
            for each in going
        ]
        lines += [
            f"keep {row['kind']} {row['id']}: {row['reason']}" for row in rows if row["state"] == "kept"
        ]
        invocation.confirm(3, lines, str(len(going)))
        rows = on_fleet(invocation, lambda fleet: remove(fleet, provider, judged))
    document = {"schema": "reprieve/fleet-reaping/v1", "provider": provider, "items": rows}
    invocation.emit(document, _text)
    failed = sum(row["state"] == "failed" for row in rows)
    if not failed:
        return 0
    return 3 if failed < len(going) else 1


def _text(document: dict[str, Any]) -> str:
    rows = document["items"]
    if not rows:
        return "nothing at the provider carries the mark of this fleet"
    return "\n".join(
        f"{row['kind']:<9} {row['id']:<22} {row['region']:<15} {row['node'] or '–':<24} {row['state']:<9} {row['reason']}".rstrip()
        for row in rows
    )
