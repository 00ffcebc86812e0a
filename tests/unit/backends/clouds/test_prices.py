"""Prices: AWS by boto3 against a loopback server, Azure by plain HTTP, and the cache; RC-18 and RC-19."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.clock import SystemClock
from backends.clouds import price_cache
from backends.clouds.aws.calls import explained, pages
from backends.clouds.aws.prices import _hourly, on_demand_prices, positive, spot_prices
from backends.clouds.azure.retail import retail_prices
from backends.clouds.prices import PoolPrices, Price, by_pool, newest, status
from backends.errors import CredentialsError, DamagedError, ReprieveError, UnreachableError, UsageError
from tests.support.data import case, data
from tests.support.fakeaws import ENVIRONMENT, FakeAws, fake_aws
from tests.support.fakehttp import Asked, Reply, serving

CLOCK = SystemClock()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    with fake_aws() as (fake, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        yield fake


def page(token: str, *rows: tuple[str, str, str, str]) -> dict[str, object]:
    names = ("AvailabilityZone", "ProductDescription", "SpotPrice", "Timestamp")
    history = [{"InstanceType": "g6e.xlarge", **dict(zip(names, row, strict=True))} for row in rows]
    return {"SpotPriceHistory": history, "NextToken": token}


def test_rc_18_pages_that_are_empty_and_a_last_token_that_is_too(aws: FakeAws) -> None:
    story = json.loads(data("cases", "files", "price_pages.json").read_text())
    aws.pages = {answer["request"].get("NextToken", ""): answer for answer in story}
    found = spot_prices("us-east-1", ["g6e.xlarge"], "linux", CLOCK)
    expected = case(18)["expected"]
    assert len(aws.asked) == expected["calls"]
    assert sum(len(answer["SpotPriceHistory"]) for answer in story) == expected["records"]
    assert {price.zone: price.usd_per_hour for price in found} == expected["latest_per_zone"]
    assert {price.since for price in found} == {"2026-11-29T12:00:00.000Z", "2026-11-29T11:00:00.000Z"}


def test_rc_18_a_token_that_repeats_ends_with_a_clear_error(aws: FakeAws) -> None:
    aws.pages = {"": page("t1"), "t1": page("t1")}
    with pytest.raises(DamagedError, match="the same page token came twice"):
        spot_prices("us-east-1", [], "linux", CLOCK)
    assert len(aws.asked) == 2
    count = iter(range(10_000))
    with pytest.raises(DamagedError, match="more than 1000 pages"):
        list(pages(lambda request: {"NextToken": f"t{next(count)}"}, "x"))


def test_rc_19_a_price_that_is_missing_is_never_a_number() -> None:
    story = case(19)
    listed, spot = story["input"]["on_demand"], story["input"]["spot"]
    prices = [
        Price("aws", region, kind, "linux", label, usd)  # type: ignore[arg-type]  # one of the two kinds
        for label, table in (("spot", spot), ("on_demand", listed))
        for region, row in table.items()
        for kind, usd in row.items()
    ]
    pools = by_pool(prices)
    for (region, kind), expected in zip(story["input"]["ask"], story["expected"]["rows"], strict=True):
        found = pools.get(f"aws/{region}/{kind}/linux", PoolPrices())
        assert status(found, region_known=region in listed) == expected["status"]
        assert found.discount == (
            None if expected["discount"] is None else pytest.approx(expected["discount"], abs=1e-4)
        )


def test_windows_and_linux_are_never_mixed_and_a_bad_price_is_none(aws: FakeAws) -> None:
    at = "2026-11-29T10:00:00Z"
    aws.pages = {
        "": page("", ("a", "Linux/UNIX", "0.5", at), ("a", "Windows", "0.9", at), ("b", "Linux/UNIX", "", at),
                 ("c", "Linux/UNIX", "0.0", at), ("d", "Red Hat", "0.2", at))
    }  # fmt: skip
    found = spot_prices("us-east-1", [], "linux", CLOCK)
    assert [(price.zone, price.system, price.usd_per_hour) for price in found] == [
        ("a", "linux", 0.5),
        ("a", "windows", 0.9),
    ]


def test_on_demand_prices_and_a_type_that_has_none(aws: FakeAws) -> None:
    aws.listed = {("eu-west-1", "g6e.xlarge"): 1.861}
    found = on_demand_prices("eu-west-1", ["g6e.xlarge", "hpc6a.48xlarge"], "linux")
    assert [(price.instance_type, price.usd_per_hour) for price in found] == [("g6e.xlarge", 1.861)]
    assert aws.asked[0]["operatingSystem"] == "Linux"
    assert aws.asked[0]["tenancy"] == "Shared"


@pytest.mark.parametrize(
    ("refusal", "error", "words"),
    [
        ((401, "AuthFailure", "AWS was not able to validate the provided access credentials"), CredentialsError, "refused"),
        ((403, "UnauthorizedOperation", "You are not authorized"), CredentialsError, "refused"),
        ((400, "ExpiredToken", "The security token included in the request is expired"), CredentialsError, "have expired"),
        ((400, "RequestExpired", "Request has expired."), CredentialsError, "clock is off"),
        ((403, "SignatureDoesNotMatch", "Signature expired: 20261201 is now earlier than"), CredentialsError, "clock is off"),
        ((503, "RequestLimitExceeded", "Request limit exceeded."), UnreachableError, "too many requests"),
        ((500, "InternalError", "An internal error has occurred"), UnreachableError, "answered 500"),
        ((400, "InvalidParameterValue", "Invalid type"), UsageError, "Invalid type"),
    ],
)  # fmt: skip
def test_each_refusal_is_one_clear_line(
    refusal: tuple[int, str, str], error: type[ReprieveError], words: str
) -> None:
    from botocore.exceptions import ClientError

    status, code, message = refusal
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(error, match=words) as caught, explained("spot price history", "us-east-1"):
        raise ClientError(answer, "DescribeSpotPriceHistory")
    assert type(caught.value) is error
    assert "us-east-1" in caught.value.message
    assert "\n" not in caught.value.message


def test_a_refusal_on_the_wire(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.clouds.aws.calls.ATTEMPTS", 1)
    aws.refusal = (503, "RequestLimitExceeded", "Request limit exceeded.")
    with pytest.raises(UnreachableError, match="too many requests"):
        spot_prices("us-east-1", [], "linux", CLOCK)
    aws.refusal = (400, "ExpiredTokenException", "The security token is expired")
    with pytest.raises(CredentialsError, match="have expired"):
        on_demand_prices("eu-west-1", ["g6e.xlarge"], "linux")


def test_no_credentials_no_answer_and_no_region(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.clouds.aws.calls.ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(UnreachableError, match="no answer"):
        spot_prices("us-east-1", [], "linux", CLOCK)
    for name in ENVIRONMENT:
        if name.startswith("AWS_") and "KEY" in name:
            monkeypatch.delenv(name)
    with pytest.raises(CredentialsError, match="no AWS credentials"):
        spot_prices("us-east-1", [], "linux", CLOCK)


@given(st.recursive(st.none() | st.text(max_size=6) | st.floats(), lambda inner: st.lists(inner, max_size=2)
       | st.dictionaries(st.sampled_from(["terms", "OnDemand", "priceDimensions", "pricePerUnit", "USD"]), inner)))  # fmt: skip
def test_any_row_of_the_price_list_is_a_price_or_nothing(row: object) -> None:
    price = _hourly(row)
    assert price is None or price > 0
    assert positive(row) is None or positive(row) == float(str(row))


# Azure


def azure_item(kind: str, sku: str, usd: float, **changes: object) -> dict[str, object]:
    return {
        "currencyCode": "USD", "retailPrice": usd, "armRegionName": "eastus", "armSkuName": kind, "skuName": sku,
        "meterName": sku, "productName": "Virtual Machines X", "unitOfMeasure": "1 Hour", "type": "Consumption",
        "effectiveStartDate": "2026-02-01T00:00:00Z", **changes,
    }  # fmt: skip


def test_azures_prices_come_in_pages_and_only_what_was_asked_for_counts() -> None:
    kind = "Standard_NC24ads_A100_v4"
    asked: list[Asked] = []
    first = json.loads(data("notices", "azure", "retail_prices_page.json").read_text())
    second = {
        "Items": [
            azure_item(kind, "NC24ads A100 v4", 3.67),
            azure_item(kind, "NC24ads A100 v4 Low Priority", 0.7),
            azure_item(kind, "NC24ads A100 v4 Spot", 1.4, productName="Virtual Machines X Windows"),
            azure_item(kind, "NC24ads A100 v4", 0.0),
            azure_item("Standard_D4", "D4", 0.1),
            azure_item(kind, "NC24ads A100 v4", 20000.0, unitOfMeasure="1 Year"),
        ],
        "NextPageLink": None,
    }

    def answer(request: Asked) -> Reply:
        asked.append(request)
        if "skip" in request.path:
            return 200, "application/json", json.dumps(second)
        link = f"http://{request.headers['host']}/api/retail/prices?skip=100"
        return 200, "application/json", json.dumps({**first, "NextPageLink": link})

    with serving(answer) as url:
        found = retail_prices(f"{url}/api/retail/prices", "eastus", [kind], "linux")
    assert len(asked) == 2
    wanted = urllib.parse.parse_qs(asked[0].path.partition("?")[2])["$filter"][0]
    assert "armSkuName eq 'Standard_NC24ads_A100_v4'" in wanted
    pool = by_pool(found)[f"azure/eastus/{kind}/linux"]
    assert pool.spot is not None
    assert pool.on_demand is not None
    assert (pool.spot.usd_per_hour, pool.on_demand.usd_per_hour) == (0.98, 3.67)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ((429, "text/plain", ""), UnreachableError),
        ((200, "text/html", "<html>"), DamagedError),
        ((200, "application/json", "{}"), DamagedError),
        (
            (200, "application/json", '{"Items": [], "NextPageLink": "http://169.254.169.254/latest"}'),
            DamagedError,
        ),
    ],
)
def test_answers_of_azure_that_are_no_prices(reply: Reply, error: type[ReprieveError]) -> None:
    with serving(lambda asked: reply) as url, pytest.raises(error):
        retail_prices(url, "eastus", ["Standard_D4"], "linux")


def test_azures_pages_without_an_end() -> None:
    def answer(request: Asked) -> Reply:
        link = f"http://{request.headers['host']}/loop"
        return 200, "application/json", json.dumps({"Items": [], "NextPageLink": link})

    with serving(answer) as url, pytest.raises(DamagedError, match="no end"):
        retail_prices(url, "eastus", ["Standard_D4"], "linux")
    with pytest.raises(UsageError, match="no name"):
        retail_prices("http://127.0.0.1:1", "eastus", ["x' or 1 eq 1"], "linux")


# The cache


def price(kind: str, label: str, usd: float, zone: str = "", provider: str = "aws") -> Price:
    return Price(provider, "r", kind, "linux", label, usd, zone=zone, source="s", basis="b")  # type: ignore[arg-type]  # one of the two kinds


def test_a_pull_replaces_what_it_asked_for_and_keeps_the_rest(tmp_path: Path) -> None:
    assert price_cache.load(tmp_path) == []
    price_cache.save(
        tmp_path,
        [price("a", "spot", 1.0, "z1"), price("a", "spot", 2.0, "z2"), price("b", "spot", 3.0)],
        "T1",
    )
    price_cache.save(tmp_path, [price("a", "spot", 1.5, "z2"), price("a", "on_demand", 9.0)], "T2")
    kept = {(row.price.instance_type, row.price.kind, row.price.zone): (row.price.usd_per_hour, row.fetched_at)
            for row in price_cache.load(tmp_path)}  # fmt: skip
    assert kept == {
        ("a", "spot", "z2"): (1.5, "T2"),
        ("a", "on_demand", ""): (9.0, "T2"),
        ("b", "spot", ""): (3.0, "T1"),
    }
    assert price_cache.load(tmp_path, providers=("azure",)) == []
    assert price_cache.load(tmp_path, region="elsewhere") == []
    assert (tmp_path / price_cache.FILE).stat().st_mode & 0o077 == 0 or (tmp_path.stat().st_mode & 0o077) == 0


def test_a_broken_cache_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / price_cache.FILE).write_bytes(b"not a database, but long enough to be looked at" * 40)
    with pytest.raises(ReprieveError, match="delete the file and pull again"):
        price_cache.load(tmp_path)


def test_the_newest_row_counts_and_the_cheapest_zone_makes_the_pool() -> None:
    older, newer = (
        Price("aws", "r", "a", "linux", "spot", 1.0, "z", "2026-01-01"),
        Price("aws", "r", "a", "linux", "spot", 2.0, "z", "2026-02-01"),
    )
    assert newest([newer, older]) == (newer,)
    pool = by_pool(
        [price("a", "spot", 2.0, "z1"), price("a", "spot", 1.0, "z2"), price("a", "on_demand", 4.0)]
    )["aws/r/a/linux"]
    assert pool.spot is not None
    assert (pool.spot.zone, pool.discount) == ("z2", 0.75)
