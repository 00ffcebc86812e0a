"""Google's preemption history of a machine type: `advice.capacityHistory`, the last 30 days, per zone.

Source: REST reference of compute v1. A day's figure is the share of preempted ones among all Spot VMs that ended that day: ends by
their users count below the line, so it is no share of running machines, and no rate follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.clouds.figures import Figure
from backends.clouds.gcp.api import Api, zones_of
from backends.clouds.http import NotFoundError, RefusedError

SOURCE = "compute.advice.capacityHistory"
BASIS = "share of preemptions among the Spot VMs that ended, mean of {days} days, lowest to highest zone; a share of ends, not of machines"


def request_of(kind: str, zone: str) -> dict[str, Any]:
    """The body that asks for one type in one zone."""
    return {
        "instanceProperties": {"machineType": kind, "scheduling": {"provisioningModel": "SPOT"}},
        "locationPolicy": {"location": f"zones/{zone}"},
        "types": ["PREEMPTION"],
    }


def mean_of(document: dict[str, Any]) -> tuple[float, int] | None:
    """Mean share and number of days of an answer; None where no day is told. A day without a figure is left out, it is not 0."""
    rows = document.get("preemptionHistory")
    told = (
        [row.get("preemptionRate") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    )
    shares = [
        float(each) for each in told
        if isinstance(each, (int, float)) and not isinstance(each, bool) and 0 <= each <= 1
    ]  # fmt: skip
    return (sum(shares) / len(shares), len(shares)) if shares else None


def figure_of(region: str, kind: str, zones: Sequence[tuple[float, int]]) -> Figure | None:
    """One figure of a type over its zones; None without any."""
    if not zones:
        return None
    low, high = (f"{100 * pick(share for share, _ in zones):.0f}" for pick in (min, max))
    label = f"{low} %" if low == high else f"{low}-{high} %"
    days = max(days for _, days in zones)
    return Figure("gcp", region, kind, label, SOURCE, BASIS.format(days=days))


def figures(project: str, region: str, types: Sequence[str], clock: Clock) -> tuple[Figure, ...]:
    """The figures of `types` in `region`; one that Google does not tell (N1 with GPUs, custom types) is left out.

    Raises:
        CredentialsError, UnreachableError, DamagedError: nobody can be asked, or there is no such region.
    """
    api = Api(clock)
    api.check_region(project, region)
    found = []
    for kind in types:
        told = []
        for zone in zones_of(api, project, region):
            try:
                path = f"projects/{project}/regions/{region}/advice/capacityHistory"
                mean = mean_of(api.change("POST", path, request_of(kind, zone)))
            except NotFoundError:
                continue
            except RefusedError as error:
                if error.status >= 500:
                    raise
                continue  # not of this zone, or not of this kind of machine
            told += [] if mean is None else [mean]
        figure = figure_of(region, clean(kind, limit=60), told)
        found += [] if figure is None else [figure]
    return tuple(found)
