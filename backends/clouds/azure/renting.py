"""Renting one machine on Azure: asked for once, found again by its mark, given up whole.

A machine's name follows from the request and the place, and creating it again is the same request; one that could not be made stays,
with the reason, until another place gave one or all were asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from backends.clean import clean
from backends.clock import Clock
from backends.clouds import lending
from backends.clouds.azure import launch as records
from backends.clouds.azure.api import COMPUTE, NETWORK, Api
from backends.clouds.azure.launch import Launch
from backends.clouds.azure.listing import machines
from backends.clouds.azure.machines import INSTANCE, NOT_MADE, found_of, table, tags_of
from backends.clouds.http import NotFoundError, RefusedError
from backends.clouds.lending import FLEET_MARK, TOKEN_MARK, Request, Usd, client_token, marks
from backends.clouds.port import Found, Market, Owned, Replacement
from backends.errors import UsageError

# What Azure says when this place has nothing for us now: told by the code alone, it comes as 409 or 400, or later.
SHORT = (
    "AllocationFailed", "ZonalAllocationFailed", "SkuNotAvailable", "OverconstrainedAllocationRequest",
    "OverconstrainedZonalAllocationRequest", "QuotaExceeded", "SpotPriceGreaterThanProvidedMaxPrice", "NotAvailableForSubscription",
)  # fmt: skip
_QUOTA = "OperationNotAllowed"  # with a text that names the quota
Leftover = Literal["volume", "card", "address"]
_DEPLOYMENTS = "2022-09-01"


@dataclass(frozen=True)
class Wanted:
    """One machine to rent."""

    pool: str
    region: str
    kind: str
    launch: Launch
    token: str
    market: Market
    fleet: str

    @property
    def mark(self) -> dict[str, str]:
        """The tags of what is created for it."""
        return marks(self.fleet, self.token, self.pool)

    @property
    def request(self) -> Request:
        """What is asked for, as any provider is asked."""
        kinds = dict.fromkeys((self.kind, *self.launch.types))
        pools = tuple(f"azure/{self.region}/{kind}/linux" for kind in kinds)
        return Request("azure", pools, self.token, self.market, self.launch)

    def body(self, place: tuple[str, str | None], name: str) -> dict[str, Any]:
        """The exact request at one place."""
        return records.create_request(
            self.launch, place, self.region, name=name, market=self.market, mark=self.mark
        )


def rent(api: Api, wanted: Wanted, usd: Usd, max_usd: float, clock: Clock) -> Replacement:
    """As `lending.rent`. Raises UsageError, CredentialsError, UnreachableError: asked again, it is the same request."""
    found = of_token(api, wanted.launch.subscription, wanted.region, wanted.token)
    failed = [each for each in found if each.reason.startswith(NOT_MADE)]
    known = [each for each in found if each not in failed]
    answer = lending.rent(
        wanted.request, known, lambda ended: _create(api, wanted, failed, ended), usd, max_usd, clock
    )
    if answer.state != "pending":  # a place gave one, or none did: what could not be made is no use any more
        for each in of_token(api, wanted.launch.subscription, wanted.region, wanted.token):
            if each.reason.startswith(NOT_MADE):
                delete(api, each.instance)
    return answer


def _create(api: Api, wanted: Wanted, failed: Iterable[Found], ended: int) -> Found:
    reasons = {each.name.lower(): each.reason.partition(": ")[2] for each in failed}
    said: dict[str, list[str]] = {}
    for place in records.places(wanted.launch, wanted.kind):
        name = records.name_of(wanted.token, place, ended)
        where = "/".join(part for part in place if part)
        if name in reasons:
            said.setdefault(reasons[name], []).append(where)
            continue
        path = f"{records.path_of(wanted.launch, name)}?api-version={COMPUTE}"
        try:
            made = api.change("PUT", path, wanted.body(place, name)).document
        except RefusedError as error:
            if not _short(error.code, error.text):
                raise _explained(error) from None
            said.setdefault(f"{error.code}: {error.text}", []).append(where)
            continue
        return found_of(made, {})
    raise lending.short_of(said)


def _short(code: str, text: str) -> bool:
    return code in SHORT or (code == _QUOTA and "quota" in text.lower())


def _explained(error: RefusedError) -> Exception:
    return UsageError(error.message) if 400 <= error.status < 429 else error


def of_token(api: Api, subscription: str, region: str, token: str) -> tuple[Found, ...]:
    """Every machine of this request, with why Azure could not make one where that is told."""
    mark = client_token(token)
    return machines(api, subscription, region, lambda tags: tags.get(TOKEN_MARK) == mark)


def trial(api: Api, wanted: Wanted) -> None:
    """Let Azure validate each place of the record without creating anything; UsageError is what it says against it."""
    group = f"/subscriptions/{wanted.launch.subscription}/resourceGroups/{wanted.launch.group}"
    for place in records.places(wanted.launch, wanted.kind):
        name = records.name_of("trial", place, 0)
        path = f"{group}/providers/Microsoft.Resources/deployments/{name}/validate?api-version={_DEPLOYMENTS}"
        try:
            told = api.change("POST", path, records.trial_request(wanted.body(place, name), name, COMPUTE))
        except RefusedError as error:
            raise _explained(error) from None
        wrong = table(told.document.get("error"))
        if wrong:
            text = f"{clean(wrong.get('code'), limit=80)}: {clean(wrong.get('message'), limit=200)}"
            raise UsageError(f"Azure would not make {'/'.join(p for p in place if p)}: {text}")


def delete(api: Api, instance: str) -> None:
    """Delete a machine with what was made with it; one that is gone is no error."""
    match = INSTANCE.fullmatch(instance)
    if match is None:
        raise UsageError(f"{clean(instance, limit=120)!r} is no machine of Azure")
    try:
        api.change("DELETE", f"{match.group(1)}?forceDeletion=true&api-version={COMPUTE}")
    except NotFoundError:
        return


def owned(api: Api, subscription: str, region: str, fleet: str) -> tuple[Owned, ...]:
    """Machines of `region` that carry the fleet's mark, and disks, cards and addresses that outlived theirs."""
    found = [
        Owned("instance", each.instance, region, each.pool, each.reason or each.state, each.launched_at,
              each.tags.get(TOKEN_MARK, ""))
        for each in machines(api, subscription, region, lambda tags: tags.get(FLEET_MARK) == fleet)
    ]  # fmt: skip
    base = f"/subscriptions/{subscription}/providers"
    lists: tuple[tuple[Leftover, str, tuple[str, ...]], ...] = (
        ("volume", f"{base}/Microsoft.Compute/disks?api-version=2024-03-02", ("managedBy",)),
        (
            "card",
            f"{base}/Microsoft.Network/networkInterfaces?api-version={NETWORK}",
            ("properties", "virtualMachine"),
        ),
        (
            "address",
            f"{base}/Microsoft.Network/publicIPAddresses?api-version={NETWORK}",
            ("properties", "ipConfiguration"),
        ),
    )
    for kind, path, used in lists:
        for row in api.pages(path):
            place = row
            for key in used[:-1]:
                place = table(place.get(key))
            mine = tags_of(row).get(FLEET_MARK) == fleet
            here = str(row.get("location", "")).lower() == region.lower()
            if mine and here and not place.get(used[-1]):
                name = clean(row.get("id", ""), limit=400)
                found.append(Owned(kind, name, region, "", "left by its machine"))
    return tuple(found)


def remove(api: Api, thing: Owned, fleet: str) -> None:
    """Remove what still carries the mark; what is gone already is no error. UsageError: it does not carry it (any more)."""
    path = thing.id.partition("#")[0]
    version = {"instance": COMPUTE, "volume": "2024-03-02"}.get(thing.kind, NETWORK)
    try:
        there = api.get(f"{path}?api-version={version}")
    except NotFoundError:
        return
    number = thing.id.partition("#")[2]
    if tags_of(there).get(FLEET_MARK) != fleet or (
        thing.kind == "instance"
        and str(table(there.get("properties")).get("vmId", "")).lower() != number.lower()
    ):
        raise UsageError(
            f"{thing.id} in {thing.region} does not carry the mark of this fleet: it is left alone"
        )
    if thing.kind == "instance":
        delete(api, thing.id)
        return
    try:
        api.change("DELETE", f"{path}?api-version={version}")
    except NotFoundError:
        return
