"""Google Cloud as a witness, and its running instances by label. What cannot be asked is `unknown`, never gone."""

from __future__ import annotations

import contextlib
import os
import threading
import urllib.parse
from collections.abc import Sequence
from typing import Any

from backends.clock import Clock, format_utc
from backends.clouds.gcp.instances import Name, end_of, found_of, name_of, verdict
from backends.clouds.gcp.tokens import FILE_VARIABLE, Tokens, credentials_file, document_of
from backends.clouds.http import NotFoundError, ask_with_token
from backends.clouds.port import Found, InstanceState, Replacement
from backends.errors import CredentialsError, DamagedError, ReprieveError
from backends.records.node import Node

SOURCE = "gcp/compute.instances.get"
ENDPOINT_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"  # gcloud's own, for private endpoints
DEFAULT_ENDPOINT = "https://compute.googleapis.com/compute/v1/"
PROJECT_VARIABLE = "GOOGLE_CLOUD_PROJECT"
PAGES_LIMIT = 1000
_DENIED = "the account needs compute.instances.get, compute.instances.list and compute.zoneOperations.list"


class GoogleCloud:
    """Asks Compute Engine; see `port.Cloud`. One token, kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._tokens, self._lock = clock, Tokens(clock), threading.Lock()

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

    def replace(self, pool: str, token: str) -> Replacement:
        """Nothing is rented in this version."""
        return Replacement(token, "failed", reason=f"renting on Google Cloud is not in this version ({pool})")

    def running(self, project: str, region: str, labels: Sequence[tuple[str, str]]) -> tuple[Found, ...]:
        """The running instances of `region` that have all `labels`.

        Raises:
            CredentialsError, UnreachableError: the call failed. DamagedError: its pages have no end, or it answers in part.
        """
        wanted = ["status = RUNNING", *(f"labels.{key} = {value}" for key, value in labels)]
        found: list[Found] = []
        page, seen = "", set[str]()
        while True:
            query = {
                "filter": " AND ".join(f"({text})" for text in wanted),
                **({"pageToken": page} if page else {}),
            }
            answer = self._get(f"projects/{project}/aggregated/instances?{urllib.parse.urlencode(query)}")
            if answer.get("unreachables"):
                raise DamagedError("Google Cloud: some zones did not answer, the list is not whole")
            items = answer.get("items")
            for zone, part in items.items() if isinstance(items, dict) else ():
                rows = part.get("instances", []) if isinstance(part, dict) else []
                if zone.removeprefix("zones/").rpartition("-")[0] == region:
                    found += [found_of(project, row) for row in rows if isinstance(row, dict)]
            page = str(answer.get("nextPageToken") or "")
            if not page:
                return tuple(found)
            if page in seen or len(seen) >= PAGES_LIMIT:
                raise DamagedError("Google Cloud: the pages of instances have no end")
            seen.add(page)

    def _asked(self, name: Name, asked: str) -> InstanceState:
        where = f"projects/{name.project}/zones/{name.zone}"
        try:
            state, reason = verdict(self._get(f"{where}/instances/{name.name}"), name)
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
        return self._get(f"{where}/operations?{query}")

    def _get(self, path: str) -> dict[str, Any]:
        return ask_with_token(ENDPOINT_VARIABLE, DEFAULT_ENDPOINT, path, self._token, "Google Cloud", _DENIED)

    def _token(self) -> str:
        with self._lock:
            return self._tokens.token()


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
