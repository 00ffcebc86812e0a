"""Prices of Google's machine types from its public price list: cores, memory and GPUs, summed. Pure, but for the two askers below.

Sources: Cloud Billing API (services.skus.list of Compute Engine), Compute Engine (machineTypes.get). A type whose parts are not each
found exactly once has no price: nothing is guessed. Local disks that come with a type are listed apart and not in the sum.
"""

from __future__ import annotations

import math
import os
import re
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.clouds.gcp.api import Api, zones_of
from backends.clouds.gcp.tokens import Tokens
from backends.clouds.http import NotFoundError, ask, secure
from backends.clouds.prices import Kind, Price
from backends.errors import DamagedError, UsageError

DEFAULT_URL = "https://cloudbilling.googleapis.com"
ENDPOINT_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING"  # gcloud's own
KEY_VARIABLE = "GOOGLE_API_KEY"
SCOPE = "https://www.googleapis.com/auth/cloud-billing.readonly"
SERVICE = "services/6F81-5844-456A"  # Compute Engine
BASIS = "list price: cores, memory and GPUs summed, local disks left out"
SOURCE = "cloudbilling.googleapis.com"
PAGES_LIMIT = 200
# How the price list calls the families whose machine types say it otherwise.
_FAMILIES = {"a3-megagpu": "A3Plus", "a3-ultragpu": "A3Ultra"}
_OTHERS = ("custom", "sole tenancy", "commitment", "reserved", "dws", "calendar", "extended", "premium")
_MODEL = re.compile(r"\b(?:nvidia )?([a-z0-9 ]+?) gpu\b")


@dataclass(frozen=True)
class Shape:
    """What a machine type is made of."""

    kind: str
    cores: int
    ram_gib: float
    gpu: tuple[str, int] | None = None  # as Compute Engine names it: nvidia-h100-80gb, 8


def shape_of(document: dict[str, Any]) -> Shape | None:
    """Of an answer to machineTypes.get; None where cores or memory are not told."""
    cores, memory, name = document.get("guestCpus"), document.get("memoryMb"), document.get("name")
    if type(cores) is not int or type(memory) is not int or not isinstance(name, str):
        return None
    rows = document.get("accelerators")
    first = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
    count, device = first.get("guestAcceleratorCount"), first.get("guestAcceleratorType")
    gpu = (device, count) if isinstance(device, str) and type(count) is int and count > 0 else None
    return Shape(clean(name, limit=60), cores, memory / 1024, gpu)


def prices_of(shape: Shape, region: str, skus: Sequence[dict[str, Any]], system: str) -> Iterator[Price]:
    """Spot and on-demand price of a type in a region, each where all its parts are priced."""
    if system != "linux":  # a licence comes on top, by another rule
        return
    kinds: tuple[tuple[Kind, str], ...] = (("spot", "Preemptible"), ("on_demand", "OnDemand"))
    for kind, usage in kinds:
        here = [sku for sku in skus if _here(sku, region, usage)]
        parts = [(shape.cores, _only(sku for sku in here if _of_family(sku, shape.kind, "core"))),
                 (shape.ram_gib, _only(sku for sku in here if _of_family(sku, shape.kind, "ram")))]  # fmt: skip
        if shape.gpu is not None:
            parts.append((shape.gpu[1], _only(sku for sku in here if _is_gpu(sku, shape.gpu[0]))))
        found = [(amount, each) for amount, each in parts if each is not None]
        if len(found) != len(parts):
            continue
        since = max((each[1] for _, each in found), default="")
        usd = sum(amount * each[0] for amount, each in found)
        yield Price(
            "gcp", region, shape.kind, system, kind, usd, since=since or None, source=SOURCE, basis=BASIS
        )


def _here(sku: dict[str, Any], region: str, usage: str) -> bool:
    category, regions = sku.get("category"), sku.get("serviceRegions")
    text = str(sku.get("description", "")).lower()
    return (
        isinstance(category, dict)
        and category.get("usageType") == usage
        and category.get("resourceFamily") == "Compute"
        and isinstance(regions, list)
        and region in regions
        and not any(word in text for word in _OTHERS)
    )


def _of_family(sku: dict[str, Any], kind: str, part: str) -> bool:
    head = "-".join(kind.split("-")[:2])
    family = _FAMILIES.get(head, kind.partition("-")[0]).lower()
    text = str(sku.get("description", "")).lower()
    return re.search(rf"\b{re.escape(family)} (?:amd |arm |predefined )?instance {part}\b", text) is not None


