"""Renting one machine on Google Cloud: asked for once, found again by its label, given up whole.

A request that comes again has the same id and the same name; Google answers it with the operation that the first one began. So
nothing is remembered here: each look asks anew, and goes on at the zone that has not said no.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.clouds import lending
from backends.clouds.gcp import launch as records
from backends.clouds.gcp.api import Api, zones_of
from backends.clouds.gcp.instances import found_of, name_of
from backends.clouds.gcp.launch import FLEET_LABEL, TOKEN_LABEL, Launch
from backends.clouds.http import NotFoundError, RefusedError
from backends.clouds.lending import Request, Usd, client_token
from backends.clouds.port import Found, Market, Owned, Replacement
from backends.errors import UsageError

# What Google says when this place has nothing for us now: the code of an operation's error, or of a refusal.
SHORT = frozenset({
    "ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "RESOURCE_POOL_EXHAUSTED", "STOCKOUT",
    "QUOTA_EXCEEDED", "quotaExceeded", "REGION_RESOURCE_POOL_EXHAUSTED", "UNSUPPORTED_OPERATION", "VM_MIN_COUNT_NOT_REACHED",
    "CONDITION_NOT_MET",
})  # fmt: skip
TAKEN = 409  # status of a name that is in use
AGAIN = 4  # machines of one request that may end before they were seen


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
    def marked(self) -> dict[str, str]:
        """The labels of what is created for it."""
        return records.labels(self.launch, self.fleet, self.token)

    @property
    def request(self) -> Request:
        """What is asked for, as any provider is asked."""
        kinds = dict.fromkeys((self.kind, *self.launch.types))
        pools = tuple(f"gcp/{self.region}/{kind}/linux" for kind in kinds)
        return Request("gcp", pools, self.token, self.market, self.launch)

    @property
    def places(self) -> tuple[str, ...]:
        """Zones that are asked one after another; the region where Google is to choose among zones or types."""
        return (self.region,) if self.launch.types or not self.launch.zones else self.launch.zones

    def call(self, place: str, generation: int) -> tuple[str, dict[str, Any]]:
        """Path and body of the creating call at one place."""
        name = records.name_of(self.token, place, generation)
        base = f"projects/{self.launch.project}"
        same = f"requestId={records.request_id(self.token, place, generation)}"
        if place == self.region:
            bulk = records.bulk_request(
                self.launch, self.kind, name=name, market=self.market, marked=self.marked
            )
            return f"{base}/regions/{place}/instances/bulkInsert?{same}", bulk
        body = records.insert_request(
            self.launch, self.kind, place, name=name, market=self.market, marked=self.marked
        )
        return f"{base}/zones/{place}/instances?{same}", body


def listed(api: Api, project: str, region: str, labels: dict[str, str]) -> tuple[Found, ...]:
    """The instances of `region` with these labels, in any state."""
    query = {"filter": " AND ".join(f"(labels.{key} = {value})" for key, value in labels.items())}
    found = []
    for answer in api.pages(f"projects/{project}/aggregated/instances", query):
        items = answer.get("items")
        for zone, part in items.items() if isinstance(items, dict) else ():
            rows = part.get("instances", []) if isinstance(part, dict) else []
            if zone.removeprefix("zones/").rpartition("-")[0] == region:
                found += [found_of(project, row) for row in rows if isinstance(row, dict)]
    return tuple(found)


def rent(api: Api, wanted: Wanted, usd: Usd, max_usd: float, clock: Clock) -> Replacement:
    """As `lending.rent`. Raises UsageError, CredentialsError, UnreachableError: asked again, it is the same request."""
    known = of_token(api, wanted.launch.project, wanted.region, wanted.token)
    return lending.rent(wanted.request, known, lambda ended: _create(api, wanted, ended), usd, max_usd, clock)


def of_token(api: Api, project: str, region: str, token: str) -> tuple[Found, ...]:
    """Every machine of this request."""
    return listed(api, project, region, {TOKEN_LABEL: client_token(token)})


def _create(api: Api, wanted: Wanted, ended: int) -> Found:
    said: dict[str, list[str]] = {}
    for place in wanted.places:
        for generation in range(ended, ended + AGAIN):
            path, body = wanted.call(place, generation)
            operation, code, text = _asked(api, path, body, named=place != wanted.region)
            made = None if code else _made(api, wanted, place, generation, operation)
            if (
                code or made is not None
            ):  # else it was made, and has ended since: the next one is another request
                break
        if code in SHORT:
            said.setdefault(f"{code}: {text}" if text else code, []).append(place)
        elif code:
            raise UsageError(f"Google Cloud would not make a machine in {place}: {code}: {text}")
        elif made is None:
            said.setdefault("each machine of this request has ended at once", []).append(place)
        else:
            return made
    raise lending.short_of(said)


def _asked(api: Api, path: str, body: dict[str, Any], *, named: bool) -> tuple[dict[str, Any], str, str]:
    """The operation of a creating call; code and text of what went wrong, empty where nothing did."""
    try:
        operation = api.change("POST", path, body)
        return operation, *_error(operation)
    except RefusedError as error:
        if error.status == TAKEN and named:
            return {}, "", ""  # its name is taken: by itself, a moment ago
        if error.code in SHORT:
            return {}, error.code, error.text
        raise UsageError(error.message) if 400 <= error.status < 429 else error from None


def _error(operation: dict[str, Any]) -> tuple[str, str]:
    """Code and text of a failed operation; empty while it runs, and when it went well."""
    told = operation.get("error")
    rows = told.get("errors") if isinstance(told, dict) else None
    if operation.get("status") != "DONE" or not isinstance(rows, list) or not rows:
        return "", ""
    row = rows[0] if isinstance(rows[0], dict) else {}
    return clean(row.get("code", "failed"), limit=80), clean(row.get("message", ""), limit=200)


def _made(api: Api, wanted: Wanted, place: str, generation: int, operation: dict[str, Any]) -> Found | None:
    """The machine that an operation makes, pending until Google shows it; None: it was made and is gone again."""
    name, project = records.name_of(wanted.token, place, generation), wanted.launch.project
    spot = wanted.market == "spot"
    if place == wanted.region:  # which zone it is in is known once it is listed
        return Found(name, name, wanted.pool, "", spot, "running", pending=True)
    try:
        return found_of(project, api.get(f"projects/{project}/zones/{place}/instances/{name}"))
    except NotFoundError:
        if operation.get("status") == "DONE":
            return None
        return Found(name, name, wanted.pool, place, spot, "running", pending=True)


def trial(api: Api, wanted: Wanted) -> None:
    """Look at everything that the record names, without creating anything; Google has no dry run.

    Raises:
        UsageError: a type, image, network or service is not there.
    """
    launch, base = wanted.launch, f"projects/{wanted.launch.project}"
    zones = launch.zones or tuple(zones_of(api, launch.project, wanted.region))[:1]
    if not zones:
        raise UsageError(f"Google Cloud lists no zone of {wanted.region} for project {launch.project}")
    names = [path for path in (launch.image, launch.network, launch.subnet) if path is not None]
    for zone in zones:
        here = f"{base}/zones/{zone}"
        names += [f"{here}/machineTypes/{kind}" for kind in dict.fromkeys((wanted.kind, *launch.types))]
        names += [] if launch.disk_kind is None else [f"{here}/diskTypes/{launch.disk_kind}"]
        if launch.accelerator is not None:
            names.append(f"{here}/acceleratorTypes/{launch.accelerator.partition(':')[0]}")
    for name in names:
        try:
            api.get(name)
        except NotFoundError:
            raise UsageError(f"Google Cloud has no {name}, which the record of {wanted.pool} names") from None


def delete(api: Api, instance: str) -> None:
    """Delete a machine with its disks; one that is gone is no error."""
    name = name_of(instance)
    if name is None:
        raise UsageError(f"{clean(instance, limit=120)!r} is no instance of the form PROJECT/ZONE/NAME/ID")
    path = f"projects/{name.project}/zones/{name.zone}/instances/{name.name}"
    try:
        if str(api.get(path).get("id")) == name.number:  # another machine may have its name
            api.change("DELETE", path)
    except NotFoundError:
        return


def owned(api: Api, project: str, region: str, fleet: str) -> tuple[Owned, ...]:
    """Machines of `region` that carry the fleet's label, and disks that outlived theirs."""
    mine = {FLEET_LABEL: fleet}
    found = [
        Owned("instance", each.instance, region, each.pool, each.reason or each.state, each.launched_at,
              each.tags.get(TOKEN_LABEL, ""))
        for each in listed(api, project, region, mine)
        if each.state != "stopping"
    ]  # fmt: skip
    query = {"filter": f"(labels.{FLEET_LABEL} = {fleet})"}
    for answer in api.pages(f"projects/{project}/aggregated/disks", query):
        items = answer.get("items")
        for zone, part in items.items() if isinstance(items, dict) else ():
            rows = part.get("disks", []) if isinstance(part, dict) else []
            for row in rows if zone.removeprefix("zones/").rpartition("-")[0] == region else []:
                if isinstance(row, dict) and not row.get("users"):
                    path = f"{project}/{zone.removeprefix('zones/')}/{clean(row.get('name'), limit=63)}/{clean(row.get('id'), limit=20)}"
                    found.append(Owned("volume", path, region, "", "left by its machine"))
    return tuple(found)


def remove(api: Api, thing: Owned, fleet: str) -> None:
    """Remove what still carries the label; what is gone already is no error. UsageError: it does not carry it (any more)."""
    name = name_of(thing.id)
    if name is None:
        raise UsageError(f"{clean(thing.id, limit=120)!r}: PROJECT/ZONE/NAME/ID is expected")
    what = "instances" if thing.kind == "instance" else "disks"
    path = f"projects/{name.project}/zones/{name.zone}/{what}/{name.name}"
    try:
        there = api.get(path)
        told = there.get("labels")
        if str(there.get("id")) != name.number:
            return
        if not isinstance(told, dict) or told.get(FLEET_LABEL) != fleet:
            raise UsageError(f"{thing.id} does not carry the mark of this fleet: it is left alone")
        api.change("DELETE", path)
    except NotFoundError:
        return
