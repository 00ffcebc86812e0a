"""`reprieve pools pull --prices` and what `pools list` makes of it, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backends.clouds import price_cache
from backends.clouds.prices import Price
from tests.support.cli import reprieve
from tests.support.data import data
from tests.support.fakeaws import ENVIRONMENT, fake_aws
from tests.support.fakehttp import Asked, Reply, serving

FEED = {
    "ranges": [{"index": 0, "label": "<5%", "dots": 0, "max": 5}],
    "instance_types": {"g6e.xlarge": {"cores": 4, "ram_gb": 32.0, "emr": False}},
    "spot_advisor": {"us-east-1": {"Linux": {"g6e.xlarge": {"s": 50, "r": 0}}, "Windows": {}}},
}
PULL = ("pools", "pull", "--prices", "aws", "--region", "us-east-1", "--instance")


def feed(home: Path) -> str:
    path = home / "feed-2026-12.json"
    path.write_text(json.dumps(FEED))
    return str(path)


def test_pulled_prices_make_the_discount_and_say_their_age_and_basis(tmp_path: Path) -> None:
    row = {"AvailabilityZone": "us-east-1b", "InstanceType": "g6e.xlarge", "ProductDescription": "Linux/UNIX",
           "SpotPrice": "0.7", "Timestamp": "2026-11-29T10:00:00Z"}  # fmt: skip
    with fake_aws() as (fake, environment):
        fake.pages = {"": {"SpotPriceHistory": [row], "NextToken": ""}}
        fake.listed = {("us-east-1", "g6e.xlarge"): 1.861}
        done = reprieve(tmp_path, *PULL, "g6e.xlarge,hpc6a.48xlarge", "-o", "json", environ=environment)
        assert done.code == 0, done.err
        items = {item["instance_type"]: item for item in json.loads(done.out)["items"]}
        assert items["hpc6a.48xlarge"]["status"] == "no on-demand price"
        assert items["hpc6a.48xlarge"]["discount_fraction"] is None
        fake.pages = {"": {"SpotPriceHistory": [], "NextToken": ""}}
        assert reprieve(tmp_path, *PULL, "hpc6a.48xlarge", environ=environment).code == 1
        fake.refusal = (400, "ExpiredToken", "expired")
        refused = reprieve(tmp_path, *PULL, "g6e.xlarge", "-o", "json", environ=environment)
        assert refused.code == 4
        assert "have expired" in json.loads(refused.err)["message"]
    listed = reprieve(tmp_path, "pools", "list", "--feed", feed(tmp_path), "-o", "json")
    (item,) = json.loads(listed.out)["items"]
    assert (item["spot_usd_per_hour"], item["on_demand_usd_per_hour"], item["spot_zone"]) == (
        0.7,
        1.861,
        "us-east-1b",
    )
    assert round(item["discount_fraction"], 4) == 0.6239
    assert item["discount_basis"] == "prices pulled"
    assert item["price_age_s"] >= 0
    assert item["price_source"] == "ec2:DescribeSpotPriceHistory"


def test_without_prices_the_feeds_saving_stands_and_nothing_is_zero(tmp_path: Path) -> None:
    listed = reprieve(tmp_path, "pools", "list", "--feed", feed(tmp_path), "-o", "json")
    (item,) = json.loads(listed.out)["items"]
    assert (item["discount_fraction"], item["discount_basis"]) == (0.5, "mean saving of the feed")
    assert (item["spot_usd_per_hour"], item["price_age_s"]) == (None, None)


def test_azures_prices_need_no_account_and_no_feed(tmp_path: Path) -> None:
    kind = "Standard_NC24ads_A100_v4"
    rows = [
        {"currencyCode": "USD", "retailPrice": usd, "armRegionName": "eastus", "armSkuName": kind, "skuName": sku,
         "meterName": sku, "productName": "x", "unitOfMeasure": "1 Hour", "type": "Consumption"}
        for sku, usd in (("NC24ads", 3.67), ("NC24ads Spot", 0.98))
    ]  # fmt: skip

    def answer(asked: Asked) -> Reply:
        return 200, "application/json", json.dumps({"Items": rows, "NextPageLink": None})

    asked = ("pools", "pull", "--prices", "azure", "--region", "eastus", "--instance", kind)
    with serving(answer) as url:
        done = reprieve(tmp_path, *asked, "--feed", url)
        assert done.code == 0, done.err
        assert "0.9800" in done.out
    gone = reprieve(tmp_path, *asked, "--feed", "http://127.0.0.1:1")
    assert gone.code == 5
    listed = reprieve(tmp_path, "pools", "list", "--providers", "azure", "-o", "json")
    (item,) = json.loads(listed.out)["items"]
    assert item["pool"] == f"azure/eastus/{kind}/linux"
    assert round(item["discount_fraction"], 3) == 0.733
    assert item["band"] is None
    assert item["rate_high_per_hour"] is None


def test_azures_eviction_share_is_shown_and_makes_a_rate_only_when_its_basis_is_chosen(
    tmp_path: Path,
) -> None:
    kind = "Standard_ND96isr_H100_v5"
    price_cache.save(
        tmp_path / "cache/reprieve",
        [Price("azure", "eastus", kind, "linux", "spot", 20.0), Price("azure", "eastus", kind, "linux", "on_demand", 98.0),
         Price("azure", "eastus", "Standard_D4", "linux", "on_demand", 0.2)],
        "2026-12-01T00:00:00Z",
    )  # fmt: skip
    figures = tmp_path / "rates.json"
    figures.write_text(
        json.dumps({"data": [{"skuName": kind.lower(), "location": "eastus", "spotEvictionRate": "5-10"}]})
    )
    assert reprieve(tmp_path, "pools", "pull", "--figures", "azure").code == 4  # no token
    assert reprieve(tmp_path, "pools", "pull", "--figures", "azure", "--feed", str(figures)).code == 0

    def listed(*words: str) -> dict[str, Any]:
        done = reprieve(
            tmp_path, "pools", "list", "--providers", "azure", "--gpu", "H100:8", *words, "-o", "json"
        )
        (item,) = json.loads(done.out)["items"]
        assert item["instance_type"] == kind
        assert (item["band"], item["gpu_count"]) == ("5-10", 8)
        return dict(item)

    plain = listed()
    assert (plain["rate_high_per_hour"], plain["band_basis"]) == (None, None)
    assert any("28 days" in note for note in plain["notes"])
    assert listed("--eviction-basis", "hour")["rate_high_per_hour"] == pytest.approx(0.10536, abs=1e-5)
    assert listed("--eviction-basis", "month")["rate_high_per_hour"] == pytest.approx(0.10536 / 720, abs=1e-8)
    job = ("--hours", "24", "--lost", "10m")
    assert listed(*job)["reason"] == "its interruption figure is unknown"
    by_hour, by_month = (listed(*job, "--eviction-basis", basis) for basis in ("hour", "month"))
    assert by_hour["billed_hours"] > by_month["billed_hours"] > 24
    assert by_hour["rank"] == 1


def test_pools_of_three_providers_from_files(tmp_path: Path) -> None:
    advisor = str(data("spot-advisor", "spot-advisor-2025-06.json.gz"))
    google = str(data("spot-price", "gcp_all_machines_2026-07-30.csv.gz"))
    assert reprieve(tmp_path, "pools", "pull", "--feed", advisor).code == 0
    assert reprieve(tmp_path, "pools", "pull", "--prices", "gcp", "--feed", google).code == 0
    azure = tmp_path / "azure.csv"
    azure.write_text(
        "region,instance_type,spot_usd_per_hour,on_demand_usd_per_hour\neastus,Standard_ND96isr_H100_v5,39.3,98.32\n"
    )
    assert reprieve(tmp_path, "pools", "pull", "--prices", "azure", "--feed", str(azure)).code == 0
    listed = reprieve(
        tmp_path, "pools", "list", "--providers", "aws,gcp,azure", "--gpu", "H100:8", "-o", "json"
    )
    items = json.loads(listed.out)["items"]
    assert {item["provider"] for item in items} == {"aws", "gcp", "azure"}
    assert {(item["gpu"], item["gpu_count"]) for item in items} == {("H100", 8)}
    for item in items:
        if item["provider"] == "aws":
            assert item["band_basis"] == "month"
            assert item["age_s"] >= 0
        else:
            assert (item["band"], item["rate_high_per_hour"]) == (None, None)
            assert item["price_basis"] == "table of the user"
            assert item["price_age_s"] >= 0
            assert item["discount_basis"] == "prices pulled"
    assert reprieve(tmp_path, "pools", "pull", "--prices", "vast").code == 2


def test_what_is_missing_on_the_command_line_is_named(tmp_path: Path) -> None:
    for words, told in (
        (("pools", "pull", "--prices", "aws"), "--region and --instance"),
        (("pools", "pull", "--region", "x"), "--prices"),
        ((*PULL, "p5*"), "matches no type"),
        (("pools", "list", "--providers", "mars"), "mars"),
    ):
        done = reprieve(tmp_path, *words, environ=ENVIRONMENT)
        assert done.code == 2, done.err
        assert told in done.err


def test_without_boto3_the_line_says_how_to_get_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['boto3'] = None; from console.cli.main import main; sys.exit(main())"
    done = reprieve(tmp_path, *PULL, "g6e.xlarge", code=code)
    assert done.code == 2
    assert "boto3 is not installed" in done.err
    assert "pipx inject reprieve boto3" in done.err
