"""Durations, sizes, rates, fractions: what is taken, what is refused, and that formats read back."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner import quantities as q


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2.5h", 9000), ("P1DT2H", 93600), ("PT0.5S", 0.5), ("1d", 86400),
     ("500ms", 0.5), ("5min", 300), ("P1W", 604800), ("0s", 0)],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert q.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "m",
        "10 m m",
        "30m1h",
        "1h1h",
        "-5m",
        "nan",
        "infs",
        "P",
        "PT",
        "P1",
        "1e999s",
        "١٠m ",
        "10m\n10m",
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(q.QuantityError):
        q.parse_duration(text)


def test_bare_numbers_only_where_allowed() -> None:
    assert q.parse_hours("24") == 24
    assert q.parse_hours("90m") == 1.5
    assert q.parse_seconds("120") == 120
    assert q.parse_seconds("2m") == 120


@pytest.mark.parametrize(
    ("text", "size"), [("670GiB", 670 * 2**30), ("32GB", 32 * 10**9), ("5", 5), ("1.5 KiB", 1536), ("0", 0)]
)
def test_sizes(text: str, size: int) -> None:
    assert q.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "5 gib", "-1GB", "nan", "1e400GB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(q.QuantityError):
        q.parse_size(text)


def test_rates_and_fractions() -> None:
    assert q.parse_rate("10GB/s") == 1e10
    assert q.parse_fraction("70%") == pytest.approx(0.7)
    assert q.parse_fraction("-0.62") == -0.62
    for text in ("10GB", "fast", "/s"):
        with pytest.raises(q.QuantityError):
            q.parse_rate(text)
    for text in ("%", "inf", "seventy"):
        with pytest.raises(q.QuantityError):
            q.parse_fraction(text)


@given(st.text(max_size=30))
@example("0\x1f")
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (
        q.parse_duration,
        q.parse_hours,
        q.parse_seconds,
        q.parse_size,
        q.parse_rate,
        q.parse_fraction,
    ):
        try:
            assert math.isfinite(parse(text))
        except q.QuantityError as error:
            assert "\n" not in str(error)


@given(st.floats(min_value=1, max_value=1e7))
def test_formatted_durations_read_back_within_their_last_unit(seconds: float) -> None:
    shown = q.format_duration(seconds, digits=4)
    assert q.parse_duration(shown.replace(" ", "")) == pytest.approx(seconds, abs=0.51)


def test_unknown_is_a_dash() -> None:
    assert q.format_duration(None) == q.format_size(None) == q.format_fraction(None) == "–"
    assert q.format_duration(252) == "4m 12s"
    assert q.format_size(230_000_000) == "219 MiB"
    assert q.format_fraction(0.69375) == "69.4 %"
