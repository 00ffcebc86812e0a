"""The context bar: where we are, how old what we see is, and what must never be overlooked."""

from __future__ import annotations

from dataclasses import dataclass

from console.operations.view import FleetView
from console.tui.model import text
from console.tui.model.cells import Cell

# Age in seconds from which a source is LATE and STALE; published figures and the store age more slowly.
_LIMITS = {
    "store": (45.0, 120.0),  # asked every 15 s by design
    "prices": (7200.0, 86400.0),
    "bands": (3 * 86400.0, 14 * 86400.0),
    "advisor": (3 * 86400.0, 14 * 86400.0),
}
_USUAL = (15.0, 60.0)
LIVES = 6  # priority of a live controller's name and age: the first to be shortened


@dataclass(frozen=True)
class Header:
    """What the bar is made from besides the snapshot."""

    view: FleetView | None
    now: float  # wall time, seconds
    elapsed_s: float = 0.0  # since the snapshot was taken
    failure: str | None = None  # why the newest attempt to look failed
    paused: bool = False  # the operator stopped polling
    operations: int = 0  # running in this console


def source_word(name: str, age_s: float | None) -> Cell:
    """One source with its age: `fleet 3s`, `cloud LATE 41s`, `store STALE 6m`, `prices –`."""
    if age_s is None:
        return Cell(f"{name} {text.UNKNOWN}", "muted")
    late, stale = _LIMITS.get(name, _USUAL)
    age = text.brief(age_s)
    if age_s >= stale:
        return Cell(f"{name} STALE {age}", "bad")
    return Cell(f"{name} LATE {age}", "warn") if age_s >= late else Cell(f"{name} {age}", "muted")


def left(header: Header) -> list[tuple[int, Cell]]:
    """The parts of the bar with their priority; 0 is never dropped, the highest goes first."""
    view = header.view
    parts: list[tuple[int, Cell]] = []
    if view is None:
        parts.append((0, Cell("connecting…" if header.failure is None else "no data yet", "warn")))
    else:
        parts.append((1, Cell(_shorten(view.context, 24), "strong")))
        parts.append((0, Cell("RO", "warn") if view.read_only else Cell("RW", "accent")))
        if view.production:
            parts.append((0, Cell(" PRODUCTION ", "alarm")))
    if header.paused:
        parts.append((0, Cell(" PAUSED ", "alarm")))
    if header.failure is not None:
        parts.append((2, Cell(f"✗ {_shorten(header.failure, 60)}", "bad")))
    if view is not None:
        parts += _controller(view, header.now)
        parts += _sources(view, header)
        running = header.operations + sum(1 for row in view.operations if row.state == "running")
        if running:
            parts.append((3, Cell(f"ops {running}▸", "info")))
    return parts


def _controller(view: FleetView, now: float) -> list[tuple[int, Cell]]:
    if view.no_controller_since is not None:
        return [(0, Cell(f"NO CONTROLLER since {text.time_of_day(view.no_controller_since, now)}", "alarm"))]
    if view.controller is not None:
        return [(LIVES, Cell(f"controller {_shorten(view.controller, 28)}", "muted"))]
    return [(0, Cell("NO CONTROLLER", "alarm"))]


def _sources(view: FleetView, header: Header) -> list[tuple[int, Cell]]:
    parts = []
    for name, age in view.source_ages_s.items():
        cell = source_word(_shorten(name, 12), None if age is None else age + header.elapsed_s)
        parts.append((5 if cell.tone == "muted" else 2, cell))
    return parts


def fit(parts: list[tuple[int, Cell]], width: int, gap: int = 2) -> list[Cell]:
    """The cells that fit `width`, dropping the least important; what may not be dropped may be cut by the edge."""
    kept = list(parts)
    while kept and sum(len(cell.text) + gap for _, cell in kept) > width:
        worst = max(priority for priority, _ in kept)
        if worst == 0:
            break
        last = max(index for index, (priority, _) in enumerate(kept) if priority == worst)
        if worst == LIVES:  # whether a controller lives is always said, by name only where there is room
            kept[last] = (0, Cell("controller", kept[last][1].tone))
        else:
            del kept[last]
    return [cell for _, cell in kept]


def _shorten(value: str, limit: int) -> str:
    return value if len(value) <= limit else value[: limit - 1] + "…"
