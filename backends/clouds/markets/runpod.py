"""RunPod: pods by name, is a pod gone, what GPUs cost. Sources: REST reference v1 (pods), GraphQL reference (gpuTypes).

A pod has no tags: it is found by its name. A stopped pod keeps its volume; its processes are gone.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Sequence
from typing import Any

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.clouds.http import NotFoundError, ask, ask_rows, secure, send
from backends.clouds.markets.kinds import kind_of, parts_of, slug
from backends.clouds.port import Found, InstanceState, Replacement, State
from backends.clouds.prices import Kind, Price
from backends.errors import CredentialsError, DamagedError, ReprieveError, UsageError
from backends.records.node import Node

KEY_VARIABLE = "RUNPOD_API_KEY"  # runpodctl's own
ENDPOINT_VARIABLE, DEFAULT_ENDPOINT = "RUNPOD_REST_URL", "https://rest.runpod.io/v1"
GRAPH_VARIABLE, DEFAULT_GRAPH = "RUNPOD_API_URL", "https://api.runpod.io"
SOURCE = "runpod/pods.get"
_STATES: dict[str, State] = {"RUNNING": "running", "EXITED": "stopped", "TERMINATED": "terminated"}
_POD = re.compile(r"[a-z0-9]{6,40}\Z")
_HINT = f"set {KEY_VARIABLE} to an API key that may read pods"


class RunPodCloud:
    """Asks RunPod; see `port.Cloud` and `port.Terminator`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def instance(self, node: Node) -> InstanceState:
        """What RunPod says of this node's pod; never raises. A pod that it does not know is `unknown`: keys differ in what they see."""
        asked = format_utc(self._clock.wall())
        if not _POD.match(node.instance or ""):
            return InstanceState("unknown", f"node {node.name} has no pod id as its instance", asked, SOURCE)
        try:
            row = self._get(f"pods/{node.instance}")
        except NotFoundError:
            reason = f"RunPod knows no pod {node.instance} for this key: ended and forgotten, or of another account"
            return InstanceState("unknown", reason, asked, SOURCE)
        except ReprieveError as error:
            return InstanceState("unknown", error.message, asked, SOURCE)
        word = clean(row.get("desiredStatus", ""), limit=40)
        if row.get("id") != node.instance:
            return InstanceState("unknown", "the answer names no pod", asked, SOURCE)
        return InstanceState(_STATES.get(word, "unknown"), word or "no status", asked, SOURCE)

    def replace(self, pool: str, token: str) -> Replacement:
        """Nothing is rented in this version."""
        return Replacement(
            token, "failed", reason=f"renting on RunPod is not in this version ({clean(pool)})"
        )

    def terminate(self, node: Node) -> None:
        """Stop the node's pod: its volume stays."""
        if not _POD.match(node.instance or ""):
            raise UsageError(f"node {node.name}: a pod id as its instance is needed to end it")
        send(
            self._request(f"pods/{node.instance}/stop", "POST"),
            "RunPod",
            denied_hint=_HINT,
            wall=self._clock.wall,
        )

    def running(self, names: Sequence[str], region: str | None) -> tuple[Found, ...]:
        """Running pods of these names (empty: all), narrowed by data center.

        Raises:
            CredentialsError, UnreachableError, DamagedError: nobody can be asked, or the answer makes no sense.
        """
        rows = ask_rows(self._request("pods"), "RunPod", denied_hint=_HINT, wall=self._clock.wall)
        found = [found_of(row) for row in rows]
        return tuple(
            each for each in found
            if each.state == "running" and (not names or each.name in names) and region in (None, each.zone)
        )  # fmt: skip

    def _get(self, path: str) -> dict[str, Any]:
        return ask(self._request(path), "RunPod", denied_hint=_HINT, wall=self._clock.wall)

    def _request(self, path: str, method: str = "GET") -> urllib.request.Request:
        base = secure(ENDPOINT_VARIABLE, DEFAULT_ENDPOINT)
        return urllib.request.Request(f"{base}/{path}", headers=_headers(), method=method)  # noqa: S310 - checked by secure


