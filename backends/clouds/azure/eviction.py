"""Azure's eviction rates: Resource Graph, table `SpotResources`, by a file or by plain HTTP with a token.

Source: "Use Azure Spot Virtual Machines" (azure-compute-docs): trailing 28 days; the portal reads the same figure as a chance per
hour. Nobody says which is right, so no rate follows from it unless the user chooses one.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from backends.clean import clean
from backends.clouds.figures import Figure
from backends.clouds.http import ask, read
from backends.errors import DamagedError, UsageError

DEFAULT_URL = "https://management.azure.com"
TOKEN_VARIABLE = "AZURE_ACCESS_TOKEN"  # as printed by `az account get-access-token`
BASIS = "share of spot machines evicted, trailing 28 days; the portal calls it a chance per hour"
QUERY = (
    "SpotResources | where type =~ 'microsoft.compute/skuspotevictionrate/location' "
    "| project skuName = tostring(sku.name), location, spotEvictionRate = tostring(properties.evictionRate)"
)
PAGES_LIMIT = 200


def parse(data: bytes, source: str) -> tuple[Figure, ...]:
    """The figures in an answer of Resource Graph, or in what `az graph query` prints; rows without one are left out.

    Raises:
        DamagedError: it is neither.
    """
    return tuple(_figures(read(data, "Azure eviction rates"), source))


def _figures(document: dict[str, Any], source: str) -> Iterator[Figure]:
    rows = document.get("data")
    if not isinstance(rows, list):
        raise DamagedError("Azure eviction rates: the answer has no list `data`")
    for row in rows:
        texts = (
            [row.get(name) for name in ("location", "skuName", "spotEvictionRate")]
            if isinstance(row, dict)
            else []
        )
        if len(texts) == 3 and all(isinstance(text, str) and text.strip() for text in texts):
            region, kind, label = (clean(text, limit=60).strip() for text in texts)
            yield Figure("azure", region.lower(), kind.lower(), label, source, BASIS)


def fetch(url: str, token: str) -> tuple[Figure, ...]:
    """All figures, page by page.

    Raises:
        UsageError: the address is not http(s), or the token holds characters that no token has.
        CredentialsError: the token is refused. UnreachableError: no answer. DamagedError: it makes no sense.
    """
    if not url.startswith(("https://", "http://127.0.0.1")):
        raise UsageError(f"{clean(url, limit=80)!r}: an https address is expected: a token is sent there")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"{TOKEN_VARIABLE} is no token; `az account get-access-token --query accessToken -o tsv` prints one"
        )
    found: list[Figure] = []
    skip, seen = "", set[str]()
    while True:
        document = _ask(url, token, skip)
        found += _figures(document, urllib.parse.urlsplit(url).netloc)
        following = document.get("$skipToken")
        if not isinstance(following, str) or not following:
            return tuple(found)
        if following in seen or len(seen) >= PAGES_LIMIT:
            raise DamagedError("Azure eviction rates: the pages have no end")
        seen.add(following)
        skip = following


def _ask(url: str, token: str, skip: str) -> dict[str, Any]:
    body = {"query": QUERY, **({"options": {"$skipToken": skip}} if skip else {})}
    request = urllib.request.Request(  # noqa: S310 - checked by fetch
        f"{url}/providers/Microsoft.ResourceGraph/resources?api-version=2021-03-01",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "User-Agent": "reprieve",
        },
        method="POST",
    )
    hint = "it lasts an hour: `az account get-access-token`"
    return ask(request, "Azure Resource Graph", denied_hint=hint)
