"""Every size works: small terminals show less and refuse nothing."""

from __future__ import annotations

import pytest

from tests.support.tui_app import running

SIZES = [
    (200, 60), (160, 44), (159, 43), (120, 40), (100, 34), (99, 24), (80, 24), (79, 23), (60, 14), (40, 10), (39, 9),
    (20, 5), (10, 3), (3, 2), (1, 1), (80, 24),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("screen", list("12345678"))
async def test_every_screen_draws_and_moves_at_every_size(screen: str) -> None:
    async with running(size=SIZES[0]) as session:
        await session.press(screen)
        for size in SIZES:
            await session.pilot.resize_terminal(*size)
            await session.press("down", "G", "g", "enter", "escape", "0", "escape")
            assert session.app.is_running
            lines = session.text().splitlines()
            assert len(lines) <= size[1]
            assert all(len(line) <= size[0] for line in lines), size


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (1, 1)])
async def test_it_starts_in_a_tiny_terminal(size: tuple[int, int]) -> None:
    async with running(size=size) as session:
        await session.press("?", "escape", "S", "escape", "down")
        assert session.app.is_running


async def test_down_to_twenty_by_five_and_back() -> None:
    async with running(size=(120, 40)) as session:
        await session.press("2", "down", "down", "down")
        await session.pilot.pause()
        name, shape = session.cursor, session.text().splitlines()[2:4]
        await session.pilot.resize_terminal(20, 5)
        await session.pilot.pause()
        assert session.cursor == name
        assert "18 jobs" in session.text()
        await session.press("S")
        await session.pass_time(0.6)
        await session.press("escape")
        await session.pilot.resize_terminal(120, 40)
        await session.pilot.pause()
        assert session.cursor == name
        assert session.text().splitlines()[2:4] == shape
        assert f"▸ {name}" in session.text()


async def test_what_each_size_class_shows() -> None:
    async with running(size=(200, 60)) as session:
        await session.press("2")
        await session.pilot.pause()
        assert session.board.query_one("#detail").display
        assert session.board.query_one("#side").region.width > 50
        assert session.board.query_one("#recent").region.height > 5
        await session.pilot.resize_terminal(120, 40)
        await session.pilot.pause()
        assert session.board.query_one("#side").region.y > session.table.region.y
        await session.pilot.resize_terminal(80, 24)
        await session.pilot.pause()
        assert session.board.query_one("#side").region.area == 0
        assert "NO CONTROLLER since 13:39:40" in session.text()
        await session.press("enter")
        await session.pilot.pause()
        assert session.table.region.area == 0
        assert "A reclaim this second would cost" in session.text()
        await session.press("escape")
        assert session.table.region.area > 0


async def test_the_clipped_cursor_row_is_always_visible() -> None:
    async with running(size=(80, 12)) as session:
        await session.press("2", "G")
        assert session.cursor[:12] in session.text()
        await session.pilot.resize_terminal(80, 24)
        await session.pilot.resize_terminal(80, 8)
        await session.pilot.pause()
        assert session.cursor[:12] in session.text()
