"""The screens at three sizes and without colour, against pictures that were looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from textual.pilot import Pilot

from console.tui import themes
from console.tui.app import ConsoleApp
from console.tui.widgets.table import RowTable
from tests.support.tui_fleet import ScriptedFleet, StillClock, rich_view

SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM", "TEXTUAL_ANIMATIONS"):
        monkeypatch.delenv(name, raising=False)
    yield
    os.environ.pop("NO_COLOR", None)


def console(theme: str = themes.NIGHT, start: str = "jobs", **changes: Any) -> ConsoleApp:
    clock = StillClock()
    return ConsoleApp(ScriptedFleet(clock, rich_view(**changes)), clock, theme=theme, start=start)


async def settled(pilot: Pilot[Any]) -> None:
    app = pilot.app
    assert isinstance(app, ConsoleApp)
    for _ in range(250):
        board = app.board()
        if board is not None and len(board.table.rows) and board.table._pending is None:
            break
        await pilot.pause(0.02)
    for _ in range(5):
        await pilot.pause()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("screen", ["fleet", "jobs", "events"])
def test_screen(snap_compare: Any, screen: str, size: tuple[int, int]) -> None:
    assert snap_compare(console(start=screen), terminal_size=size, run_before=settled)


@pytest.mark.parametrize("screen", ["fleet", "jobs", "events"])
def test_monochrome(snap_compare: Any, monkeypatch: pytest.MonkeyPatch, screen: str) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(console(start=screen), terminal_size=(120, 40), run_before=settled)


@pytest.mark.parametrize("theme", [themes.CONTRAST, themes.TERMINAL])
def test_theme(snap_compare: Any, theme: str) -> None:
    assert snap_compare(console(theme), terminal_size=(120, 40), run_before=settled)


def test_confirmation(snap_compare: Any) -> None:
    async def ask(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        await pilot.press("S")
        await pilot.pause()

    assert snap_compare(console(), terminal_size=(80, 24), run_before=ask)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("screen", ["checkpoints", "pools", "planner", "batch"])
def test_asked_screen(snap_compare: Any, screen: str, size: tuple[int, int]) -> None:
    assert snap_compare(console(start=screen), terminal_size=size, run_before=answered)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_wizard_where(snap_compare: Any, size: tuple[int, int]) -> None:
    async def ask(pilot: Pilot[Any]) -> None:
        pilot.app.desk.wish.begin("fold-9")  # type: ignore[attr-defined]  # the console's
        await answered(pilot)

    assert snap_compare(console(start="restore"), terminal_size=size, run_before=ask)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["0", "L", "comma"])
def test_panel(snap_compare: Any, key: str) -> None:
    async def open_panel(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        await pilot.press(key)
        await answered(pilot)

    assert snap_compare(console(), terminal_size=(120, 40), run_before=open_panel)


async def answered(pilot: Pilot[Any]) -> None:
    """Wait until every look has been answered and drawn."""
    app = pilot.app
    assert isinstance(app, ConsoleApp)
    for _ in range(100):
        tables = list(app.screen.query(RowTable))
        known = list(app.desk.looks._known.values())
        full = all(len(table.rows) for table in tables if table.region)
        if app.desk.feed.view is not None and full and not any(each.asking for each in known):
            break
        await pilot.pause(0.02)
    frame = app.frame()
    for _ in range(5):
        await pilot.pause(0.02)
    if frame is not None:
        frame.tick()
    await pilot.pause()
