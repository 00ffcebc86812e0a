"""AWS prices: the spot price history (a row is a change) and the on-demand list.

Calls: EC2 DescribeSpotPriceHistory; Price List GetProducts, whose rows are JSON texts and which answers in a few
regions only, for all of them.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.clouds.aws.calls import client, explained, pages
from backends.clouds.prices import Price, newest

PRICING_REGION = "us-east-1"
HISTORY_S = 3600.0  # the prices in force and the last hour's changes
_PRODUCTS = {
    "linux": ("Linux/UNIX", "Linux/UNIX (Amazon VPC)"),
    "windows": ("Windows", "Windows (Amazon VPC)"),
}
_SYSTEM_OF = {name: system for system, names in _PRODUCTS.items() for name in names}
_OPERATING = {"linux": "Linux", "windows": "Windows"}


def spot_prices(region: str, types: Sequence[str], system: str, clock: Clock) -> tuple[Price, ...]:
    """The spot price in force in each zone of `region`.

    Args:
        region: such as us-east-1.
        types: instance types; empty: all.
        system: linux or windows.
        clock: for the start of the history.

    Raises:
        UsageError, CredentialsError, UnreachableError: the call failed.
        DamagedError: its pages have no end.
    """
    ec2 = client("ec2", region)
    start = datetime.datetime.fromtimestamp(clock.wall() - HISTORY_S, datetime.UTC)
    wanted: dict[str, Any] = {"ProductDescriptions": list(_PRODUCTS[system]), "StartTime": start}
    if types:
        wanted["InstanceTypes"] = list(types)

    def ask(more: dict[str, str]) -> dict[str, Any]:
        with explained("spot price history", region):
            answer: dict[str, Any] = ec2.describe_spot_price_history(**wanted, **more)
            return answer

    rows = (
        row
        for page in pages(ask, f"spot price history of {region}")
        for row in page.get("SpotPriceHistory", [])
    )
    return newest(_spot(region, rows))


def _spot(region: str, rows: Iterator[dict[str, Any]]) -> Iterator[Price]:
    for row in rows:
        usd, system = positive(row.get("SpotPrice")), _SYSTEM_OF.get(str(row.get("ProductDescription")))
        if usd is None or system is None:
            continue
        yield Price(
            "aws",
            region,
            clean(row.get("InstanceType", ""), limit=40),
            system,
            "spot",
            usd,
            zone=clean(row.get("AvailabilityZone", ""), limit=40),
            since=_since(row.get("Timestamp")),
            source="ec2:DescribeSpotPriceHistory",
            basis="price in force since its last change",
        )


def _since(value: object) -> str | None:
    if isinstance(value, datetime.datetime):
        return format_utc(value.timestamp())
    return clean(value, limit=40) if isinstance(value, str) else None


def on_demand_prices(region: str, types: Sequence[str], system: str) -> tuple[Price, ...]:
    """On-demand prices of `types` in `region`: shared tenancy, nothing pre-installed. A type without one is left out.

    Raises:
        UsageError, CredentialsError, UnreachableError: the call failed.
        DamagedError: its pages have no end.
    """
    pricing = client("pricing", PRICING_REGION)
    found: list[Price] = []
    for kind in types:
        filters = {
            "instanceType": kind, "regionCode": region, "operatingSystem": _OPERATING[system], "tenancy": "Shared",
            "preInstalledSw": "NA", "capacitystatus": "Used",
        }  # fmt: skip
        asked = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in filters.items()]

        def ask(more: dict[str, str], asked: list[dict[str, str]] = asked) -> dict[str, Any]:
            with explained("price list", PRICING_REGION):
                answer: dict[str, Any] = pricing.get_products(ServiceCode="AmazonEC2", Filters=asked, **more)
                return answer

        texts = [
            text for page in pages(ask, f"price list of {clean(kind)}") for text in page.get("PriceList", [])
        ]
        usd = next((price for price in map(_hourly, texts) if price is not None), None)
        if usd is not None:
            found.append(
                Price("aws", region, kind, system, "on_demand", usd, source="pricing:GetProducts",
                      basis="list price, shared tenancy")
            )  # fmt: skip
    return tuple(found)


def _hourly(text: object) -> float | None:
    """USD an hour in one row of the price list; None when it tells none."""
    try:
        row: Any = json.loads(text) if isinstance(text, str) else text
        for term in row["terms"]["OnDemand"].values():
            for dimension in term["priceDimensions"].values():
                usd = positive(dimension["pricePerUnit"]["USD"])
                if usd is not None and dimension.get("unit", "Hrs") == "Hrs":
                    return usd
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def positive(value: object) -> float | None:
    """A price; None for what is none: an empty text, 0, a word."""
    try:
        usd = (
            float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else math.nan
        )
    except ValueError:
        return None
    return usd if 0 < usd < math.inf else None
