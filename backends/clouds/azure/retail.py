"""Azure's public retail prices: plain HTTP, in pages, no credentials.

Source: "Azure Retail Prices overview" (learn.microsoft.com). Values of the filter are case-sensitive; spot rows are told by
`Spot` in the SKU's name, Windows rows by the product's name; Low Priority and reservations are other products.
"""

from __future__ import annotations

import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

from backends.clean import clean
from backends.clouds.http import ask
from backends.clouds.prices import Price, newest
from backends.errors import DamagedError, UsageError

DEFAULT_URL = "https://prices.azure.com/api/retail/prices"
PAGES_LIMIT = 200


def retail_prices(url: str, region: str, types: Sequence[str], system: str) -> tuple[Price, ...]:
    """Spot and on-demand prices of `types` (`Standard_NC24ads_A100_v4`) in `region` (`eastus`).

    Raises:
        UsageError: the address is not http(s), or a name holds a quote.
        UnreachableError: no answer, or one that says no.
        DamagedError: an answer is no price page, or pages have no end or lead elsewhere.
    """
    found: list[Price] = []
    for kind in types:
        if "'" in kind or "'" in region:
            raise UsageError(
                f"{clean(kind, limit=60)!r} in {clean(region, limit=60)!r}: no name of a type or a region"
            )
        wanted = (
            f"serviceName eq 'Virtual Machines' and armRegionName eq '{region}' and armSkuName eq '{kind}' "
            "and priceType eq 'Consumption'"
        )
        rows = _items(f"{url}?{urllib.parse.urlencode({'$filter': wanted})}")
        found += [
            price for price in (_price(row, region, kind) for row in rows) if price and price.system == system
        ]
    return newest(found)


def _items(first: str) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    address: str | None = first
    host = urllib.parse.urlsplit(first).netloc
    while address:
        if address in seen or len(seen) >= PAGES_LIMIT:
            raise DamagedError("Azure retail prices: the pages have no end")
        if urllib.parse.urlsplit(address).netloc != host:
            raise DamagedError(
                f"Azure retail prices: a page leads to {clean(address, limit=80)}; not followed"
            )
        seen.add(address)
        page = _page(address)
        rows = page.get("Items")
        if not isinstance(rows, list):
            raise DamagedError("Azure retail prices: the answer has no list `Items`")
        yield from (row for row in rows if isinstance(row, dict))
        following = page.get("NextPageLink")
        address = following if isinstance(following, str) and following else None


def _page(address: str) -> dict[str, Any]:
    if not address.startswith(("http://", "https://")):
        raise UsageError(f"{clean(address, limit=80)!r}: an http(s) address is expected")
    request = urllib.request.Request(address, headers={"User-Agent": "reprieve"})  # noqa: S310 - checked above
    return ask(request, "Azure retail prices")


def _price(row: dict[str, Any], region: str, kind: str) -> Price | None:
    """One row; None for one that is no hourly USD price of this type, or of another product."""
    usd, names = row.get("retailPrice"), f"{row.get('skuName')} {row.get('meterName')}"
    right = (
        row.get("armSkuName") == kind
        and row.get("armRegionName") == region
        and row.get("currencyCode") == "USD"
    )
    if (
        not right
        or row.get("unitOfMeasure") != "1 Hour"
        or row.get("type") != "Consumption"
        or "Low Priority" in names
    ):
        return None
    if isinstance(usd, bool) or not isinstance(usd, (int, float)) or not usd > 0:
        return None
    since = row.get("effectiveStartDate")
    return Price(
        "azure",
        region,
        kind,
        "windows" if "Windows" in str(row.get("productName")) else "linux",
        "spot" if "Spot" in names else "on_demand",
        float(usd),
        since=clean(since, limit=40) if isinstance(since, str) else None,
        source="prices.azure.com",
        basis="retail list price",
    )
