"""Prices of pools as data, whoever told them: what costs how much where, since when, and by whose word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["spot", "on_demand"]


@dataclass(frozen=True)
class Price:
    """One price of one instance type in one place."""

    provider: str
    region: str
    instance_type: str
    system: str  # linux | windows
    kind: Kind
    usd_per_hour: float  # more than 0: a price that is not known is no row
    zone: str = ""  # empty: the whole region
    since: str | None = None  # RFC 3339: when the provider set it; None: not told
    source: str = ""  # which API or file
    basis: str = ""  # what kind of figure it is, in words


def newest(prices: Iterable[Price]) -> tuple[Price, ...]:
    """One price per place, type, system and kind: the one set last. Rows that say the same under two names count once."""
    found: dict[tuple[str, ...], Price] = {}
    for price in prices:
        key = (price.provider, price.region, price.zone, price.instance_type, price.system, price.kind)
        before = found.get(key)
        if before is None or (price.since or "") >= (before.since or ""):
            found[key] = price
    return tuple(
        sorted(
            found.values(), key=lambda row: (row.region, row.instance_type, row.system, row.kind, row.zone)
        )
    )


@dataclass(frozen=True)
class PoolPrices:
    """Spot and on-demand price of one pool; the spot price is that of its cheapest zone. None: not known, never 0."""

    spot: Price | None = None
    on_demand: Price | None = None

    @property
    def discount(self) -> float | None:
        """The discount d = 1 − spot/on-demand; negative where spot is dearer; None unless both are known."""
        if self.spot is None or self.on_demand is None:
            return None
        return 1.0 - self.spot.usd_per_hour / self.on_demand.usd_per_hour


def by_pool(prices: Iterable[Price]) -> dict[str, PoolPrices]:
    """Prices by pool id `provider/region/type/system`."""
    found: dict[str, PoolPrices] = {}
    for price in prices:
        pool = f"{price.provider}/{price.region}/{price.instance_type}/{price.system}"
        before = found.get(pool, PoolPrices())
        if price.kind == "on_demand":
            found[pool] = PoolPrices(before.spot, price)
        elif before.spot is None or price.usd_per_hour < before.spot.usd_per_hour:
            found[pool] = PoolPrices(price, before.on_demand)
    return found


def status(prices: PoolPrices, *, region_known: bool = True) -> str:
    """`ok`, or what is missing for a discount; a price that is not known is never taken for 0."""
    if not region_known:
        return "unknown region"
    if prices.on_demand is None:
        return "no on-demand price"
    return "no spot price" if prices.spot is None else "ok"
