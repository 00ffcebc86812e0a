"""Calls to Azure's resource manager: reads, pages, changes; one token, kept."""

from __future__ import annotations

import json
import os
import re
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.clouds.azure.tokens import Tokens
from backends.clouds.http import Answered, ask, secure, send
from backends.errors import CredentialsError, DamagedError, UnreachableError

ENDPOINT_VARIABLE = "AZURE_RESOURCE_MANAGER_URL"  # for sovereign clouds and private links
DEFAULT_ENDPOINT = "https://management.azure.com"
SUBSCRIPTION_VARIABLE = "AZURE_SUBSCRIPTION_ID"  # the Azure SDKs' own name
COMPUTE, NETWORK = "2024-07-01", "2024-05-01"  # versions of the two interfaces
RESOURCES = "2022-12-01"
PAGES_LIMIT = 1000
DENIED = "the identity needs Microsoft.Compute/virtualMachines/read and …/instanceView/read (role Reader)"
CHANGING = "docs/providers/azure.md has the least permissions for renting"
_SUBSCRIPTION = re.compile(r"[0-9a-fA-F-]{36}")


class Api:
    """Asks the resource manager; usable from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._tokens, self._lock = clock, Tokens(clock), threading.Lock()

    def get(self, path: str) -> dict[str, Any]:
        """The object at `path`, with its query.

        Raises:
            NotFoundError: 404. UsageError, CredentialsError, UnreachableError, DamagedError: as `http.ask`.
        """
        return ask(self._request(path), "Azure", denied_hint=DENIED, wall=self._clock.wall)

    def change(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answered:
        """PUT, POST or DELETE of `path`.

        Raises:
            RefusedError: with Azure's code, such as AllocationFailed. Others as `get`.
        """
        return send(self._request(path, method, body), "Azure", denied_hint=CHANGING, wall=self._clock.wall)

    def pages(self, path: str) -> Iterator[dict[str, Any]]:
        """The rows of a list, over all its pages; a page is asked for nowhere but where the first one was.

        Raises:
            DamagedError: the pages have no end, or lead elsewhere. Others as `get`.
        """
        base, seen = secure(ENDPOINT_VARIABLE, DEFAULT_ENDPOINT), set[str]()
        following = path
        while following:
            if following in seen or len(seen) >= PAGES_LIMIT:
                raise DamagedError("Azure: the pages of a list have no end")
            seen.add(following)
            document = self.get(following)
            rows = document.get("value")
            if not isinstance(rows, list):
                raise DamagedError("Azure: the answer has no list `value`")
            yield from (row for row in rows if isinstance(row, dict))
            link = document.get("nextLink")
            following = link if isinstance(link, str) else ""
            if following:
                if not following.startswith(base + "/"):
                    raise DamagedError(f"Azure: a page leads to {clean(following, limit=80)}; not followed")
                following = urllib.parse.unquote(following.removeprefix(base))

    def subscription(self) -> str:
        """The subscription to look in: the environment's, else the only one that is in sight.

        Raises:
            CredentialsError: none is, or several are, or what is named is none.
        """
        named = os.environ.get(SUBSCRIPTION_VARIABLE, "")
        if not named:
            rows = list(self.pages(f"/subscriptions?api-version={RESOURCES}"))
            if len(rows) != 1:
                raise CredentialsError(
                    f"Azure: {len(rows)} subscriptions are in sight of these credentials; exactly 1 is expected",
                    hint=f"name one in {SUBSCRIPTION_VARIABLE}",
                )
            named = str(rows[0].get("subscriptionId"))
        if not _SUBSCRIPTION.fullmatch(named):
            raise CredentialsError(
                f"Azure: {clean(named, limit=60)!r} is no subscription id; {SUBSCRIPTION_VARIABLE} takes one"
            )
        return named

    def check_region(self, subscription: str, region: str) -> None:
        """UnreachableError where Azure has no such region for the subscription: an empty list would say nothing then."""
        names = {
            str(row.get("name", "")).lower()
            for row in self.pages(f"/subscriptions/{subscription}/locations?api-version={RESOURCES}")
        }
        if region.lower() not in names:
            raise UnreachableError(
                f"Azure has no region {clean(region, limit=60)!r} for subscription {subscription}",
                hint="`az account list-locations -o table` lists them, such as eastus",
            )

    def _request(
        self, path: str, method: str = "GET", body: dict[str, Any] | None = None
    ) -> urllib.request.Request:
        base = secure(ENDPOINT_VARIABLE, DEFAULT_ENDPOINT)  # before a token is asked for
        safe = urllib.parse.quote(path.lstrip("/"), safe="/?$&=#()'*,;:")
        with self._lock:
            headers = {"Authorization": f"Bearer {self._tokens.token()}"}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        return urllib.request.Request(f"{base}/{safe}", data, headers, method=method)  # noqa: S310 - checked by secure
