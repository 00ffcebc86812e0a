"""The last good copy of the feed, in one indexed file, with its source and age."""

from __future__ import annotations

from pathlib import Path

from backends.clouds.aws.advisor import AdvisorPool, Band, Feed
from backends.clouds.kept import opened
from backends.xdg import private

FILE = "spot-advisor.db"
WHAT = "the cached feed"  # as errors call it
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pools (
    region TEXT, system TEXT, type TEXT, label TEXT, low REAL, high REAL, discount REAL, vcpus INTEGER, ram_gb REAL,
    notes TEXT NOT NULL,
    PRIMARY KEY (region, system, type)
) WITHOUT ROWID;
"""


def save(cache: Path, feed: Feed, etag: str | None) -> Path:
    """Replace the cached copy by `feed`, whole or not at all."""
    path, fresh = private(cache) / FILE, cache / f"{FILE}.new"
    fresh.unlink(missing_ok=True)
    meta = {
        "source": feed.source, "snapshot": feed.snapshot, "snapshot_basis": feed.snapshot_basis,
        "fetched_at": feed.fetched_at, "etag": etag or "", "gaps": "\n".join(feed.gaps), "regions": "\n".join(feed.regions),
    }  # fmt: skip
    with opened(fresh, WHAT) as connection:
        connection.executescript(_SCHEMA)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        connection.executemany(
            "INSERT INTO pools VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    p.region,
                    p.system,
                    p.instance_type,
                    p.band.label,
                    p.band.low,
                    p.band.high,
                    p.discount,
                    p.vcpus,
                    p.ram_gb,
                    "\n".join(p.notes),
                )
                for p in feed.pools
            ),
        )
    fresh.replace(path)
    return path


def touch(cache: Path, fetched_at: str) -> None:
    """Record that the source was asked again and had nothing newer."""
    with opened(cache / FILE, WHAT) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = 'fetched_at'", (fetched_at,))


def etag(cache: Path) -> tuple[str, str] | None:
    """(source, ETag) of the cached copy, None without one."""
    meta = _meta(cache)
    return (meta["source"], meta["etag"]) if meta and meta["etag"] else None


def _meta(cache: Path) -> dict[str, str]:
    if not (cache / FILE).exists():
        return {}
    with opened(cache / FILE, WHAT) as connection:
        return dict(connection.execute("SELECT name, value FROM meta"))


def load(cache: Path, *, region: str | None = None, system: str = "linux") -> Feed | None:
    """The cached copy, narrowed by region and system; None when nothing was ever pulled."""
    meta = _meta(cache)
    if not meta:
        return None
    query = "SELECT * FROM pools WHERE system = ? AND (? IS NULL OR region = ?) ORDER BY region, type"
    with opened(cache / FILE, WHAT) as connection:
        rows = connection.execute(query, (system, region, region)).fetchall()
    pools = tuple(
        AdvisorPool(r, s, t, Band(label, low, high), d, v, m, _lines(notes))
        for r, s, t, label, low, high, d, v, m, notes in rows
    )
    dates = (meta["snapshot"], meta["snapshot_basis"], meta["fetched_at"])
    return Feed(pools, meta["source"], *dates, _lines(meta["gaps"]), _lines(meta["regions"]))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split("\n")))
