"""Where a job may go: the quick list of the snapshot, and the wizard's list with the gate's word on every node and pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.operations.view import FleetView, JobRow, NodeRow
from console.tui.asked.looked import whole, word_or_none
from console.tui.model import columns, words
from console.tui.model.cells import Cell, Column
from console.tui.model.columns import plain
from console.tui.model.detail import Line, Section
from console.tui.model.plans import ANY, LIVING

Document = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A node in the list of places a job may go."""

    name: str
    label: str
    note: Cell
    fits: bool


def targets(view: FleetView, job: JobRow) -> tuple[Target, ...]:
    """Where `job` could be moved: nodes that can take it, then the rest.

    Only what the snapshot knows is judged; the gate decides when the operation runs.
    """
    rows = [_target(node, job) for node in view.nodes]
    rows.sort(key=lambda row: (not row.fits, row.label))
    return tuple(rows)


def calm(tone: words.Tone) -> words.Tone:
    """An alarm inside a list is drawn as bad: a reversed line could not be read."""
    return "bad" if tone == "alarm" else tone


def _target(node: NodeRow, job: JobRow) -> Target:
    state = words.of(words.NODE, node.state)
    if node.name == job.node and node.state == "ok":
        return Target(node.name, node.name, Cell("runs here now", "muted"), fits=False)
    if node.state != "ok":
        return Target(
            node.name,
            node.name,
            Cell(f"{state}{': ' + node.reason if node.reason else ''}", calm(state.tone)),
            fits=False,
        )
    if node.notice == "notice":
        return Target(node.name, node.name, Cell("◆ NOTICE: it is being taken", "bad"), fits=False)
    busy = f"runs {', '.join(node.jobs)}" if node.jobs else "free"
    return Target(
        node.name,
        node.name,
        Cell(f"{state} · {busy}{' · ' + node.pool if node.pool else ''}", "plain" if node.jobs else "ok"),
        fits=True,
    )


@dataclass(frozen=True)
class Place:
    """One line of the wizard's second step."""

    kind: str  # any | node | pool
    name: str
    fits: bool | None  # None: it would have to be launched
    word: str
    pool: str | None
    jobs: int | None
    reasons: tuple[str, ...]
    best: bool = False

    @property
    def key(self) -> str:
        """What it is known by."""
        return f"{self.kind}/{self.name}"


def from_look(answer: Document, view: FleetView, job: JobRow | None) -> tuple[Place, ...]:
    """The gate's answer as lines: any node first, then nodes, then pools; what the snapshot knows better is put right."""
    best = word_or_none(answer.get("best"))
    found = answer.get("items")
    items = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    lines = [_place(item, best, job) for item in items]
    lines.sort(key=lambda line: (line.kind != "node", not line.best, line.fits is not True, line.name))
    why = (
        f"the gate takes the best when it runs, now {best}"
        if best
        else "no node fits now: it would wait for one"
    )
    return (Place("any", ANY, best is not None or None, "ok", None, None, (why,)), *lines)


def _place(item: Document, best: str | None, job: JobRow | None) -> Place:
    reasons = item.get("reasons")
    said = [str(reason) for reason in reasons] if isinstance(reasons, list) else []
    name, kind = str(item.get("name") or ""), str(item.get("kind") or "node")
    fits = item.get("fits") if isinstance(item.get("fits"), bool) else None
    if kind == "node" and job is not None and name == job.node and job.state in LIVING and not job.stale:
        fits = False
        said.insert(0, f"{job.name} runs here now")
    return Place(
        kind, name, fits, str(item.get("word") or "unknown"), word_or_none(item.get("pool")),
        whole(item.get("jobs")), tuple(said), best=kind == "node" and name == best,
    )  # fmt: skip


def _fit(place: Place) -> Cell:
    if place.fits is None:
        return Cell("… would wait" if place.kind == "any" else "… on request", "warn")
    if not place.fits:
        return Cell("✗ does not", "bad")
    return Cell("◐ with care", "warn") if place.word == "warn" else Cell("● fits", "ok")


def _why(place: Place) -> str:
    if place.reasons:
        return "; ".join(place.reasons)
    return "everything the save needs is there" if place.fits else "no reason was given"


COLUMNS: tuple[Column[Place], ...] = (
    Column("place", "WHERE", lambda p, _: Cell(p.name if p.kind != "pool" else columns.pool(p.name) or p.name, "strong" if p.fits else "muted"), lambda p, _: p.name, 19, grow=24),
    Column("fits", "FITS", lambda p, _: _fit(p), lambda p, _: _fit(p).text, 12, priority=1),
    Column("kind", "WHAT", lambda p, _: Cell("best node" if p.best else p.kind, "accent" if p.best else "muted"), lambda p, _: p.kind, 9, priority=4),
    Column("jobs", "JOBS", lambda p, _: plain(None if p.jobs is None else str(p.jobs)), lambda p, _: p.jobs, 4, right=True, priority=3),
    Column("why", "WHY", lambda p, _: Cell(_why(p), "muted" if p.fits else "plain"), lambda p, _: _why(p), 24, grow=300, priority=2),
)  # fmt: skip


def place_sections(place: Place) -> tuple[Section, ...]:
    """One place with every reason on a line of its own."""
    lines: list[Line] = [("", (_fit(place),))]
    lines += [("", (Cell(f"· {reason}"),)) for reason in place.reasons]
    if not place.reasons:
        lines.append(("", (Cell(_why(place), "muted"),)))
    if place.pool and place.kind == "node":
        lines.append(("pool", (Cell(place.pool, "muted"),)))
    return (Section(place.name, tuple(lines)),)
