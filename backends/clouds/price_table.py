"""Spot and on-demand prices of any provider from a CSV table, maybe gzipped: for providers we cannot ask, and offline.

Columns by the first line, under any of their usual names; others are left alone. An empty price is a gap, never 0.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import PurePath

from backends.clean import clean
from backends.clouds.prices import Kind, Price, newest
from backends.errors import UsageError

NAMES: dict[str, tuple[str, ...]] = {
    "region": ("region",),
    "instance_type": ("instance_type", "machine_type", "instancetype"),
    "spot": ("spot_usd_per_hour", "spot_usd_h", "spotprice", "preemptibleprice"),
    "on_demand": ("on_demand_usd_per_hour", "on_demand_usd_h", "ondemandprice"),
    "date": ("date",),
    "os": ("os",),
}
NEEDED = ("region", "instance_type", "spot", "on_demand")


def read_table(data: bytes, shown: str, provider: str, system: str) -> tuple[Price, ...]:
    """The prices in a table; of rows for the same place and type the one with the newest date counts.

    Args:
        data: the file's bytes, unpacked.
        shown: the file's name, for messages and as the source.
        provider: whose prices they are.
        system: linux or windows; rows of another `os` are left out, rows without one are of this system.

    Raises:
        UsageError: a column is missing, a price is no positive number, or it is no CSV; file and line are named.
    """
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        columns = _columns(reader.fieldnames or (), shown)
        return newest(_prices(reader, columns, shown, provider, system))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"prices {shown}: not CSV in UTF-8 ({clean(error, limit=80)})") from None


def _columns(found: object, shown: str) -> dict[str, str]:
    """Our name → the table's."""
    names = [str(name) for name in found] if isinstance(found, (list, tuple)) else []
    plain = {name.strip().lower(): name for name in names}
    columns = {ours: plain[theirs] for ours, usual in NAMES.items() for theirs in usual if theirs in plain}
    for needed in NEEDED:
        if needed not in columns:
            raise UsageError(
                f"prices {shown}: no column for {needed}; one of {', '.join(NAMES[needed])} is expected in the first line"
            )
    return columns


def _prices(
    reader: csv.DictReader[str], columns: dict[str, str], shown: str, provider: str, system: str
) -> Iterator[Price]:
    source = PurePath(shown).name
    for row in reader:
        told = {ours: (row.get(theirs) or "").strip() for ours, theirs in columns.items()}
        if (
            told.get("os", system).lower() not in ("", system)
            or not told["region"]
            or not told["instance_type"]
        ):
            continue
        kinds: tuple[Kind, ...] = ("spot", "on_demand")
        for kind in kinds:
            if not told[kind]:
                continue
            try:
                usd = float(told[kind])
            except ValueError:
                usd = math.nan
            if not 0 < usd < math.inf:
                raise UsageError(
                    f"prices {shown}:{reader.line_num}: {columns[kind]} is {clean(told[kind], limit=40)!r}; more than 0 is expected"
                )
            date = told.get("date", "")
            yield Price(
                provider,
                clean(told["region"], limit=60).replace("/", "-"),
                clean(told["instance_type"], limit=60).replace("/", "-"),
                system,
                kind,
                usd,
                since=f"{clean(date, limit=10)}T00:00:00Z" if len(date) == 10 else None,
                source=clean(source, limit=80),
                basis="table of the user",
            )
