"""The Spot Instance Advisor feed: per region, system and type an interruption band and a mean saving.

Bands are read from their *label*; `max` in the feed is not the upper edge of the label (5, 11, 16, 22, 100). A saving
of 0 means "no price known", a negative one is real. Linux and Windows are never mixed. The feed has no date of its own.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.errors import DamagedError
from backends.records import strict
from planner.hazards import band_edges

DEFAULT_URL = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
SYSTEMS = {"linux": "Linux", "windows": "Windows"}


@dataclass(frozen=True)
class Band:
    """An interruption band: the share of instances reclaimed in the trailing month."""

    label: str | None  # None: the feed gives an index without a range
    low: float | None
    high: float | None


@dataclass(frozen=True)
class AdvisorPool:
    """One row of the feed."""

    region: str
    system: str  # linux | windows
    instance_type: str
    band: Band
    discount: float | None  # None: unknown (the feed says 0)
    vcpus: int | None
    ram_gb: float | None
    notes: tuple[str, ...] = ()  # why something is unknown or odd

    @property
    def pool(self) -> str:
        """The pool's id."""
        return f"aws/{self.region}/{self.instance_type}/{self.system}"


@dataclass(frozen=True)
class Feed:
    """A parsed feed and where it came from."""

    pools: tuple[AdvisorPool, ...]
    source: str
    snapshot: str  # date of the data, as far as it is known
    snapshot_basis: str  # what that date is: `Last-Modified`, `file name`, `file time`
    fetched_at: str  # RFC 3339
    gaps: tuple[str, ...]  # what could not be read, one line each
    regions: tuple[str, ...] = ()  # named by the feed, with or without figures


@dataclass(frozen=True)
class Parsed:
    """What a feed's bytes hold."""

    pools: tuple[AdvisorPool, ...]
    gaps: tuple[str, ...]
    regions: tuple[str, ...]


def parse(data: bytes, *, what: str) -> Parsed:
    """Read a feed's bytes; raises DamagedError where the whole is not a feed."""
    document = strict.loads(data, what=what, limit=strict.FEED_LIMIT)
    regions = document.get("spot_advisor")
    if not isinstance(regions, dict) or not isinstance(document.get("ranges"), list):
        raise DamagedError(f"{what}: not a Spot Advisor feed (`spot_advisor` and `ranges` are expected)")
    gaps: list[str] = []
    bands = _bands(document["ranges"], gaps)
    types = document.get("instance_types")
    facts = types if isinstance(types, dict) else {}
    pools = tuple(_pools(regions, bands, facts, gaps))
    return Parsed(pools, tuple(gaps[:50]), tuple(sorted(clean(region, limit=40) for region in regions)))


def _bands(ranges: list[Any], gaps: list[str]) -> dict[int, Band]:
    bands: dict[int, Band] = {}
    for item in ranges:
        if not isinstance(item, dict) or not isinstance(item.get("index"), int):
            gaps.append("a range without an index")
            continue
        label = clean(item.get("label", ""), limit=32)
        try:
            bands[item["index"]] = Band(label, *band_edges(label))
        except ValueError:
            gaps.append(f"range {item['index']}: label {label!r} is not understood")
            bands[item["index"]] = Band(label or None, None, None)
    return bands


def _pools(
    regions: dict[str, Any], bands: dict[int, Band], facts: dict[str, Any], gaps: list[str]
) -> Iterator[AdvisorPool]:
    for region, systems in sorted(regions.items()):
        for system, name in SYSTEMS.items():
            rows = systems.get(name) if isinstance(systems, dict) else None
            if rows is None:
                gaps.append(f"{clean(region, limit=40)}: no {name} figures")
                continue
            for kind, row in sorted(rows.items()) if isinstance(rows, dict) else ():
                pool = _row(region, system, kind, row, bands, facts.get(kind))
                if pool is None:
                    gaps.append(f"{clean(region, limit=40)}/{clean(kind, limit=40)}: a row without figures")
                else:
                    yield pool


def _number(value: Any) -> float | None:
    """A number, or a number written as text; None for anything else."""
    if isinstance(value, str) and len(value) < 16:
        try:
            value = float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _row(
    region: str, system: str, kind: str, row: Any, bands: dict[int, Band], fact: Any
) -> AdvisorPool | None:
    if not isinstance(row, dict):
        return None
    notes: list[str] = []
    index, saving = _number(row.get("r")), _number(row.get("s"))
    if index is None or index not in bands:
        notes.append("no band in the feed" if index is None else f"band index {index:g} is not in ranges")
    band = Band(None, None, None) if index is None else bands.get(int(index), Band(None, None, None))
    if saving is None or saving == 0:
        notes.append(
            "no saving in the feed" if saving is None else "a saving of 0 means that no price is known"
        )
        saving = None
    elif not -1000 < saving < 100:
        notes.append(f"a saving of {saving:g} per cent is not possible")
        saving = None
    elif saving < 0:
        notes.append("negative saving: spot is dearer than on-demand")
    about = fact if isinstance(fact, dict) else {}
    cores = _number(about.get("cores"))
    return AdvisorPool(
        clean(region, limit=40),
        system,
        clean(kind, limit=40),
        band,
        None if saving is None else saving / 100.0,
        None if cores is None else int(cores),
        _number(about.get("ram_gb")),
        tuple(notes),
    )


def why_missing(feed: Feed, region: str, system: str) -> str:
    """Why a pool is not in the feed: the region is unknown, has no figures, or lacks the type."""
    if region not in feed.regions:
        return f"unknown region {clean(region, limit=40)!r}"
    if not any(pool.region == region and pool.system == system for pool in feed.pools):
        return f"no data for region {clean(region, limit=40)!r}"
    return "the type is not offered there, as far as the feed knows"


def select(
    pools: tuple[AdvisorPool, ...], *, region: str | None, instance: str | None, system: str
) -> tuple[AdvisorPool, ...]:
    """The pools of a region and an instance glob, one system only."""
    return tuple(
        pool
        for pool in pools
        if pool.system == system
        and (region is None or pool.region == region)
        and (instance is None or fnmatch.fnmatchcase(pool.instance_type, instance))
    )
