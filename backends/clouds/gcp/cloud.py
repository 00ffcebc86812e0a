"""Google Cloud as a witness and as a lender, and its running instances by label. What cannot be asked is `unknown`, never gone."""

from __future__ import annotations

import contextlib
import os
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from backends.clock import Clock, format_utc
from backends.clouds import recorded
from backends.clouds.gcp import launch as records
from backends.clouds.gcp import renting
from backends.clouds.gcp.api import Api
from backends.clouds.gcp.instances import Name, end_of, found_of, name_of, verdict
from backends.clouds.gcp.launch import FLEET_LABEL, Launch
from backends.clouds.gcp.tokens import FILE_VARIABLE, credentials_file, document_of
from backends.clouds.http import NotFoundError
from backends.clouds.lender import Lender
from backends.clouds.port import Found, InstanceState, Market, Owned, Replacement
from backends.errors import CredentialsError, ReprieveError, UsageError
from backends.records.node import Node

SOURCE = "gcp/compute.instances.get"
PROJECT_VARIABLE = "GOOGLE_CLOUD_PROJECT"
KEPT = ("zones", "notice_s")  # of a record taken again: what people may have added


class GoogleCloud(Lender[Launch]):
    """Asks Compute Engine; see `port.Cloud`, `Renter`, `Launcher`, `Reaper`, `Terminator`."""

    provider, shown = "gcp", "Google Cloud"

    def __init__(self, clock: Clock, **words: Any) -> None:
        super().__init__(clock, **words)
        self._api = Api(clock)

    # -- a witness ------------------------------------------------------------------------------------------------

    def instance(self, node: Node) -> InstanceState:
        """What Compute Engine says of this node's instance; never raises.

        A machine that is not there is gone only where an operation that ended it is on record (kept for two weeks), or
        another machine has its name: 404 alone also means another project's credentials.
        """
        asked = format_utc(self._clock.wall())
        name = name_of(node.instance)
        if name is None:
            reason = f"node {node.name} has no instance of the form PROJECT/ZONE/NAME/ID"
            return InstanceState("unknown", reason, asked, SOURCE)
        try:
            return self._asked(name, asked)
        except ReprieveError as error:
            return InstanceState("unknown", error.message, asked, SOURCE)

    def running(self, project: str, region: str, labels: Sequence[tuple[str, str]]) -> tuple[Found, ...]:
        """The running instances of `region` that have all `labels`.

        Raises:
            CredentialsError: refused. UnreachableError: no answer, or Google has no such region.
            DamagedError: its pages have no end, or it answers in part.
        """
        self._api.check_region(project, region)
        wanted = ["status = RUNNING", *(f"labels.{key} = {value}" for key, value in labels)]
        query = {"filter": " AND ".join(f"({text})" for text in wanted)}
        found: list[Found] = []
        for answer in self._api.pages(f"projects/{project}/aggregated/instances", query):
            items = answer.get("items")
            for zone, part in items.items() if isinstance(items, dict) else ():
                rows = part.get("instances", []) if isinstance(part, dict) else []
                if zone.removeprefix("zones/").rpartition("-")[0] == region:
                    found += [found_of(project, row) for row in rows if isinstance(row, dict)]
        return tuple(found)

    def terminate(self, node: Node) -> None:
        """End the node's machine: stopped, with its disks, unless this fleet made it; then it is deleted."""
        name = name_of(node.instance)
        if name is None:
            raise UsageError(
                f"node {node.name}: an instance PROJECT/ZONE/NAME/ID is needed to end its machine"
            )
        path = f"projects/{name.project}/zones/{name.zone}/instances/{name.name}"
        row = self._api.get(path)
        if str(row.get("id")) != name.number:
            return  # another machine has its name: this one is gone
        labels = row.get("labels")
        if isinstance(labels, dict) and labels.get(FLEET_LABEL):
            renting.delete(self._api, str(name))
        else:
            self._api.change("POST", f"{path}/stop")

    def _asked(self, name: Name, asked: str) -> InstanceState:
        where = f"projects/{name.project}/zones/{name.zone}"
        try:
            state, reason = verdict(self._api.get(f"{where}/instances/{name.name}"), name)
        except NotFoundError:
            word = end_of(self._operations(where, name), name)
            if word not in ("deleted", "preempted"):
                reason = f"Google knows no {name.name} in {name.zone} of {name.project} for these credentials"
                return InstanceState("unknown", reason, asked, SOURCE)
            return InstanceState("terminated", word, asked, "gcp/compute.zoneOperations.list")
        if state == "stopped":
            with contextlib.suppress(ReprieveError):  # why it ended is good to know; that it ended is told
                reason = end_of(self._operations(where, name), name) or reason
        return InstanceState(state, reason, asked, SOURCE)

    def _operations(self, where: str, name: Name) -> dict[str, Any]:
        query = urllib.parse.urlencode({"filter": f"targetId = {name.number}"})
        return self._api.get(f"{where}/operations?{query}")

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
        places = {(launch.project, self._parts(pool)[0]) for pool, launch in self._recorded().items()}
        for project, region in sorted(places):
            for each in renting.of_token(self._api, project, region, token):
                renting.delete(self._api, each.instance)

    def request(self, pool: str, token: str, *, market: Market) -> dict[str, Any]:
        """The exact call of the first place; those of other zones differ in name and zone."""
        wanted = self._wanted(pool, self._launch(pool), token, market)
        path, body = wanted.call(wanted.places[0], 0)
        return {"call": f"POST {path}", "region": wanted.region, "parameters": body}

    def record(self, node: Node) -> dict[str, Any]:
        """The launch record of this node's machine, joined with what only people know of the pool's; not tested yet."""
        name = name_of(node.instance)
        if name is None or node.pool is None:
            raise UsageError(f"node {node.name}: a pool and an instance id are needed for a launch record")
        row = self._api.get(f"projects/{name.project}/zones/{name.zone}/instances/{name.name}")
        disks = row.get("disks")
        boot = (
            [each for each in disks if isinstance(each, dict) and each.get("boot")]
            if isinstance(disks, list)
            else []
        )
        path = records.path_of(boot[0].get("source")) if boot else None
        if path is None:
            raise UsageError(
                f"instance {name.name}: Google names no boot disk; its launch record cannot be taken"
            )
        new = records.taken(name.project, row, self._api.get(path))
        found = found_of(name.project, row)
        way = recorded.way_in(node.ssh, node.identity_file, found.public_address, found.private_address)
        before = self._launches().get(node.pool)
        old = None if before is None else self._read(node.pool, before)
        return recorded.write(recorded.merged(old, recorded.replaced(new, way), KEPT))

    def test(self, pool: str, table: Mapping[str, Any] | None = None) -> str:
        """Look at what the pool's record, or `table` in its place, names; when it passed. Raises what Google says against it."""
        launch = self._launch(pool) if table is None else self._read(pool, table)
        renting.trial(self._api, self._wanted(pool, launch, "trial", "spot"))
        return format_utc(self._clock.wall())

    # -- what it created ------------------------------------------------------------------------------------------

    def owned(self, region: str) -> tuple[Owned, ...]:
        """Everything of this fleet in `region` that still exists, in each project of a record."""
        known = {launch.project for launch in self._recorded().values()} or {project_here()}
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


def project_here() -> str:
    """The project to look in: the environment's, else that of the service account's file; CredentialsError without one."""
    named = os.environ.get(PROJECT_VARIABLE)
    if named:
        return named
    path = credentials_file()
    found = document_of(path).get("project_id") if path is not None else None
    if isinstance(found, str) and found:
        return found
    raise CredentialsError(
        f"Google Cloud: no project is named: set {PROJECT_VARIABLE}, or {FILE_VARIABLE} to a key file"
    )
