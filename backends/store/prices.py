"""List prices of keeping checkpoints, to hold a job's daily limit against; never a bill.

First tier of the standard class in one region of the United States, as comparisons of 2026 quote the providers; other
regions and classes differ by a third or so. A directory, or a server of one's own, has no list price: unknown, not 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

GB, GIB = 1e9, 1024.0**3
MONTH_DAYS = 730.0 / 24.0
_USD_PER_GB_MONTH = {"s3": 0.023, "gs": 0.020, "az": 0.018}
_USD_PER_WRITE = 0.005 / 1000
WRITES_A_SAVE = 20  # small objects and listings beside the packs (docs/stores.md)


@dataclass(frozen=True)
class StorePrice:
    """USD for a GiB kept for a day, and for the requests of one save."""

    usd_per_gib_day: float
    usd_per_save: float


def list_price(url: str) -> StorePrice | None:
    """The list price of the store at `url`; None where there is none."""
    parts = urlsplit(url)
    gb_month = _USD_PER_GB_MONTH.get(parts.scheme)
    if gb_month is None or parse_qs(parts.query).get("endpoint"):
        return None
    return StorePrice(gb_month * GIB / GB / MONTH_DAYS, WRITES_A_SAVE * _USD_PER_WRITE)
