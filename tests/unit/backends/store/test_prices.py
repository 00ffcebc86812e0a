"""List prices of stores: known for the three providers, unknown for everything else."""

from __future__ import annotations

import pytest

from backends.store.prices import list_price


def test_a_gib_month_costs_about_the_list_price_of_a_gb() -> None:
    price = list_price("s3://bucket/prefix?region=eu-west-1")
    assert price is not None
    assert price.usd_per_gib_day * 730 / 24 == pytest.approx(0.023 * 1.0737, rel=1e-3)
    assert price.usd_per_save == pytest.approx(0.0001)


@pytest.mark.parametrize(
    "url", ["file:///srv/x", "s3://b?endpoint=https://own.example", "", "memory://store"]
)
def test_what_has_no_list_price_is_unknown(url: str) -> None:
    assert list_price(url) is None