def _is_gpu(sku: dict[str, Any], device: str) -> bool:
    text = str(sku.get("description", "")).lower()
    told = _MODEL.search(text)
    words = {"plus" if word == "mega" else word for word in device.lower().split("-")} - {"nvidia", "tesla"}
    return told is not None and set(told.group(1).split()) - {"nvidia", "tesla"} == words


def _only(skus: Iterable[dict[str, Any]]) -> tuple[float, str] | None:
    """USD an hour of one unit, and since when, where all that match say the same; None otherwise."""
    found = {each for each in (_unit(sku) for sku in skus) if each is not None}
    return next(iter(found)) if len({usd for usd, _ in found}) == 1 else None


def _unit(sku: dict[str, Any]) -> tuple[float, str] | None:
    rows = sku.get("pricingInfo")
    newest = rows[-1] if isinstance(rows, list) and rows and isinstance(rows[-1], dict) else {}
    expression = newest.get("pricingExpression")
    if not isinstance(expression, dict) or expression.get("usageUnit") not in ("h", "GiBy.h"):
        return None
    tiers = expression.get("tieredRates")
    last = tiers[-1] if isinstance(tiers, list) and tiers and isinstance(tiers[-1], dict) else {}
    told = last.get("unitPrice")
    if not isinstance(told, dict) or told.get("currencyCode") != "USD":
        return None
    usd = money(told)
    return None if usd is None or not usd > 0 else (usd, clean(newest.get("effectiveTime", ""), limit=40))


def money(told: dict[str, Any]) -> float | None:
    """Units and billionths as USD; None for anything else."""
    units, nanos = str(told.get("units") or 0), told.get("nanos") or 0
    if not re.fullmatch(r"[0-9]{1,9}", units) or type(nanos) is not int or not 0 <= nanos < 1_000_000_000:
        return None
    value = int(units) + nanos / 1e9
    return value if math.isfinite(value) else None


def skus(url: str | None, clock: Clock) -> list[dict[str, Any]]:
    """The whole price list of Compute Engine, page by page; an API key, else a token of one's credentials.

    Raises:
        UsageError: the address is no https address. CredentialsError, UnreachableError, DamagedError: as `http.ask`.
    """
    if url is not None and not url.startswith(("https://", "http://127.0.0.1:")):
        raise UsageError(f"{clean(url, limit=80)!r}: an https address is expected: a key is sent there")
    base = url.rstrip("/") if url is not None else secure(ENDPOINT_VARIABLE, DEFAULT_URL)
    key = os.environ.get(KEY_VARIABLE, "").strip()
    headers = {"X-Goog-Api-Key": key} if key else {"Authorization": f"Bearer {Tokens(clock, SCOPE).token()}"}
    found: list[dict[str, Any]] = []
    page, seen = "", set[str]()
    while True:
        query = urllib.parse.urlencode({"pageSize": "5000", **({"pageToken": page} if page else {})})
        request = urllib.request.Request(f"{base}/v1/{SERVICE}/skus?{query}", headers=headers)  # noqa: S310 - checked above
        hint = f"set {KEY_VARIABLE}, or log in with the scope cloud-billing.readonly"
        answer = ask(request, "Google Cloud prices", denied_hint=hint, wall=clock.wall)
        rows = answer.get("skus")
        found += [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        page = str(answer.get("nextPageToken") or "")
        if not page:
            return found
        if page in seen or len(seen) >= PAGES_LIMIT:
            raise DamagedError("Google Cloud prices: the pages have no end")
        seen.add(page)


def list_prices(
    url: str | None, project: str, region: str, types: Sequence[str], system: str, clock: Clock
) -> tuple[Price, ...]:
    """Spot and on-demand prices of `types` in `region`; a type that is not there, or has a part without a price, has none."""
    api = Api(clock)
    api.check_region(project, region)
    zones = zones_of(api, project, region)
    shapes = [shape for kind in types if (shape := _shape(api, project, zones, kind)) is not None]
    rows = skus(url, clock) if shapes else []
    return tuple(price for shape in shapes for price in prices_of(shape, region, rows, system))


def _shape(api: Api, project: str, zones: Sequence[str], kind: str) -> Shape | None:
    if not re.fullmatch(r"[a-z][a-z0-9-]{1,61}", kind):
        raise UsageError(f"{clean(kind, limit=60)!r}: no name of a machine type")
    for zone in zones:
        try:
            return shape_of(api.get(f"projects/{project}/zones/{zone}/machineTypes/{kind}"))
        except NotFoundError:
            continue
    return None
