"""Calls to Compute Engine: reads, pages, changes; one token a scope, kept."""

from __future__ import annotations

import json
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from backends.clock import Clock
from backends.clouds.gcp.tokens import SCOPE, WRITING, Tokens
from backends.clouds.http import NotFoundError, ask, secure, send
from backends.errors import DamagedError, UnreachableError

ENDPOINT_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"  # gcloud's own, for private endpoints
DEFAULT_ENDPOINT = "https://compute.googleapis.com/compute/v1/"
PAGES_LIMIT = 1000
DENIED = "the account needs compute.instances.get, compute.instances.list and compute.zoneOperations.list"
CHANGING = "docs/providers/google.md has the least permissions for renting"


class Api:
    """Asks Compute Engine; usable from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._tokens = {scope: Tokens(clock, scope) for scope in (SCOPE, WRITING)}

    def get(self, path: str) -> dict[str, Any]:
        """The object at `path`, with its query.

        Raises:
            NotFoundError: 404. UsageError, CredentialsError, UnreachableError, DamagedError: as `http.ask`.
        """
        request = self._request("GET", path, None, SCOPE)
        return ask(request, "Google Cloud", denied_hint=DENIED, wall=self._clock.wall)

    def change(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """POST or DELETE of `path`: the operation that came of it.

        Raises:
            RefusedError: with Google's code. Others as `get`.
        """
        request = self._request(method, path, body, WRITING)
        return send(request, "Google Cloud", denied_hint=CHANGING, wall=self._clock.wall).document

    def pages(self, path: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The answers of a list.

        Raises:
            DamagedError: the pages have no end, or one tells that it is not whole. Others as `get`.
        """
        page, seen = "", set[str]()
        while True:
            more = {**query, **({"pageToken": page} if page else {})}
            answer = self.get(f"{path}?{urllib.parse.urlencode(more)}")
            if answer.get("unreachables"):
                raise DamagedError("Google Cloud: some zones did not answer, the list is not whole")
            yield answer
            page = str(answer.get("nextPageToken") or "")
            if not page:
                return
            if page in seen or len(seen) >= PAGES_LIMIT:
                raise DamagedError("Google Cloud: the pages of instances have no end")
            seen.add(page)

    def check_region(self, project: str, region: str) -> None:
        """UnreachableError where there is no such region: an empty list would say nothing then."""
        try:
            self.get(f"projects/{project}/regions/{urllib.parse.quote(region, safe='')}")
        except NotFoundError:
            raise UnreachableError(
                f"Google Cloud has no region {region!r} for project {project}",
                hint="`gcloud compute regions list` lists them, such as us-central1",
            ) from None

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, scope: str
    ) -> urllib.request.Request:
        base = secure(ENDPOINT_VARIABLE, DEFAULT_ENDPOINT)  # before a token is asked for
        with self._lock:
            headers = {"Authorization": f"Bearer {self._tokens[scope].token()}"}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        return urllib.request.Request(f"{base}/{path}", data, headers, method=method)  # noqa: S310 - checked by secure


def zones_of(api: Api, project: str, region: str) -> list[str]:
    """The zones of a region."""
    rows = api.get(f"projects/{project}/regions/{urllib.parse.quote(region, safe='')}").get("zones")
    return [str(each).rpartition("/")[2] for each in rows] if isinstance(rows, list) else []
