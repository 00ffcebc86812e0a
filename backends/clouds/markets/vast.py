"""Vast.ai: instances by label, is one gone, what offers cost. Source: Vast.ai's API reference (instances, bundles).

An instance that was outbid is stopped: its processes are gone, its disk waits there. One whose host is `offline` may still run.
"""

from __future__ import annotations

import json
import os
import re
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.clouds.http import NotFoundError, ask, secure, send
from backends.clouds.markets.kinds import kind_of, parts_of, slug
from backends.clouds.port import Found, InstanceState, Replacement, State
from backends.clouds.prices import Kind, Price
from backends.errors import CredentialsError, DamagedError, ReprieveError, UsageError
from backends.records.node import Node

KEY_VARIABLE = "VAST_API_KEY"
ENDPOINT_VARIABLE, DEFAULT_ENDPOINT = "VAST_URL", "https://console.vast.ai"
SOURCE = "vast/instances.get"
_STATES: dict[str, State] = {
    "running": "running", "loading": "running", "created": "running", "exited": "stopped", "stopped": "stopped",
}  # fmt: skip
_NUMBER = re.compile(r"[0-9]{1,20}\Z")
_HINT = f"set {KEY_VARIABLE} to an API key that may read instances"


class VastCloud:
    """Asks Vast.ai; see `port.Cloud` and `port.Terminator`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def instance(self, node: Node) -> InstanceState:
        """What Vast.ai says of this node's instance; never raises."""
        asked = format_utc(self._clock.wall())
        if not _NUMBER.match(node.instance or ""):
            return InstanceState("unknown", f"node {node.name} has no number as its instance", asked, SOURCE)
        try:
            told = self._get(f"instances/{node.instance}/").get("instances")
        except NotFoundError:
            reason = (
                f"Vast.ai knows no instance {node.instance} for this key: destroyed, or of another account"
            )
            return InstanceState("unknown", reason, asked, SOURCE)
        except ReprieveError as error:
            return InstanceState("unknown", error.message, asked, SOURCE)
        row = told if isinstance(told, dict) else {}
        if str(row.get("id", "")) != node.instance:
            return InstanceState("unknown", "the answer names no instance", asked, SOURCE)
        state, word = state_of(row)
        return InstanceState(state, word, asked, SOURCE)

    def replace(self, pool: str, token: str) -> Replacement:
        """Nothing is rented in this version."""
        return Replacement(
            token, "failed", reason=f"renting on Vast.ai is not in this version ({clean(pool)})"
        )

    def terminate(self, node: Node) -> None:
        """Stop the node's instance: its disk stays."""
        if not _NUMBER.match(node.instance or ""):
            raise UsageError(f"node {node.name}: a number as its instance is needed to end it")
        body = json.dumps({"state": "stopped"}).encode()
        request = self._request(f"instances/{node.instance}/", "PUT", body)
        send(request, "Vast.ai", denied_hint=_HINT, wall=self._clock.wall)

    def running(self, labels: Sequence[str], region: str | None) -> tuple[Found, ...]:
        """Running instances with one of these labels (empty: all), narrowed by country.

        Raises:
            CredentialsError, UnreachableError, DamagedError: nobody can be asked, or the answer makes no sense.
        """
        rows = self._get("instances/").get("instances")
        if not isinstance(rows, list):
            raise DamagedError("Vast.ai: the answer has no list `instances`")
        found = [found_of(row) for row in rows if isinstance(row, dict)]
        return tuple(
            each for each in found
            if each.state == "running" and (not labels or each.name in labels) and region in (None, each.zone)
        )  # fmt: skip

    def _get(self, path: str) -> dict[str, Any]:
        return ask(self._request(path), "Vast.ai", denied_hint=_HINT, wall=self._clock.wall)

    def _request(self, path: str, method: str = "GET", body: bytes | None = None) -> urllib.request.Request:
        base = secure(ENDPOINT_VARIABLE, DEFAULT_ENDPOINT)
        return urllib.request.Request(f"{base}/api/v0/{path}", body, _headers(), method=method)  # noqa: S310 - checked by secure


def _headers() -> dict[str, str]:
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise CredentialsError("no Vast.ai credentials: no API key is in the environment", hint=_HINT)
    return {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "User-Agent": "reprieve"}


def state_of(row: dict[str, Any]) -> tuple[State, str]:
    """State and the words behind it. A host that is not heard of proves nothing: what runs there may run on."""
    word, meant = (clean(row.get(name) or "", limit=40) for name in ("actual_status", "intended_status"))
    return _STATES.get(word, "unknown"), f"{word or 'no status'}, meant to be {meant or 'unknown'}"


def country_of(row: dict[str, Any]) -> str:
    """The country code at the end of `Sweden, SE`; `any` where it is not told."""
    code = clean(row.get("geolocation") or "", limit=60).rpartition(",")[2].strip()
    return code if re.fullmatch(r"[A-Z]{2}", code) else "any"


def found_of(row: dict[str, Any]) -> Found:
    """One instance of a list; SSH goes over the host and port that Vast.ai tells."""
    place, host, port = country_of(row), row.get("ssh_host"), row.get("ssh_port")
    reachable = isinstance(host, str) and re.fullmatch(r"[A-Za-z0-9.-]{1,100}", host) and str(port).isdigit()
    label = clean(row.get("label") or "", limit=80)
    return Found(
        instance=clean(row.get("id", ""), limit=20),
        name=label,
        pool=f"vast/{place}/{kind_of(row.get('gpu_name'), row.get('num_gpus'))}/linux",
        zone=place,
        spot=row.get("is_bid") is True,
        state=state_of(row)[0],
        public_address=f"{host}:{port}" if reachable else None,
    )


def offers(types: Sequence[str], region: str, clock: Clock) -> tuple[Price, ...]:
    """The cheapest bid and fixed price of `types` (`8x-h100-sxm`) in a country, or anywhere (`any`)."""
    base, found = secure(ENDPOINT_VARIABLE, DEFAULT_ENDPOINT), []
    for kind in types:
        count, model = parts_of(kind)
        asked = {"rentable": {"eq": True}, "num_gpus": {"eq": count}, "type": "bid", "limit": 1000}
        query = urllib.parse.urlencode({"q": json.dumps(asked)})
        request = urllib.request.Request(f"{base}/api/v0/bundles/?{query}", headers=_headers())  # noqa: S310 - checked by secure
        rows = ask(request, "Vast.ai offers", denied_hint=_HINT, wall=clock.wall).get("offers")
        if not isinstance(rows, list):
            raise DamagedError("Vast.ai offers: the answer has no list `offers`")
        fits = [
            row for row in rows
            if isinstance(row, dict) and slug(row.get("gpu_name")) == model and row.get("num_gpus") == count
            and region in ("any", country_of(row))
        ]  # fmt: skip
        markets: tuple[tuple[Kind, str, str], ...] = (
            ("spot", "min_bid", "lowest bid of the offers now"), ("on_demand", "dph_total", "lowest fixed price of the offers now"),
        )  # fmt: skip
        for market, name, basis in markets:
            usd = [row[name] for row in fits if isinstance(row.get(name), (int, float)) and row[name] > 0]
            if usd:
                found.append(
                    Price(
                        "vast",
                        region,
                        kind,
                        "linux",
                        market,
                        float(min(usd)),
                        source="console.vast.ai",
                        basis=basis,
                    )
                )
    return tuple(found)
