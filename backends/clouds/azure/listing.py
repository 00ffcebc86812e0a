"""Machines of a region of Azure by their tags, each with power state and addresses."""

from __future__ import annotations

from collections.abc import Callable

from backends.clouds.azure.api import COMPUTE, NETWORK, Api
from backends.clouds.azure.machines import INSTANCE, addresses_of, found_of, tags_of
from backends.clouds.http import NotFoundError
from backends.clouds.port import Found


def machines(
    api: Api, subscription: str, region: str, fits: Callable[[dict[str, str]], bool]
) -> tuple[Found, ...]:
    """The machines of `region` whose tags fit, each looked at by itself: the list tells no power state.

    One that goes between the list and the look is left out.
    """
    base = f"/subscriptions/{subscription}/providers"
    paths = [
        str(row["id"])
        for row in api.pages(f"{base}/Microsoft.Compute/virtualMachines?api-version={COMPUTE}")
        if str(row.get("location", "")).lower() == region.lower()
        and isinstance(row.get("id"), str)
        and fits(tags_of(row))
    ]
    if not paths:
        return ()
    cards = list(api.pages(f"{base}/Microsoft.Network/networkInterfaces?api-version={NETWORK}"))
    publics = list(api.pages(f"{base}/Microsoft.Network/publicIPAddresses?api-version={NETWORK}"))
    addresses = addresses_of(cards, publics)
    found = []
    for path in paths:
        if not INSTANCE.fullmatch(f"{path}#{'0' * 36}"):
            continue  # no path of a machine: nothing is asked for there
        try:
            found.append(found_of(api.get(f"{path}?$expand=instanceView&api-version={COMPUTE}"), addresses))
        except NotFoundError:
            continue
    return tuple(found)
