"""RunPod and Vast.ai as witnesses, their pods and instances, their prices; against servers of ours on loopback."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from backends.clouds.gpus import gpu_of
from backends.clouds.markets import runpod, vast
from backends.clouds.markets.kinds import kind_of, parts_of
from backends.clouds.port import Found, InstanceState, Terminator
from backends.errors import CredentialsError, DamagedError, ReprieveError, UnreachableError, UsageError
from backends.fakes.clock import FakeClock
from backends.records.node import Node
from console.cli.commands.fleet_discover import planned
from tests.support.fakehttp import Asked, Reply, serving

POD, NUMBER = "4x8k2mzq1p0abc", "7654321"


class Market:
    """Answers by path; every call must carry the key, and never in its address."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.bodies: dict[str, tuple[int, Any]] = {}

    def __call__(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        assert "k3y" not in asked.path
        if asked.headers.get("authorization") != "Bearer k3y":
            return 401, "application/json", "{}"
        status, body = self.bodies.get(asked.path.partition("?")[0], (404, {}))
        return status, "application/json", json.dumps(body)


@pytest.fixture
def market(monkeypatch: pytest.MonkeyPatch) -> Iterator[Market]:
    peer = Market()
    with serving(peer) as base:
        for name in ("RUNPOD_REST_URL", "RUNPOD_API_URL", "VAST_URL"):
            monkeypatch.setenv(name, base)
        for name in ("RUNPOD_API_KEY", "VAST_API_KEY"):
            monkeypatch.setenv(name, "k3y")
        yield peer


def pod_said(instance: str | None = POD) -> InstanceState:
    return runpod.RunPodCloud(FakeClock()).instance(Node("n", "u@h", "runpod", None, instance))


def vast_said(instance: str | None = NUMBER) -> InstanceState:
    return vast.VastCloud(FakeClock()).instance(Node("n", "u@h", "vast", None, instance))


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("RUNNING", "running"),
        ("EXITED", "stopped"),
        ("TERMINATED", "terminated"),
        ("PAUSED", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_word_of_runpod(market: Market, word: str, state: str) -> None:
    market.bodies[f"/pods/{POD}"] = (200, {"id": POD, "desiredStatus": word})
    assert pod_said().state == state


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("running", "running"),
        ("loading", "running"),
        ("exited", "stopped"),
        ("offline", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_word_of_vast(market: Market, word: str | None, state: str) -> None:
    row = {"id": int(NUMBER), "actual_status": word, "intended_status": "stopped"}
    market.bodies[f"/api/v0/instances/{NUMBER}/"] = (200, {"instances": row})
    assert vast_said().state == state


def test_what_cannot_be_told_is_never_gone(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    for said, path in ((pod_said, f"/pods/{POD}"), (vast_said, f"/api/v0/instances/{NUMBER}/")):
        assert "for this key" in said().reason  # 404
        assert said(None).state == said("../x").state == "unknown"
        for status, body in (
            (403, {}),
            (429, {}),
            (500, {}),
            (302, {}),
            (200, {}),
            (200, {"id": "other", "desiredStatus": "EXITED"}),
        ):
            market.bodies[path] = (status, body)
            assert said().state == "unknown", status
    monkeypatch.delenv("RUNPOD_API_KEY")
    monkeypatch.setenv("VAST_API_KEY", "two words")
    assert "no RunPod credentials" in pod_said().reason
    assert "no Vast.ai credentials" in vast_said().reason
    monkeypatch.setenv("RUNPOD_REST_URL", "http://rest.example")
    asked = len(market.asked)
    assert "an https address is expected" in pod_said().reason
    assert len(market.asked) == asked


def pod(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"pod{name}", "name": name, "desiredStatus": "RUNNING", "interruptible": True, "publicIp": "203.0.113.7",
        "portMappings": {"22": 10341}, "gpu": {"count": 8, "displayName": "H100 SXM"}, "machine": {"dataCenterId": "EU-RO-1"}, **changes,
    }  # fmt: skip


def test_pods_are_found_by_name_with_the_port_that_leads_in(market: Market) -> None:
    market.bodies["/pods"] = (
        200,
        [
            pod("a"),
            pod("b", publicIp=None),
            pod("c", desiredStatus="EXITED"),
            pod("d", gpu=None, machine=None),
        ],
    )
    cloud = runpod.RunPodCloud(FakeClock())
    found = cloud.running(["a", "b"], None)
    assert [(each.name, each.pool, each.spot, each.public_address) for each in found] == [
        ("a", "runpod/EU-RO-1/8x-h100-sxm/linux", True, "203.0.113.7:10341"),
        ("b", "runpod/EU-RO-1/8x-h100-sxm/linux", True, None),
    ]
    assert [each.pool for each in cloud.running(["d"], None)] == ["runpod/any/unknown/linux"]
    assert [each.name for each in cloud.running([], "EU-RO-1")] == ["a", "b"]
    ((_, node), (row, none)) = planned(found, {}, "root", None, None, "runpod")
    assert node is not None
    assert (node.ssh, none, row["reason"]) == ("root@203.0.113.7:10341", None, "it has no such address")
    market.bodies["/pods"] = (200, {"pods": []})
    with pytest.raises(DamagedError, match="no list"):
        cloud.running([], None)


def test_instances_of_vast_are_found_by_label(market: Market) -> None:
    rows = [
        {"id": 5, "label": "train", "actual_status": "running", "is_bid": True, "gpu_name": "H100 SXM", "num_gpus": 2,
         "geolocation": "Sweden, SE", "ssh_host": "ssh4.vast.ai", "ssh_port": 12345},
        {"id": 6, "label": "train", "actual_status": "exited"}, {"id": 7, "label": "other", "actual_status": "running", "ssh_host": "-x"},
    ]  # fmt: skip
    market.bodies["/api/v0/instances/"] = (200, {"instances": rows})
    cloud = vast.VastCloud(FakeClock())
    (found,) = cloud.running(["train"], None)
    expected = ("5", "vast/SE/2x-h100-sxm/linux", True, "ssh4.vast.ai:12345")
    assert (found.instance, found.pool, found.spot, found.public_address) == expected
    other: Found = cloud.running(["other"], "any")[0]
    assert (other.pool, other.public_address) == ("vast/any/unknown/linux", None)


def test_both_can_be_stopped_to_fence_them(market: Market) -> None:
    market.bodies[f"/pods/{POD}/stop"] = (200, {"id": POD})
    market.bodies[f"/api/v0/instances/{NUMBER}/"] = (200, {"success": True})
    for cloud, instance in ((runpod.RunPodCloud(FakeClock()), POD), (vast.VastCloud(FakeClock()), NUMBER)):
        assert isinstance(cloud, Terminator)
        cloud.terminate(Node("n", "h", "none", None, instance))
        with pytest.raises(UsageError):
            cloud.terminate(Node("n", "h", "none", None, "x y"))
    assert [(asked.method, asked.path) for asked in market.asked] == [
        ("POST", f"/pods/{POD}/stop"), ("PUT", f"/api/v0/instances/{NUMBER}/")]  # fmt: skip
    assert json.loads(market.asked[1].body) == {"state": "stopped"}


def test_prices_of_runpod_are_per_pod(market: Market) -> None:
    rows = [
        {"displayName": "H100 SXM", "lowestPrice": {"minimumBidPrice": 1.5, "uninterruptablePrice": 2.99}},
        {"displayName": "H100 PCIe", "lowestPrice": {"minimumBidPrice": None, "uninterruptablePrice": 0}}, None,
    ]  # fmt: skip
    market.bodies["/graphql"] = (200, {"data": {"gpuTypes": rows}})
    found = runpod.offers(["8x-h100-sxm", "8x-h100-pcie"], "any", FakeClock())
    assert [(each.instance_type, each.kind, each.usd_per_hour) for each in found] == [
        ("8x-h100-sxm", "spot", 12.0), ("8x-h100-sxm", "on_demand", 23.92)]  # fmt: skip
    assert "gpuCount: 8" in market.asked[0].body
    market.bodies["/graphql"] = (200, {"errors": []})
    with pytest.raises(DamagedError):
        runpod.offers(["8x-h100-sxm"], "any", FakeClock())
    with pytest.raises(UsageError, match="any is expected"):
        runpod.offers(["8x-h100-sxm"], "EU", FakeClock())


def test_prices_of_vast_are_the_cheapest_offers_in_a_country(market: Market) -> None:
    rows = [
        {"gpu_name": "H100 SXM", "num_gpus": 8, "min_bid": 9.0, "dph_total": 18.0, "geolocation": "Sweden, SE"},
        {"gpu_name": "H100 SXM", "num_gpus": 8, "min_bid": 8.0, "dph_total": 19.0, "geolocation": "Texas, US"},
        {"gpu_name": "H100 PCIE", "num_gpus": 8, "min_bid": 1.0, "dph_total": 1.0}, {"gpu_name": "H100 SXM", "num_gpus": 8, "min_bid": 0},
    ]  # fmt: skip
    market.bodies["/api/v0/bundles/"] = (200, {"offers": rows})

    def priced(region: str) -> list[float]:
        return [each.usd_per_hour for each in vast.offers(["8x-h100-sxm"], region, FakeClock())]

    assert (priced("any"), priced("SE"), priced("DE")) == ([8.0, 18.0], [9.0, 18.0], [])
    query = json.loads(urllib.parse.parse_qs(urllib.parse.urlsplit(market.asked[0].path).query)["q"][0])
    assert query["num_gpus"] == {"eq": 8}


def test_refusals_reach_the_user_in_their_kind(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: tuple[tuple[int, type[ReprieveError]], ...] = ((403, CredentialsError), (429, UnreachableError))
    for status, kind in cases:
        market.bodies = dict.fromkeys(("/pods", "/api/v0/instances/"), (status, {}))
        with pytest.raises(kind):
            runpod.RunPodCloud(FakeClock()).running([], None)
        with pytest.raises(kind):
            vast.VastCloud(FakeClock()).running([], None)
    monkeypatch.setenv("VAST_URL", "http://127.0.0.1:9")
    with pytest.raises(UnreachableError, match="no answer"):
        vast.VastCloud(FakeClock()).running([], None)


def test_names_of_kinds() -> None:
    assert kind_of("NVIDIA GeForce RTX 4090", 2) == "2x-rtx-4090" == f"2x-{parts_of('2x-rtx-4090')[1]}"
    assert kind_of("H100", None) == kind_of(None, 1) == kind_of("H100", 0) == "unknown"
    assert (gpu_of("runpod", "8x-h100-sxm"), gpu_of("vast", "unknown")) == (("H100", 8), None)
    with pytest.raises(UsageError, match="such as 8x-h100-sxm"):
        parts_of("h100:8")
