"""On-demand prices from a CSV file: `region,instance_type,usd_per_hour` and maybe `os` (linux when absent).

Further columns are left alone. A row without a price is a gap, not a price of 0.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

from backends.clean import clean
from backends.errors import UsageError

LIMIT_BYTES = 64 * 1024 * 1024
_NEEDED = ("region", "instance_type", "usd_per_hour")

Prices = dict[tuple[str, str, str], float]  # (region, instance type, os) → USD per hour


def read_prices(path: Path) -> Prices:
    """The prices of a file.

    Raises:
        UsageError: the file cannot be read, lacks a column, or holds a price that is no positive number; the message
            names file and line.
    """
    shown = clean(path)
    try:
        if path.stat().st_size > LIMIT_BYTES:
            raise UsageError(f"prices {shown}: larger than {LIMIT_BYTES} bytes")
        with path.open(encoding="utf-8-sig", newline="") as stream:
            return _rows(csv.DictReader(stream), shown)
    except OSError as error:
        raise UsageError(f"prices {shown}: cannot be read ({clean(error.strerror)})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"prices {shown}: not CSV in UTF-8 ({clean(error, limit=80)})") from None


def _rows(reader: csv.DictReader[str], shown: str) -> Prices:
    columns = reader.fieldnames or ()
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise UsageError(
            f"prices {shown}: column {missing[0]!r} is missing; the first line names the columns {', '.join(_NEEDED)}"
        )
    prices: Prices = {}
    for row in reader:
        text = (row["usd_per_hour"] or "").strip()
        if not text:
            continue  # no price known
        try:
            price = float(text)
        except ValueError:
            price = math.nan
        if not 0 < price < math.inf:
            raise UsageError(
                f"prices {shown}:{reader.line_num}: usd_per_hour is {clean(text, limit=40)!r}; more than 0 is expected"
            )
        system = (row.get("os") or "linux").strip().lower()
        key = ((row["region"] or "").strip(), (row["instance_type"] or "").strip(), system)
        if not all(key):
            raise UsageError(f"prices {shown}:{reader.line_num}: a region and an instance type are expected")
        if prices.setdefault(key, price) != price:
            raise UsageError(
                f"prices {shown}:{reader.line_num}: {clean(' '.join(key), limit=80)} has two prices, "
                f"{prices[key]:g} and {price:g}"
            )
    return prices
