"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.tui.model import text
from console.tui.model.cells import Cell, Column, fit, gauge


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "–"), (0, "0s"), (0.9, "0s"), (-0.5, "0s"), (59.9, "59s"), (60, "1m 00s"), (252, "4m 12s"), (3599, "59m 59s"),
     (3600, "1h 00m"), (7420, "2h 03m"), (86400, "1d 00h"), (200000, "2d 07h"), (-75, "-1m 15s"), (float("nan"), "–"), (float("inf"), "–")],
)  # fmt: skip
def test_duration(seconds: float | None, expected: str) -> None:
    assert text.duration(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(None, "–"), (0.0123, "12ms"), (1.94, "1.9s"), (65, "1m 05s")]
)
def test_pause(seconds: float | None, expected: str) -> None:
    assert text.pause(seconds) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [(None, "–"), (0, "0 B"), (999, "999 B"), (1024, "1.0 KiB"), (212 << 30, "212 GiB"), (9 << 30, "9.0 GiB"), (1000 << 30, "1.0 TiB")],
)  # fmt: skip
def test_size(count: int | None, expected: str) -> None:
    assert text.size(count) == expected


def test_time_of_day_names_another_day() -> None:
    assert text.time_of_day(1796133600.0, 1796133600.0) == "14:00:00"
    assert text.time_of_day(1796133600.0 - 86400, 1796133600.0) == "11-30 14:00"
    assert text.time_of_day(None) == "–"
    assert text.time_of_day(1e300) == "–"


def test_seconds_of() -> None:
    assert text.seconds_of("2026-12-01T14:00:00.000Z") == 1796133600.0
    assert text.seconds_of("2026-12-01T14:00:00") is None
    assert text.seconds_of("soon") is None


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_durations_are_short_and_never_raise(seconds: float) -> None:
    assert len(text.brief(seconds)) <= len(text.duration(seconds))
    if abs(seconds) < 86400 * 100:
        assert len(text.duration(seconds)) <= 8


@given(st.floats(0, 3), st.integers(0, 40))
def test_gauge_fills_its_width_and_only_more_than_all_has_an_arrow(share: float, width: int) -> None:
    bar = gauge(share, width)
    assert len(bar) == width
    assert ("▶" in bar) == (share > 1 and width > 0)


def test_gauge_differs_without_colour() -> None:
    assert len({gauge(share, 10) for share in (None, 0.0, 0.5, 1.0, 1.2)}) == 5


widths = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=10
)


@given(widths, st.integers(1, 200), st.integers(0, 60))
def test_columns_always_fit(shape: list[tuple[int, int, int]], width: int, longest: int) -> None:
    columns = [
        Column[int](str(index), "T", lambda r, _: Cell(str(r)), lambda r, _: r, least, grow=grow, priority=priority if index else 0)
        for index, (least, grow, priority) in enumerate(shape)
    ]  # fmt: skip
    chosen = fit(columns, width, longest)
    assert chosen[0][0] is columns[0]
    assert sum(cells for _, cells in chosen) + 2 * (len(chosen) - 1) <= width
    assert [column.id for column, _ in chosen] == sorted((column.id for column, _ in chosen), key=int)
    assert all(cells >= min(column.width, width) for column, cells in chosen)


def test_the_least_important_column_goes_first() -> None:
    columns = [
        Column[int](name, name, lambda r, _: Cell(""), lambda r, _: r, 10, priority=priority)
        for name, priority in (("a", 0), ("b", 2), ("c", 1))
    ]
    assert [column.id for column, _ in fit(columns, 34)] == ["a", "b", "c"]
    assert [column.id for column, _ in fit(columns, 33)] == ["a", "c"]
    assert [column.id for column, _ in fit(columns, 12)] == ["a"]
