"""Azure as a witness (does this node's virtual machine live?) and its running machines by tag. What cannot be asked is `unknown`.

Source: REST reference of Microsoft.Compute (virtual machines: get with the instance view, list by subscription).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backends.clock import Clock, format_utc
from backends.clouds.azure.api import COMPUTE, NETWORK, Api
from backends.clouds.azure.machines import INSTANCE, addresses_of, found_of, tags_of, verdict
from backends.clouds.http import NotFoundError
from backends.clouds.port import Found, InstanceState, Replacement
from backends.errors import ReprieveError
from backends.records.node import Node

SOURCE = "azure/virtualMachines.get"


class AzureCloud:
    """Asks Azure's resource manager; see `port.Cloud`."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._api = clock, Api(clock)

    def instance(self, node: Node) -> InstanceState:
        """What Azure says of this node's machine; never raises."""
        asked = format_utc(self._clock.wall())
        match = INSTANCE.fullmatch(node.instance or "")
        if match is None:
            reason = (
                f"node {node.name} has no instance of the form /subscriptions/…/virtualMachines/NAME#VMID"
            )
            return InstanceState("unknown", reason, asked, SOURCE)
        path, number = match.groups()
        try:
            document = self._api.get(f"{path}?$expand=instanceView&api-version={COMPUTE}")
            state, reason = verdict(document, number)
        except NotFoundError:
            reason = (
                "Azure knows no such machine for these credentials (404): deleted, moved to another resource group, or out "
                "of their sight"
            )
            return InstanceState("unknown", reason, asked, SOURCE)
        except ReprieveError as error:
            return InstanceState("unknown", error.message, asked, SOURCE)
        return InstanceState(state, reason, asked, SOURCE)

    def replace(self, pool: str, token: str) -> Replacement:
        """Nothing is rented in this version."""
        return Replacement(token, "failed", reason=f"renting on Azure is not in this version ({pool})")

    def running(self, region: str, tags: Sequence[tuple[str, str]]) -> tuple[Found, ...]:
        """The running machines of `region` in the subscription that have all `tags`.

        Raises:
            UnreachableError: no answer, or Azure has no such region. CredentialsError: refused, or no subscription is known.
            DamagedError: a list has no end or makes no sense.
        """
        subscription = self._api.subscription()
        self._api.check_region(subscription, region)
        wanted = dict(tags)
        found = machines(self._api, subscription, region, lambda has: wanted.items() <= has.items())
        return tuple(each for each in found if each.state == "running" and not each.pending)


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
