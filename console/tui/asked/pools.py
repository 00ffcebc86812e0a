"""The Pools table: published figures, and what each says of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.operations.view import FleetView
from console.tui.asked.looked import number, whole, word_or_none
from console.tui.model import columns, text
from console.tui.model.cells import NOTHING, Cell, Column, gauge
from console.tui.model.columns import plain
from console.tui.model.detail import Line, Section

Document = dict[str, Any]
BAR = 12


@dataclass(frozen=True)
class PoolRow:
    """One pool with its published figures; None is unknown."""

    pool: str
    band: str | None
    band_high: float | None  # share reclaimed in a month
    rate_low: float | None  # reclaims per hour
    rate_high: float | None
    discount: float | None
    limit: float | None  # d/(1-d)
    gpu: str | None
    gpus: int | None
    vcpus: int | None
    ram_gb: float | None
    snapshot: str
    basis: str
    source: str
    notes: tuple[str, ...]
    nodes: tuple[str, ...]  # of this fleet


def row(document: Document) -> PoolRow:
    """A row from a pool's document."""
    notes, nodes = document.get("notes"), document.get("nodes")
    return PoolRow(
        str(document.get("pool") or document.get("name") or ""),
        word_or_none(document.get("band")),
        number(document.get("band_high_fraction")),
        number(document.get("rate_low_per_hour")),
        number(document.get("rate_high_per_hour")),
        number(document.get("discount_fraction")),
        number(document.get("break_even_ratio")),
        word_or_none(document.get("gpu")),
        whole(document.get("gpu_count")),
        whole(document.get("vcpus")),
        number(document.get("ram_gb")),
        str(document.get("snapshot") or ""),
        str(document.get("snapshot_basis") or ""),
        str(document.get("source") or ""),
        tuple(str(note) for note in notes) if isinstance(notes, list) else (),
        tuple(str(name) for name in nodes) if isinstance(nodes, list) else (),
    )


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.0%}"


def _gpu(each: PoolRow) -> str | None:
    return None if each.gpu is None else f"{each.gpus or 1}x {each.gpu}"


def every(rate_per_hour: float | None) -> str | None:
    """The mean time between reclaims at a rate per hour."""
    return None if not rate_per_hour else text.duration(3600.0 / rate_per_hour)


COLUMNS: tuple[Column[PoolRow], ...] = (
    Column("pool", "POOL", lambda p, _: Cell(columns.pool(p.pool) or "", "strong"), lambda p, _: p.pool, 28, grow=14, worded=True),
    Column("discount", "DISCOUNT", lambda p, _: plain(_share(p.discount), "bad" if (p.discount or 0) < 0 else "plain"), lambda p, _: p.discount, 9, right=True, priority=1),
    Column("band", "BAND/MONTH", lambda p, _: plain(p.band), lambda p, _: p.band_high, 10, right=True, priority=2),
    Column("every", "RECLAIM EVERY", lambda p, _: plain(every(p.rate_high)), lambda p, _: None if not p.rate_high else 1 / p.rate_high, 13, right=True, priority=4),
    Column("gpu", "GPU", lambda p, _: plain(_gpu(p)), lambda p, _: _gpu(p), 10, grow=4, priority=3),
    Column("limit", "d/(1-d)", lambda p, _: plain(None if p.limit is None else f"{p.limit:.2f}"), lambda p, _: p.limit, 7, right=True, priority=6),
    Column("vcpus", "VCPUS", lambda p, _: plain(None if p.vcpus is None else str(p.vcpus)), lambda p, _: p.vcpus, 5, right=True, priority=7),
    Column("ram", "RAM GB", lambda p, _: plain(None if p.ram_gb is None else f"{p.ram_gb:g}"), lambda p, _: p.ram_gb, 7, right=True, priority=8),
    Column("ours", "OUR NODES", lambda p, _: plain(", ".join(p.nodes), "accent"), lambda p, _: ", ".join(p.nodes), 12, grow=20, priority=5),
    Column("notes", "NOTES", lambda p, _: Cell("; ".join(p.notes), "muted"), lambda p, _: "; ".join(p.notes), 12, grow=200, priority=9),
)  # fmt: skip


def sections(view: FleetView, each: PoolRow) -> tuple[Section, ...]:
    """The figures with their basis, and the fleet's nodes there."""
    figures: list[Line] = [
        ("pool", (Cell(each.pool, "strong"),)),
        ("discount d", (Cell(gauge(each.discount if (each.discount or 0) >= 0 else None, BAR) + " ", "ok"), plain(_share(each.discount)),
                        Cell("  mean of the last 30 days over zones", "muted"))),
        ("reclaimed", (Cell(gauge(each.band_high, BAR) + " ", "warn"), plain(each.band), Cell("  of the instances in a month", "muted"))),
        ("one every", (plain(every(each.rate_high)), Cell("  to  ", "muted"), plain(every(each.rate_low)), Cell("  at the ends of the band", "muted"))),
        ("pays while", (Cell("lost work stays below ", "muted"), plain(_share(each.limit)), Cell(" of the work, d/(1-d)", "muted"))),
    ]  # fmt: skip
    machine: list[Line] = [
        ("GPU", (plain(_gpu(each)),)),
        ("vCPUs, RAM", (plain(None if each.vcpus is None else str(each.vcpus)), Cell(", "), plain(None if each.ram_gb is None else f"{each.ram_gb:g} GB"))),
    ]  # fmt: skip
    known = {node.name: node for node in view.nodes}
    ours: list[Line] = [
        (name, (columns.node_state(known[name]),) if name in known else (NOTHING,)) for name in each.nodes
    ]
    basis: list[Line] = [
        (
            "snapshot",
            (plain(each.snapshot or None), Cell(f"  by its {each.basis}; the data may be older", "muted")),
        ),
        ("source", (plain(each.source or None, "muted"),)),
        *(("note", (Cell(note, "warn"),)) for note in each.notes),
    ]
    return (
        Section("published figures", tuple(figures)),
        Section("machine", tuple(machine)),
        Section("our nodes there", tuple(ours) or (("", (Cell("none", "muted"),)),)),
        Section("where the figures come from", tuple(basis)),
    )
