"""Azure as a witness, against a server of ours on loopback in the shapes of the REST reference."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from backends.clouds.azure.cloud import AzureCloud
from backends.clouds.port import InstanceState
from backends.errors import CredentialsError, DamagedError
from backends.fakes.clock import FakeClock
from backends.records.node import Node
from console.cli.commands.fleet_discover import planned
from tests.support import azurepeer
from tests.support.fakehttp import Asked, Reply, serving

NUMBER = "0b0c0d0e-0000-4000-8000-00000000000a"
PATH = f"/subscriptions/{NUMBER[:-1]}b/resourceGroups/rg-ml/providers/Microsoft.Compute/virtualMachines/gpu-a"
INSTANCE = f"{PATH}#{NUMBER}"


class Azure:
    """Answers like the resource manager, the sign-in service and a machine's identity service."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.token: tuple[int, Any] = (200, {"access_token": "t0k", "expires_in": "3599"})
        self.answer: tuple[int, Any] = (404, {"error": {"code": "ResourceNotFound"}})

    def __call__(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        path = asked.path.partition("?")[0]
        if path in {"/tenant/oauth2/v2.0/token", "/metadata/identity/oauth2/token"}:
            status, body = self.token
        elif asked.headers.get("authorization") != "Bearer t0k":
            status, body = 401, {}
        else:
            assert asked.path == f"{PATH}?$expand=instanceView&api-version=2024-07-01"
            status, body = self.answer
        return status, "application/json", json.dumps(body)

    def vm(self, *codes: str, number: str | None = NUMBER) -> None:
        view = {"statuses": [{"code": "ProvisioningState/succeeded"}, *({"code": code} for code in codes)]}
        self.answer = (200, {"properties": {"vmId": number, "priority": "Spot", "instanceView": view}})


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
    peer = Azure()
    with serving(peer) as base:
        for name in ("RESOURCE_MANAGER_URL", "AUTHORITY_HOST", "POD_IDENTITY_AUTHORITY_HOST"):
            monkeypatch.setenv(f"AZURE_{name}", base)
        for name in ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET", "ACCESS_TOKEN"):
            monkeypatch.delenv(f"AZURE_{name}", raising=False)
        yield peer


def node(instance: str | None = INSTANCE) -> Node:
    return Node("n", "u@h", "azure", "azure/eastus/standard_nd96isr_h100_v5/linux", instance)


def said(instance: str | None = INSTANCE) -> InstanceState:
    return AzureCloud(FakeClock()).instance(node(instance))


@pytest.mark.parametrize(
    ("codes", "state"),
    [
        (("PowerState/running",), "running"), (("PowerState/starting",), "running"),
        (("PowerState/deallocating",), "stopping"), (("PowerState/stopping",), "stopping"),
        (("PowerState/deallocated",), "stopped"), (("PowerState/stopped",), "stopped"),
        (("PowerState/deallocated", "HibernationState/Hibernated"), "unknown"), (("PowerState/unknown",), "unknown"),
        ((), "unknown"), (("PowerState/running", "PowerState/deallocated"), "unknown"),
    ],
)  # fmt: skip
def test_the_word_of_the_resource_manager(azure: Azure, codes: tuple[str, ...], state: str) -> None:
    azure.vm(*codes)
    assert said().state == state


def test_another_machine_of_the_same_name_proves_the_first_ones_end(azure: Azure) -> None:
    azure.vm("PowerState/running", number=NUMBER.replace("a", "f"))
    assert (said().state, "has its name now" in said().reason) == ("terminated", True)
    azure.vm("PowerState/deallocated", number=None)
    assert said().state == "unknown"
    azure.vm("PowerState/deallocated", number=NUMBER.upper())
    assert said().state == "stopped"


def test_what_cannot_be_told_is_never_gone(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (said().state, "(404)" in said().reason) == ("unknown", True)
    assert "no instance of the form" in said(None).reason
    assert "no instance of the form" in said(f"{PATH}/../x#{NUMBER}").reason
    for status, words in (
        (403, "access is refused (403)"),
        (429, "answered 429"),
        (503, "answered 503"),
        (302, "answered 302"),
    ):
        azure.answer = (status, {})
        assert (said().state, words in said().reason) == ("unknown", True), status
    azure.answer = (200, {"properties": []})
    assert said().state == "unknown"
    azure.token = (200, {"access_token": "two words"})
    assert "is no access token" in said().reason
    azure.token = (400, {})
    assert "no Azure credentials" in said().reason
    asked = len(azure.asked)
    monkeypatch.setenv("AZURE_RESOURCE_MANAGER_URL", "http://arm.example")
    assert "an https address is expected" in said().reason
    assert len(azure.asked) == asked  # no token was asked for, none was sent


def test_a_service_principal_signs_in_and_its_token_is_kept(
    azure: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TENANT_ID", "tenant"), ("CLIENT_ID", "me"), ("CLIENT_SECRET", "s3&cret")):
        monkeypatch.setenv(f"AZURE_{name}", value)
    azure.vm("PowerState/running")
    clock = FakeClock()
    cloud = AzureCloud(clock)
    assert [cloud.instance(node()).state for _ in range(2)] == ["running", "running"]
    (asked,) = (each for each in azure.asked if each.method == "POST")
    form = urllib.parse.parse_qs(asked.body)
    assert (form["client_id"], form["client_secret"]) == (["me"], ["s3&cret"])
    assert form["scope"] == ["https://management.azure.com/.default"]
    clock.advance(3600)
    cloud.instance(node())
    assert len([each for each in azure.asked if each.method == "POST"]) == 2
    azure.token = (400, {"error": "invalid_client"})
    refused = AzureCloud(FakeClock()).instance(node())
    assert (refused.state, "is refused (400)" in refused.reason, "s3" in refused.reason) == (
        "unknown",
        True,
        False,
    )
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "http://login.example")
    assert "a secret is sent there" in said().reason


def test_a_token_that_is_given_is_used(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    azure.vm("PowerState/deallocated")
    monkeypatch.setenv("AZURE_ACCESS_TOKEN", "t0k")
    assert said().state == "stopped"
    assert len(azure.asked) == 1
    monkeypatch.setenv("AZURE_ACCESS_TOKEN", "an old\ntoken")
    assert "is no access token" in said().reason


def machine(name: str, **changes: Any) -> dict[str, Any]:
    card = {"name": "c", "properties": {"ipConfigurations": [{"properties": {"subnet": {"id": "s"}}}]}}
    properties = {
        "hardwareProfile": {"vmSize": "Standard_NC4as_T4_v3"}, "storageProfile": {"osDisk": {}},
        "networkProfile": {"networkInterfaceConfigurations": [card]}, "priority": "Spot",
        **changes.pop("properties", {}),
    }  # fmt: skip
    return {"location": "EastUS", "tags": {"team": "ml"}, "properties": properties, **changes}


def test_running_machines_are_found_by_tag_over_all_pages_with_pool_and_addresses() -> None:
    with azurepeer.azure_peer() as peer:
        for name, changes in (
            ("gpu-a", {"zones": ["2"]}), ("gpu-b", {"properties": {"priority": "Regular", "storageProfile": {"osDisk": {"osType": "Windows"}}}}),
            ("elsewhere", {"location": "westeurope"}), ("other", {"tags": {"team": "x"}}), ("off", {}),
        ):  # fmt: skip
            path = f"{azurepeer.MACHINES}/{name}"
            peer.put(path, machine(name, **changes), "Succeeded")
            peer.power(path, "deallocated" if name == "off" else "running")
        cloud = AzureCloud(FakeClock())
        found = cloud.running("eastus", [("team", "ml")])
        assert [(each.name, each.pool, each.zone, each.spot) for each in found] == [
            ("gpu-a", "azure/eastus/Standard_NC4as_T4_v3/linux", "eastus-2", True),
            ("gpu-b", "azure/eastus/Standard_NC4as_T4_v3/windows", "", False),
        ]
        assert (found[0].private_address, found[0].public_address) == ("10.0.0.4", None)
        ((row, added), _) = planned(found, {}, "azureuser", None, None, "azure")
        assert (row["state"], added and added.ssh) == ("known", "azureuser@10.0.0.4")
        assert added is not None
        assert cloud.instance(added).state == "running"
        assert cloud.running("eastus", [("team", "nobody")]) == ()


def test_which_subscription_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with azurepeer.azure_peer() as peer:
        cloud = AzureCloud(FakeClock())
        peer.subscriptions = [azurepeer.SUBSCRIPTION, NUMBER]
        with pytest.raises(CredentialsError, match="2 subscriptions are in sight"):
            cloud.running("eastus", [])
        monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", azurepeer.SUBSCRIPTION)
        assert cloud.running("eastus", []) == ()
        monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", "../x")
        with pytest.raises(CredentialsError, match="no subscription id"):
            cloud.running("eastus", [])


def test_pages_that_lead_elsewhere_or_nowhere_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    following = {"link": "http://evil.example/x"}

    def answer(asked: Asked) -> Reply:
        if "oauth2" in asked.path:
            return 200, "application/json", json.dumps({"access_token": "t0k", "expires_in": "9"})
        return 200, "application/json", json.dumps({"value": [], "nextLink": following["link"]})

    with serving(answer) as base:
        for name in ("RESOURCE_MANAGER_URL", "POD_IDENTITY_AUTHORITY_HOST"):
            monkeypatch.setenv(f"AZURE_{name}", base)
        monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", azurepeer.SUBSCRIPTION)
        monkeypatch.delenv("AZURE_ACCESS_TOKEN", raising=False)
        cloud = AzureCloud(FakeClock())
        with pytest.raises(DamagedError, match="not followed"):
            cloud.running("eastus", [])
        following["link"] = f"{base}/subscriptions/again"
        with pytest.raises(DamagedError, match="no end"):
            cloud.running("eastus", [])
