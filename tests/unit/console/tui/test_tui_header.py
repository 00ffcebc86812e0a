"""The context bar: what is never dropped, and when a source is late or stale."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.tui.model import header
from tests.support.tui_fleet import NOON, rich_view, settled_view


def words(state: header.Header, width: int = 400) -> str:
    return "  ".join(cell.text for cell in header.fit(header.left(state), width))


@pytest.mark.parametrize(
    ("name", "age", "expected"),
    [("fleet", 3.0, "fleet 3s"), ("fleet", 15.0, "fleet LATE 15s"), ("fleet", 60.0, "fleet STALE 1m"), ("fleet", None, "fleet –"),
     ("prices", 2460.0, "prices 41m"), ("prices", 7200.0, "prices LATE 2h"), ("bands", 86400.0, "bands 1d")],
)  # fmt: skip
def test_ages(name: str, age: float | None, expected: str) -> None:
    assert header.source_word(name, age).text == expected


def test_ages_go_on_while_nothing_is_heard() -> None:
    assert "fleet 1s" in words(header.Header(settled_view(), NOON))
    assert "fleet STALE 1m" in words(header.Header(settled_view(), NOON + 60, elapsed_s=60))


def test_what_must_not_be_overlooked_survives_every_width() -> None:
    state = header.Header(
        rich_view(production=True, read_only=True), NOON, failure="no route", paused=True, operations=2
    )
    full = words(state)
    for part in (
        "ml-team",
        "RO",
        "PRODUCTION",
        "PAUSED",
        "✗ no route",
        "NO CONTROLLER since 13:39:40",
        "cloud LATE 41s",
        "ops 3▸",
    ):
        assert part in full
    narrow = words(state, 10)
    for part in ("RO", "PRODUCTION", "PAUSED", "NO CONTROLLER since 13:39:40"):
        assert part in narrow
    assert "fleet" not in narrow


def test_healthy_sources_go_before_unhealthy_ones() -> None:
    text = words(header.Header(rich_view(), NOON), 70)
    assert "cloud LATE" in text
    assert "store" not in text


def test_without_data() -> None:
    assert words(header.Header(None, NOON)) == "connecting…"
    assert "no data yet" in words(header.Header(None, NOON, failure="refused"))


def test_never_seen_a_controller() -> None:
    assert "NO CONTROLLER" in words(header.Header(rich_view(no_controller_since=None), NOON))
    assert "controller watch@ops-1" in words(header.Header(settled_view(), NOON))


@given(st.integers(1, 300))
def test_more_room_never_shows_less(width: int) -> None:
    state = header.Header(rich_view(), NOON, failure="x")
    assert len(words(state, width)) <= len(words(state, width + 10))


@pytest.mark.parametrize("width", [20, 50, 60, 68, 80, 120])
def test_whether_a_controller_lives_is_said_at_every_width_while_a_restore_runs(width: int) -> None:
    """At 80 columns a running operation pushed the controller out, and nothing stood in its place."""
    text = words(header.Header(settled_view(), NOON, operations=1, failure="no route to the node"), width)
    assert "controller" in text
    assert "NO CONTROLLER" not in text
