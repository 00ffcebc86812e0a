"""Renting on Google Cloud and Azure against loopback servers: once, within limits, at the place that has something, given back whole."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from backends.clouds.azure.cloud import AzureCloud
from backends.clouds.gcp.cloud import GoogleCloud
from backends.clouds.port import Launcher, Owned, Reaper, Renter, Replacement, Terminator
from backends.errors import CredentialsError, UnreachableError, UsageError
from backends.fakes.clock import FakeClock
from backends.records.node import Node
from tests.support import azurepeer, googlepeer

FLEET = "0123456789abcdef"
GOOGLE = {
    "project": googlepeer.PROJECT, "image": googlepeer.IMAGE, "subnet": googlepeer.SUBNET, "disk_kind": "pd-ssd",
    "zones": ["us-central1-a", "us-central1-b"], "user": "ubuntu", "public": True, "notice_s": 120, "tags": {"team": "ml"},
    "mounts": ["fs-1:/ /data nfs4"], "tested_at": "2026-12-01T00:00:00Z",
}  # fmt: skip
AZURE = {
    "subscription": azurepeer.SUBSCRIPTION, "group": "rg-ml", "image": azurepeer.IMAGE, "subnet": azurepeer.SUBNET,
    "admin": "azureuser", "ssh_keys": [azurepeer.KEY], "zones": ["1", "2"], "user": "azureuser", "tags": {"team": "ml"},
    "mounts": ["fs-1:/ /data nfs4"], "tested_at": "2026-12-01T00:00:00Z",
}  # fmt: skip


class World:
    """A provider with one launch record and a price that a test sets."""

    def __init__(self, name: str, peer: Any) -> None:
        self.name, self.peer, self.usd = name, peer, {"spot": 1.0}
        google = name == "gcp"
        self.kind, self.other = (
            ("g2-standard-8", "g2-standard-12")
            if google
            else ("Standard_NC4as_T4_v3", "Standard_NC8as_T4_v3")
        )
        self.region = googlepeer.REGION if google else azurepeer.REGION
        self.pool = f"{name}/{self.region}/{self.kind}/linux"
        self.launches: dict[str, dict[str, Any]] = {self.pool: dict(GOOGLE if google else AZURE)}
        make = GoogleCloud if google else AzureCloud
        self.cloud: Any = make(
            FakeClock(), launches=lambda: self.launches, price_of=lambda pool, market: self.usd.get(market), fleet=lambda: FLEET
        )  # fmt: skip
        self.short_place = "us-central1-a" if google else "1"

    def rent(self, token: str = "t", max_usd: float = 5.0) -> Replacement:
        answer: Replacement = self.cloud.rent(self.pool, token, market="spot", max_usd=max_usd)
        return answer

    def ready(self, token: str = "t") -> Node:
        """The machine, after a few looks."""
        for _ in range(8):
            answer = self.rent(token)
            if answer.node is not None:
                return answer.node
            assert answer.state == "pending", answer
        raise AssertionError(answer)

    @property
    def there(self) -> int:
        return len(self.peer.instances if self.name == "gcp" else self.peer.machines)


@pytest.fixture(params=["gcp", "azure"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    peer: Callable[[], contextlib.AbstractContextManager[Any]] = (
        googlepeer.google_peer if request.param == "gcp" else azurepeer.azure_peer
    )
    with peer() as server:
        yield World(request.param, server)


def test_the_adapter_is_everything_that_a_lender_is(world: World) -> None:
    for port in (Renter, Launcher, Reaper, Terminator):
        assert isinstance(world.cloud, port)


def test_a_machine_is_asked_for_once_and_handed_over_bare(world: World) -> None:
    first = world.rent()
    assert (first.state, first.usd_per_hour) == ("pending", 1.0)
    node = world.ready()
    assert (node.provider, node.pool, node.labels["lifecycle"]) == (world.name, world.pool, "spot")
    assert node.ssh.startswith(f"{world.launches[world.pool]['user']}@")
    assert world.ready() == node
    again = World(world.name, world.peer)  # another controller, at the same time
    assert again.ready() == node
    assert (world.there, len(world.peer.created())) == (1, 1)
    assert world.cloud.instance(node).state == "running"
    assert world.ready("another").instance != node.instance
    assert world.there == 2


def test_the_request_has_what_the_record_says_and_the_marks(world: World) -> None:
    world.ready()
    (sent,) = world.peer.created()
    text = json.dumps(sent)
    assert FLEET in text
    assert '"team": "ml"' in text
    if world.name == "gcp":
        assert sent["scheduling"] == {
            "onHostMaintenance": "TERMINATE", "automaticRestart": False, "provisioningModel": "SPOT",
            "instanceTerminationAction": "DELETE", "preemptionNoticeDuration": {"seconds": "120"},
        }  # fmt: skip
        assert sent["disks"][0]["autoDelete"] is True
        assert "guestAccelerators" not in sent
        assert any(
            each["key"] == "user-data" and "nfs4" in each["value"] for each in sent["metadata"]["items"]
        )
    else:
        inside = sent["properties"]
        assert (inside["priority"], inside["evictionPolicy"], inside["billingProfile"]) == (
            "Spot",
            "Deallocate",
            {"maxPrice": -1},
        )
        (card,) = inside["networkProfile"]["networkInterfaceConfigurations"]
        assert (card["properties"]["deleteOption"], inside["storageProfile"]["osDisk"]["deleteOption"]) == (
            "Delete",
            "Delete",
        )
        assert sent["zones"] == ["1"]
    shown = world.cloud.request(world.pool, "t", market="on_demand")
    assert "SPOT" not in json.dumps(shown).upper().replace("SPOT_", "")


def test_the_next_zone_is_asked_and_all_that_say_no_are_named(world: World) -> None:
    world.peer.short.add(world.short_place)
    node = world.ready()
    assert len(world.peer.created()) == 2
    world.cloud.cancel("t")
    assert world.there == 0
    world.peer.short.add("us-central1-b" if world.name == "gcp" else "2")
    for _ in range(4):
        answer = world.rent("u")
        if answer.state == "failed":
            break
    assert answer.state == "failed"
    code = "ZONE_RESOURCE_POOL_EXHAUSTED" if world.name == "gcp" else "SkuNotAvailable"
    assert code in answer.reason
    assert (world.there, node.instance is None) == (0, False)


def test_nothing_is_asked_for_beyond_the_money_without_a_price_or_a_tested_record(world: World) -> None:
    assert "1.00 USD an hour, and 0.50 USD are left" in world.rent(max_usd=0.5).reason
    world.usd = {}
    assert f"reprieve pools pull --prices {world.name}" in world.rent().reason
    del world.launches[world.pool]["tested_at"]
    assert world.rent().reason.startswith("not_launchable: the launch record of")
    world.launches.clear()
    assert "has no launch record" in (world.cloud.launchable(world.pool) or "")
    assert world.peer.created() == []
    assert "/TYPE/linux is expected" in (world.cloud.launchable("aws/r/t/linux") or "")


def test_a_trial_creates_nothing_and_says_what_is_wrong(world: World) -> None:
    assert world.cloud.test(world.pool).startswith("20")
    if world.name == "gcp":
        world.peer.kinds.remove(world.kind)
        words = "has no projects/ml-p/zones/us-central1-a/machineTypes/g2-standard-8"
    else:
        world.peer.invalid = {"code": "QuotaExceeded", "message": "cores"}
        words = "QuotaExceeded"
    with pytest.raises(UsageError, match=words):
        world.cloud.test(world.pool)
    assert (world.there, world.peer.created()) == (0, [])


@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_refusal_is_no_end_and_creates_nothing_later(world: World, status: int) -> None:
    world.peer.refusal = (status, {"error": {"code": status, "message": "no"}})
    expected = {401: CredentialsError, 403: CredentialsError}.get(status, UnreachableError)
    with pytest.raises(expected):
        world.rent()
    world.peer.refusal = None
    world.ready()
    assert world.there == 1


def test_a_record_is_taken_from_a_rented_machine_and_launches_its_like(world: World) -> None:
    node = world.ready()
    table = world.cloud.record(node)
    told = world.launches[world.pool]
    for key in ("image", "subnet", "zones", "tags", "user", "mounts"):
        assert table[key] == (told[key] if key != "zones" else told["zones"]), key
    assert "tested_at" not in table
    del world.launches[world.pool]
    fresh = world.cloud.record(node)
    assert fresh["zones"] == told["zones"][:1]
    assert "mounts" not in fresh
    assert world.cloud.test(world.pool, fresh)


@pytest.mark.parametrize(
    ("key", "value"),
    [("image", "ami-1"), ("zones", "x"), ("tags", {"a": 1}), ("port", 0), ("types", ["; rm"]), ("public", 1)],
)
def test_a_record_that_cannot_be_meant_is_refused_by_key(world: World, key: str, value: object) -> None:
    world.launches[world.pool][key] = value
    assert f"{key} of its launch record" in (world.cloud.launchable(world.pool) or "")


def test_only_what_carries_the_mark_is_listed_and_removed(world: World) -> None:
    node = world.ready()
    (thing,) = world.cloud.owned(world.region)
    assert (thing.kind, thing.id, thing.pool) == ("instance", node.instance, world.pool)
    foreign = dataclasses.replace(thing)
    rows = world.peer.instances if world.name == "gcp" else world.peer.machines
    (row,) = rows.values()
    key = "labels" if world.name == "gcp" else "tags"
    kept, row[key] = row[key], {"team": "ml"}
    assert world.cloud.owned(world.region) == ()
    with pytest.raises(UsageError, match="does not carry the mark"):
        world.cloud.remove(foreign)
    row[key] = kept
    world.cloud.terminate(node)  # ours: deleted, not stopped
    assert world.there == 0
    world.cloud.remove(thing)  # gone already
    world.cloud.cancel("t")


def test_disks_and_cards_that_outlived_their_machine_are_listed_and_removed(world: World) -> None:
    if world.name == "gcp":
        world.peer.disks["us-central1-a", "d"] = {
            "id": "7",
            "name": "d",
            "labels": {"reprieve-fleet": FLEET},
            "status": "READY",
        }
    else:
        for kind, store in (
            ("networkInterfaces", world.peer.cards),
            ("publicIPAddresses", world.peer.publics),
        ):
            path = f"{azurepeer.GROUP}/providers/Microsoft.Network/{kind}/x"
            store[path] = {
                "id": path,
                "location": "eastus",
                "tags": {"reprieve:fleet": FLEET},
                "properties": {},
            }
    found: tuple[Owned, ...] = world.cloud.owned(world.region)
    assert {each.kind for each in found} == ({"volume"} if world.name == "gcp" else {"card", "address"})
    for each in found:
        world.cloud.remove(each)
    assert world.cloud.owned(world.region) == ()


def test_a_machine_of_ones_own_is_stopped_with_its_disks(world: World) -> None:
    node = world.ready()
    rows = world.peer.instances if world.name == "gcp" else world.peer.machines
    (row,) = rows.values()
    row["labels" if world.name == "gcp" else "tags"] = {}
    world.cloud.terminate(node)
    assert (world.there, world.cloud.instance(node).state) == (1, "stopped")


def test_google_picks_zone_and_type_by_bulk_insert() -> None:
    with googlepeer.google_peer() as peer:
        world = World("gcp", peer)
        world.launches[world.pool]["types"] = [world.other]
        peer.short.add(world.kind)
        node = world.ready()
        assert node.pool == world.pool.replace(world.kind, world.other)
        (sent,) = peer.created()
        assert (sent["count"], sent["minCount"], "machineType" in sent["instanceProperties"]) == (
            "1",
            "1",
            False,
        )
        assert sent["path"].startswith("projects/ml-p/regions/us-central1/instances/bulkInsert?requestId=")
        peer.short.add(world.other)
        assert "VM_MIN_COUNT_NOT_REACHED" in world.rent("u").reason


def test_azure_moves_on_from_a_machine_that_failed_after_it_was_accepted_and_removes_it() -> None:
    with azurepeer.azure_peer() as peer:
        world = World("azure", peer)
        peer.short_later.add("1")
        world.ready()
        assert [sent["zones"] for sent in peer.created()] == [["1"], ["2"]]
        assert world.there == 1, "what could not be made is gone"
        peer.short_later.add("2")
        answer = world.rent("u")
        for _ in range(8):
            if answer.state == "failed":
                break
            answer = world.rent("u")
        assert "AllocationFailed (" in answer.reason
        assert world.there == 1


def test_a_machine_of_google_that_ended_before_it_was_seen_is_asked_for_anew() -> None:
    with googlepeer.google_peer() as peer:
        world = World("gcp", peer)
        world.rent()
        ((_, row),) = peer.instances.items()
        peer.end(row["id"], "compute.instances.preempted")
        node = world.ready()
        assert (node.instance or "").rpartition("/")[2] != row["id"]
        assert world.there == 1