def _headers() -> dict[str, str]:
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise CredentialsError("no RunPod credentials: no API key is in the environment", hint=_HINT)
    return {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "User-Agent": "reprieve"}


def found_of(row: dict[str, Any]) -> Found:
    """One pod of a list. SSH goes to the port that its port 22 is mapped to."""
    machine, gpu = row.get("machine"), row.get("gpu")
    inside = machine if isinstance(machine, dict) else {}
    card = gpu if isinstance(gpu, dict) else {}
    model = card.get("displayName") or inside.get("gpuDisplayName") or inside.get("gpuTypeId")
    count = card.get("count", row.get("gpuCount"))
    place = clean(inside.get("dataCenterId") or "any", limit=40)
    ports, host = row.get("portMappings"), row.get("publicIp")
    port = ports.get("22") if isinstance(ports, dict) else None
    reachable = isinstance(host, str) and host and type(port) is int
    return Found(
        instance=clean(row.get("id", ""), limit=40),
        name=clean(row.get("name", ""), limit=80),
        pool=f"runpod/{place}/{kind_of(model, count)}/linux",
        zone=place,
        spot=row.get("interruptible") is True,
        state=_STATES.get(str(row.get("desiredStatus")), "unknown"),
        public_address=f"{clean(host, limit=60)}:{port}" if reachable else None,
    )


def offers(types: Sequence[str], region: str, clock: Clock) -> tuple[Price, ...]:
    """The lowest bid and the fixed price of `types` (`8x-h100-sxm`), wherever RunPod has them; a price that is not told is no row."""
    if region != "any":
        raise UsageError(
            f"--region {clean(region, limit=40)}: RunPod tells prices for all places together; any is expected"
        )
    base = secure(GRAPH_VARIABLE, DEFAULT_GRAPH)
    wanted = {kind: parts_of(kind) for kind in types}
    found: list[Price] = []
    for count in sorted({count for count, _ in wanted.values()}):
        text = (
            f"query {{ gpuTypes {{ displayName lowestPrice(input: {{gpuCount: {count}}}) "
            "{ minimumBidPrice uninterruptablePrice } } }"
        )
        body = json.dumps({"query": text}).encode()
        request = urllib.request.Request(f"{base}/graphql", body, _headers(), method="POST")  # noqa: S310 - checked by secure
        data = ask(request, "RunPod prices", denied_hint=_HINT, wall=clock.wall).get("data")
        rows = data.get("gpuTypes") if isinstance(data, dict) else None
        if not isinstance(rows, list):
            raise DamagedError("RunPod prices: the answer has no list `gpuTypes`")
        for row in rows:
            model = slug(row.get("displayName")) if isinstance(row, dict) else ""
            told = row.get("lowestPrice") if isinstance(row, dict) else None
            for kind in [each for each, asked in wanted.items() if asked == (count, model)]:
                found += _prices(kind, count, told if isinstance(told, dict) else {})
    return tuple(found)


def _prices(kind: str, count: int, told: dict[str, Any]) -> list[Price]:
    """RunPod tells a GPU's price an hour; a pod's is that times its GPUs."""
    rows = []
    markets: tuple[tuple[str, Kind], ...] = (
        ("minimumBidPrice", "spot"),
        ("uninterruptablePrice", "on_demand"),
    )
    for name, market in markets:
        usd = told.get(name)
        if isinstance(usd, (int, float)) and not isinstance(usd, bool) and usd > 0:
            basis = (
                "lowest bid that runs now, times the GPUs"
                if market == "spot"
                else "lowest fixed price, times the GPUs"
            )
            rows.append(
                Price(
                    "runpod", "any", kind, "linux", market, usd * count, source="api.runpod.io", basis=basis
                )
            )
    return rows
