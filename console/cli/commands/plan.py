"""`reprieve plan` and `plan sweep`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.errors import UsageError
from console.cli.planning.inputs import inputs_of
from planner.advice import evaluate
from planner.plan.inputs import PlanError

if TYPE_CHECKING:
    from console.cli.invocation import Invocation

DOES_NOT_PAY = 8


def run(invocation: Invocation) -> int:
    """Print the plan; exit 8 under --check when spot does not pay or the job never finishes."""
    inputs = inputs_of(invocation)
    try:
        document = evaluate(inputs)
    except PlanError as error:
        raise UsageError(str(error)) from None
    if invocation.machine:
        invocation.emit(_told(document))
    else:
        from console.cli.planning.text import text
        from console.pictures.draw import width_of_terminal

        invocation.emit(document, lambda found: text(found, width_of_terminal()))
    if invocation.arguments["plot"] and not invocation.machine:
        from console.pictures.plan import pictures

        for picture in pictures(inputs, colour=invocation.renderer.colour):
            invocation.renderer.text("\n" + picture)
    bad = document["verdict"] in ("does_not_pay", "never_finishes")
    return DOES_NOT_PAY if invocation.arguments["check"] and bad else 0


def _told(value: Any) -> Any:
    """Figures at 15 significant digits, which every double keeps: 7.35 instead of 7.350000000000001."""
    if isinstance(value, float):
        return float(f"{value:.15g}")
    if isinstance(value, dict):
        return {key: _told(item) for key, item in value.items()}
    return [_told(item) for item in value] if isinstance(value, (list, tuple)) else value


def sweep(invocation: Invocation) -> int:
    """Print every cell of a grid."""
    from console.cli.planning.sweep import run as run_sweep

    return run_sweep(invocation)
