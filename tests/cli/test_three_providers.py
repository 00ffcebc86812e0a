"""`pools list --providers aws,gcp,azure` for 8x H100: each row with price, discount, a figure with its basis, and ages."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from backends.clouds.gcp.catalogue import prices_of, shape_of
from console.cli import run as command_line
from tests.support.fakeaws import fake_aws
from tests.support.fakehttp import Asked, Reply, serving
from tests.support.googlepeer import google_peer

GOOGLE, AZURE, AMAZON = "a3-highgpu-8g", "Standard_ND96isr_H100_v5", "p5.48xlarge"
FEED = {  # the form of the whole one, which test_pool_prices.py reads from its file
    "ranges": [{"index": 0, "label": "<5%", "dots": 0, "max": 5}],
    "instance_types": {AMAZON: {"cores": 192, "ram_gb": 2048.0, "emr": False}},
    "spot_advisor": {"us-east-1": {"Linux": {AMAZON: {"s": 50, "r": 0}}, "Windows": {}}},
}
TYPE = {
    "name": GOOGLE, "guestCpus": 208, "memoryMb": 1916928,
    "accelerators": [{"guestAcceleratorType": "nvidia-h100-80gb", "guestAcceleratorCount": 8}],
}  # fmt: skip


def sku(
    text: str, usage: str, nanos: int, unit: str = "h", region: str = "us-central1", units: str = "0"
) -> dict[str, Any]:
    price = {"unitPrice": {"currencyCode": "USD", "units": units, "nanos": nanos}}
    return {
        "description": text, "serviceRegions": [region], "category": {"resourceFamily": "Compute", "usageType": usage},
        "pricingInfo": [{"effectiveTime": "2026-11-30T00:00:00Z", "pricingExpression": {"usageUnit": unit, "tieredRates": [price]}}],
    }  # fmt: skip


SKUS = [
    sku("A3 Instance Core running in Americas", "OnDemand", 29_000_000),
    sku("A3 Instance Ram running in Americas", "OnDemand", 2_500_000, "GiBy.h"),
    sku("Nvidia H100 80GB GPU running in Americas", "OnDemand", 796_000_000, units="9"),
    sku("Spot Preemptible A3 Instance Core running in Americas", "Preemptible", 10_000_000),
    sku("Spot Preemptible A3 Instance Ram running in Americas", "Preemptible", 1_000_000, "GiBy.h"),
    sku(
        "Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Americas",
        "Preemptible",
        0,
        units="3",
    ),
    sku("A3Plus Instance Core running in Americas", "OnDemand", 1),
    sku("Nvidia H100 80GB Plus GPU running in Americas", "OnDemand", 1),
    sku("A3 Instance Core running in Belgium", "OnDemand", 1, region="europe-west1"),
    sku("Commitment v1: A3 Instance Core running in Americas", "Commit1Yr", 1),
]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    for name in ("STATE", "CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))

    def call(*words: str) -> Any:
        code = command_line.run([*words, "-o", "json"])
        shown = capsys.readouterr()
        assert code == 0, (words, shown.err)
        return json.loads(shown.out)

    return call


def azure_prices(_asked: Asked) -> Reply:
    rows = [
        {"currencyCode": "USD", "retailPrice": usd, "armRegionName": "eastus", "armSkuName": AZURE, "skuName": name, "meterName": name,
         "productName": "x", "unitOfMeasure": "1 Hour", "type": "Consumption", "effectiveStartDate": "2026-11-01T00:00:00Z"}
        for name, usd in (("ND96isr", 98.32), ("ND96isr Spot", 39.3))
    ]  # fmt: skip
    return 200, "application/json", json.dumps({"Items": rows, "NextPageLink": None})


def pulled_google(run: Callable[..., Any]) -> None:
    """Prices by the price list, figures by the preemption history, through the command line."""
    with google_peer() as peer:
        base = os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"]
        history = {
            "preemptionHistory": [{"preemptionRate": 0.25}, {"preemptionRate": 0.35}, {"interval": {}}]
        }

        def answer(asked: Asked) -> Reply:
            path = asked.path.partition("?")[0]
            if path.endswith("/skus"):
                assert asked.headers["x-goog-api-key"] == "k3y"
                assert "k3y" not in asked.path
                more = {} if "pageToken" in asked.path else {"nextPageToken": "p2"}
                half = SKUS[5:] if "pageToken" in asked.path else SKUS[:5]
                return 200, "application/json", json.dumps({"skus": half, **more})
            if path.endswith("/advice/capacityHistory"):
                assert json.loads(asked.body)["types"] == ["PREEMPTION"]
                return 200, "application/json", json.dumps(history)
            if path.endswith(f"/machineTypes/{GOOGLE}"):
                return 200, "application/json", json.dumps(TYPE)
            return peer(asked)

        with serving(answer) as url:
            words = {
                "GOOGLE_API_KEY": "k3y", "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": base.replace(base.partition("/compute")[0], url),
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING": url,
            }  # fmt: skip
            with mock.patch.dict(os.environ, words):
                place = ("--region", "us-central1", "--instance", GOOGLE)
                (row,) = run("pools", "pull", "--prices", "gcp", *place)["items"]
                assert row["on_demand_usd_per_hour"] == pytest.approx(208 * 0.029 + 1872 * 0.0025 + 8 * 9.796)
                assert row["spot_usd_per_hour"] == pytest.approx(208 * 0.01 + 1872 * 0.001 + 8 * 3)
                told = run("pools", "pull", "--figures", "gcp", *place)
                assert (told["pools"], "share of ends" in told["basis"]) == (1, True)


def test_every_row_has_price_discount_figure_with_basis_and_age(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"AvailabilityZone": "us-east-1b", "InstanceType": AMAZON, "ProductDescription": "Linux/UNIX",
           "SpotPrice": "38.1", "Timestamp": "2026-11-29T10:00:00Z"}  # fmt: skip
    feed = tmp_path / "feed-2026-12.json"
    feed.write_text(json.dumps(FEED))
    run("pools", "pull", "--feed", str(feed))
    with contextlib.ExitStack() as stack:
        fake, environment = stack.enter_context(fake_aws())
        stack.enter_context(mock.patch.dict(os.environ, environment))
        fake.pages = {"": {"SpotPriceHistory": [row], "NextToken": ""}}
        fake.listed = {("us-east-1", AMAZON): 98.32}
        run("pools", "pull", "--prices", "aws", "--region", "us-east-1", "--instance", AMAZON)
    with serving(azure_prices) as url:
        run("pools", "pull", "--prices", "azure", "--region", "eastus", "--instance", AZURE, "--feed", url)
    rates = tmp_path / "rates.json"
    rates.write_text(
        json.dumps({"data": [{"skuName": AZURE.lower(), "location": "eastus", "spotEvictionRate": "5-10"}]})
    )
    run("pools", "pull", "--figures", "azure", "--feed", str(rates))
    pulled_google(run)
    fleet = tmp_path / "fleet.toml"
    monkeypatch.setenv("REPRIEVE_FLEET", str(fleet))
    fleet.write_text(
        f'[pools."gcp/us-central1/{GOOGLE}/linux".launch]\nimage = "x"\ntested_at = "2026-12-01T00:00:00Z"\n'
        f'[pools."azure/eastus/{AZURE}/linux".launch]\nimage = "x"\n'
    )
    listed = run("pools", "list", "--providers", "aws,gcp,azure", "--gpu", "H100:8")["items"]
    priced = {item["provider"]: item for item in listed if item["spot_usd_per_hour"] is not None}
    assert set(priced) == {"aws", "gcp", "azure"}
    for item in priced.values():
        assert 0.5 < item["discount_fraction"] < 0.8, item
        assert item["discount_basis"] == "prices pulled"
        assert item["price_basis"]
        assert item["price_source"]
        assert min(item["price_age_s"], item["age_s"]) >= 0
        assert item["band"], "each has a figure"
        assert item["band_basis"] == "month" or item["notes"], "and says what it is a share of"
    google = priced["gcp"]
    assert (google["band"], google["rate_high_per_hour"]) == ("30 %", None)
    assert "a share of ends" in google["notes"][0]
    assert "28 days" in priced["azure"]["notes"][0]
    assert [priced[name]["not_launchable"] for name in ("gcp", "aws")] == [None, "no launch record"]
    assert "never tested" in priced["azure"]["not_launchable"]


def test_a_type_with_a_part_that_is_not_priced_once_has_no_price() -> None:
    shape = shape_of(TYPE)
    assert shape is not None
    assert {price.kind for price in prices_of(shape, "us-central1", SKUS, "linux")} == {"spot", "on_demand"}
    assert list(prices_of(shape, "us-central1", SKUS, "windows")) == []
    assert list(prices_of(shape, "europe-west1", SKUS, "linux")) == []
    twice = [*SKUS, sku("A3 Instance Core running in Iowa", "OnDemand", 1)]
    assert [price.kind for price in prices_of(shape, "us-central1", twice, "linux")] == ["spot"]
    yen = [{**row, "pricingInfo": [{}]} if "Ram" in row["description"] else row for row in SKUS]
    assert list(prices_of(shape, "us-central1", yen, "linux")) == []
    assert shape_of({"name": "x", "guestCpus": "2", "memoryMb": 1}) is None
