"""Prices and interruption figures pulled last, in one indexed file: each with source, basis and when it was fetched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from backends.clouds.figures import Figure
from backends.clouds.kept import opened
from backends.clouds.prices import Price
from backends.xdg import private

FILE = "prices.db"
WHAT = "the pulled prices"  # as errors call it
_SCHEMA = """
CREATE TABLE IF NOT EXISTS prices (
    provider TEXT, region TEXT, type TEXT, system TEXT, kind TEXT, zone TEXT, usd REAL NOT NULL, since TEXT,
    source TEXT NOT NULL, basis TEXT NOT NULL, fetched_at TEXT NOT NULL,
    PRIMARY KEY (provider, region, type, system, kind, zone)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS figures (
    provider TEXT, region TEXT, type TEXT, label TEXT NOT NULL, source TEXT NOT NULL, basis TEXT NOT NULL,
    fetched_at TEXT NOT NULL,
    PRIMARY KEY (provider, region, type)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Kept:
    """A price and when it was fetched (RFC 3339)."""

    price: Price
    fetched_at: str


def save(cache: Path, prices: Sequence[Price], fetched_at: str) -> None:
    """Put `prices` in place of the older ones of the same provider, region, type, system and kind; the rest stays.

    A zone that no longer has a price goes: what was not told again is not known any more.
    """
    with opened(private(cache) / FILE, WHAT) as connection:
        connection.executescript(_SCHEMA)
        pools = {(p.provider, p.region, p.instance_type, p.system, p.kind) for p in prices}
        connection.executemany(
            "DELETE FROM prices WHERE provider = ? AND region = ? AND type = ? AND system = ? AND kind = ?",
            pools,
        )
        connection.executemany(
            "INSERT OR REPLACE INTO prices VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (p.provider, p.region, p.instance_type, p.system, p.kind, p.zone, p.usd_per_hour, p.since, p.source,
                 p.basis, fetched_at)
                for p in prices
            ),
        )  # fmt: skip


def load(
    cache: Path, *, providers: Sequence[str] = ("aws",), region: str | None = None, system: str = "linux"
) -> list[Kept]:
    """The prices of these providers, narrowed by region and system; empty when none were ever pulled."""
    if not (cache / FILE).exists():
        return []
    marks = ", ".join("?" * len(providers))
    query = (
        f"SELECT * FROM prices WHERE provider IN ({marks}) AND system = ? AND (? IS NULL OR region = ?) "  # noqa: S608 - only question marks
        "ORDER BY provider, region, type, kind, zone"
    )
    with opened(cache / FILE, WHAT) as connection:
        connection.executescript(_SCHEMA)
        rows = connection.execute(query, (*providers, system, region, region)).fetchall()
    return [
        Kept(Price(provider, region_, kind_of, system_, kind, usd, zone, since, source, basis), fetched_at)
        for provider, region_, kind_of, system_, kind, zone, usd, since, source, basis, fetched_at in rows
    ]


@dataclass(frozen=True)
class KeptFigure:
    """An interruption figure and when it was fetched (RFC 3339)."""

    figure: Figure
    fetched_at: str


def save_figures(
    cache: Path, provider: str, figures: Sequence[Figure], fetched_at: str, *, whole: bool = True
) -> None:
    """Put `figures` in place of all older ones of the provider, whole or not at all; without `whole` in place of their own."""
    with opened(private(cache) / FILE, WHAT) as connection:
        connection.executescript(_SCHEMA)
        if whole:
            connection.execute("DELETE FROM figures WHERE provider = ?", (provider,))
        connection.executemany(
            "INSERT OR REPLACE INTO figures VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (f.provider, f.region, f.instance_type, f.label, f.source, f.basis, fetched_at)
                for f in figures
            ),
        )


def load_figures(cache: Path, provider: str, region: str | None = None) -> dict[tuple[str, str], KeptFigure]:
    """The provider's figures by (region, type in lower case), narrowed by region; empty when none were pulled."""
    if not (cache / FILE).exists():
        return {}
    query = "SELECT * FROM figures WHERE provider = ? AND (? IS NULL OR region = ?)"
    with opened(cache / FILE, WHAT) as connection:
        connection.executescript(_SCHEMA)
        rows = connection.execute(query, (provider, region, region)).fetchall()
    return {
        (place, kind): KeptFigure(Figure(told, place, kind, label, source, basis), fetched_at)
        for told, place, kind, label, source, basis, fetched_at in rows
    }
