"""Azure as a witness (does this node's virtual machine live?) and as a lender. What cannot be asked is `unknown`, never gone.

Source: REST reference of Microsoft.Compute (virtual machines: get with the instance view, list by subscription, create, delete).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backends.clock import Clock, format_utc
from backends.clouds import recorded
from backends.clouds.azure import launch as records
from backends.clouds.azure import renting
from backends.clouds.azure.api import COMPUTE, NETWORK, Api
from backends.clouds.azure.launch import Launch
from backends.clouds.azure.listing import machines
from backends.clouds.azure.machines import INSTANCE, addresses_of, rows, table, tags_of, verdict
from backends.clouds.http import NotFoundError
from backends.clouds.lender import Lender
from backends.clouds.lending import FLEET_MARK
from backends.clouds.port import Found, InstanceState, Market, Owned, Replacement
from backends.errors import ReprieveError, UsageError
from backends.records.node import Node

SOURCE = "azure/virtualMachines.get"
KEPT = ("zones",)  # of a record taken again: what people may have added


class AzureCloud(Lender[Launch]):
    """Asks Azure's resource manager; see `port.Cloud`, `Renter`, `Launcher`, `Reaper`, `Terminator`."""

    provider, shown = "azure", "Azure"

    def __init__(self, clock: Clock, **words: Any) -> None:
        super().__init__(clock, **words)
        self._api = Api(clock)

    # -- a witness ------------------------------------------------------------------------------------------------

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

    def terminate(self, node: Node) -> None:
        """End the node's machine: deallocated, with its disks, unless this fleet made it; then it is deleted."""
        match = INSTANCE.fullmatch(node.instance or "")
        if match is None:
            raise UsageError(
                f"node {node.name}: an instance /subscriptions/…#VMID is needed to end its machine"
            )
        path, number = match.groups()
        document = self._api.get(f"{path}?api-version={COMPUTE}")
        if str(table(document.get("properties")).get("vmId", "")).lower() != number.lower():
            return  # another machine has its name: this one is gone
        if tags_of(document).get(FLEET_MARK):
            renting.delete(self._api, node.instance or "")
        else:
            self._api.change("POST", f"{path}/deallocate?api-version={COMPUTE}")

    # -- a lender -------------------------------------------------------------------------------------------------

    def rent(self, pool: str, token: str, *, market: Market, max_usd: float) -> Replacement:
        """As `port.Renter.rent`; `failed` too where the pool is not launchable, its price unknown or over `max_usd`."""
        refusal = self.launchable(pool)
        if refusal:
            return Replacement(token, "failed", reason=f"not_launchable: {refusal}")
        wanted = self._wanted(pool, self._launch(pool), token, market)
        return renting.rent(
            self._api, wanted, lambda each: self._price_of(each, market), max_usd, self._clock
        )

    def cancel(self, token: str) -> None:
        """Delete what came of this request, in every place of a launch record."""
        places = {(launch.subscription, self._parts(pool)[0]) for pool, launch in self._recorded().items()}
        for subscription, region in sorted(places):
            for each in renting.of_token(self._api, subscription, region, token):
                renting.delete(self._api, each.instance)

    def request(self, pool: str, token: str, *, market: Market) -> dict[str, Any]:
        """The exact call of the first place; the others differ in name, type and zone."""
        wanted = self._wanted(pool, self._launch(pool), token, market)
        place = records.places(wanted.launch, wanted.kind)[0]
        name = records.name_of(token, place, 0)
        path = f"{records.path_of(wanted.launch, name)}?api-version={COMPUTE}"
        return {"call": f"PUT {path}", "region": wanted.region, "parameters": wanted.body(place, name)}

    def record(self, node: Node) -> dict[str, Any]:
        """The launch record of this node's machine, joined with what only people know of the pool's; not tested yet."""
        match = INSTANCE.fullmatch(node.instance or "")
        if match is None or node.pool is None:
            raise UsageError(f"node {node.name}: a pool and an instance id are needed for a launch record")
        document = self._api.get(f"{match.group(1)}?api-version={COMPUTE}")
        cards = rows(table(table(document.get("properties")).get("networkProfile")).get("networkInterfaces"))
        if not cards or not str(cards[0].get("id", "")).startswith("/subscriptions/"):
            raise UsageError(f"machine of {node.name}: Azure names no network interface for it")
        card = self._api.get(f"{cards[0]['id']}?api-version={NETWORK}")
        subscription = match.group(1).split("/")[2]
        publics = list(
            self._api.pages(
                f"/subscriptions/{subscription}/providers/Microsoft.Network/publicIPAddresses?api-version={NETWORK}"
            )
        )
        public, private = addresses_of([card], publics).get(match.group(1).lower(), (None, None))
        new = records.taken(document, card, public=public is not None)
        new = recorded.replaced(new, recorded.way_in(node.ssh, node.identity_file, public, private))
        before = self._launches().get(node.pool)
        old = None if before is None else self._read(node.pool, before)
        return recorded.write(recorded.merged(old, new, KEPT))

    def test(self, pool: str, table: Mapping[str, Any] | None = None) -> str:
        """Let Azure validate the pool's record, or `table` in its place; when it passed. Raises what Azure says against it."""
        launch = self._launch(pool) if table is None else self._read(pool, table)
        renting.trial(self._api, self._wanted(pool, launch, "trial", "spot"))
        return format_utc(self._clock.wall())

    # -- what it created ------------------------------------------------------------------------------------------

    def owned(self, region: str) -> tuple[Owned, ...]:
        """Everything of this fleet in `region` that still exists, in each subscription of a record."""
        known = {launch.subscription for launch in self._recorded().values()} or {self._api.subscription()}
        return tuple(
            thing for each in sorted(known) for thing in renting.owned(self._api, each, region, self._fleet())
        )

    def remove(self, thing: Owned) -> None:
        """Remove it, if it still carries the mark."""
        renting.remove(self._api, thing, self._fleet())

    def _read(self, pool: str, table: Mapping[str, Any]) -> Launch:
        return records.read(pool, table)

    def _wanted(self, pool: str, launch: Launch, token: str, market: Market) -> renting.Wanted:
        region, kind = self._parts(pool)
        return renting.Wanted(pool, region, kind, launch, token, market, self._fleet())
