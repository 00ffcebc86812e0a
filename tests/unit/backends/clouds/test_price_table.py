"""Prices from a table of the user: the real ones of ../shared/data, and what is no table."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.clouds.gpus import gpu_of
from backends.clouds.price_table import read_table
from backends.clouds.prices import by_pool, status
from backends.errors import UsageError
from tests.support.data import data

HEAD = "region,instance_type,spot_usd_per_hour,on_demand_usd_per_hour\n"


def test_a_real_table_with_gaps() -> None:
    table = gzip.decompress(data("spot-price", "gcp_all_machines_2026-07-30.csv.gz").read_bytes())
    pools = by_pool(read_table(table, "x/machines.csv", "gcp", "linux"))
    pool = pools["gcp/asia-east1/a3-highgpu-8g/linux"]
    assert pool.spot is not None
    assert (pool.spot.since, pool.spot.source) == ("2026-07-30T00:00:00Z", "machines.csv")
    assert pool.discount == pytest.approx(1 - 47.9983088219178 / 102.358780070575)
    assert sum(status(each) == "no spot price" for each in pools.values()) == 168


def test_of_a_history_the_newest_date_counts_and_an_empty_price_is_a_gap() -> None:
    text = (
        "date,machine_type,region,on_demand_usd_h,spot_usd_h\n"
        "2026-02-01,a,r,4,\n2026-03-01,a,r,4,1.5\n2026-01-01,a,r,4,0.5\n2026-03-01,b,r,,\n"
    )
    pools = by_pool(read_table(text.encode(), "f", "gcp", "linux"))
    assert set(pools) == {"gcp/r/a/linux"}
    assert pools["gcp/r/a/linux"].discount == 0.625


def test_rows_of_another_system_are_left_out() -> None:
    text = "region,instance_type,spot_usd_per_hour,on_demand_usd_per_hour,os\nr,a,1,2,windows\nr,b,1,2,Linux\nr,c,1,2,\n"
    assert sorted(by_pool(read_table(text.encode(), "f", "vast", "linux"))) == [
        "vast/r/b/linux",
        "vast/r/c/linux",
    ]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("", "no column for region"),
        ("region,instance_type,on_demand_usd_per_hour\n", "no column for spot"),
        (HEAD + "r,a,x,2\n", "f:2: spot_usd_per_hour is 'x'"),
        (HEAD + "r,a,1,2\nr,b,0,2\n", "f:3: spot_usd_per_hour is '0'"),
        (HEAD + "r,a,nan,2\n", "more than 0 is expected"),
        (HEAD + "r,a,-1,2\n", "more than 0 is expected"),
        ("\udcff", "not CSV in UTF-8"),
    ],
)
def test_what_is_no_table_is_named_with_its_line(table: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_table(table.encode("utf-8", "surrogateescape"), "f", "gcp", "linux")


@given(st.text(max_size=60))
def test_any_text_is_prices_or_one_line(text: str) -> None:
    try:
        found = read_table((HEAD + text).encode("utf-8", "replace"), "f", "gcp", "linux")
    except UsageError as error:
        assert "\n" not in error.message
    else:
        assert all(
            price.usd_per_hour > 0 and "/" not in price.region + price.instance_type for price in found
        )


def test_gpus_of_types() -> None:
    assert gpu_of("azure", "Standard_ND96isr_H100_v5") == ("H100", 8)
    assert gpu_of("gcp", "a3-highgpu-8g") == ("H100", 8)
    assert gpu_of("gcp", "n1-standard-8") is None
    assert gpu_of("vast", "a3-highgpu-8g") is None
