"""The mouse does what the keys do."""

from __future__ import annotations

from tests.support.tui_app import running


async def test_click_moves_twice_opens_a_title_sorts() -> None:
    async with running(size=(80, 24)) as session:
        await session.until(
            lambda: session.table.region.height > 10 and "▸" in session.text(), "not laid out yet"
        )
        await session.pilot.click(session.table, offset=(6, 4))
        assert session.table.rows.index(session.table.rows.cursor) == 2
        name = session.cursor
        await session.pilot.click(session.table, offset=(6, 1))
        assert session.table.rows.sort == "job"
        assert session.cursor == name
        await session.pilot.click(session.table, offset=(6, 1))
        assert session.table.rows.descending
        await session.pilot.click(session.table, offset=(6, 3), times=2)
        await session.until(lambda: session.board.has_class("-zoomed"), "a double click did not open the row")


async def test_a_click_on_a_footer_key_presses_it_and_buttons_work() -> None:
    async with running(size=(120, 40)) as session:
        await session.until(lambda: "S save" in session.text(), "no footer")
        line = session.text().splitlines()[-1]
        await session.pilot.click("KeyFooter", offset=(line.index("S save"), 0))
        await session.dialog()
        await session.pilot.click("#yes")
        assert session.fleet.performed == [], "too early"
        await session.pass_time(0.6)
        for _ in range(20):  # a click that falls between two layouts of a busy machine meets nothing
            if not session.app.screen.query("#yes"):
                break
            await session.pilot.click("#yes")
            await session.pilot.pause(0.05)
        await session.until(lambda: len(session.fleet.performed) == 1, "the button did nothing")


async def test_a_click_below_the_rows_changes_nothing() -> None:
    async with running(size=(80, 24)) as session:
        name = session.cursor
        await session.pilot.click(session.table, offset=(6, 20))
        assert session.cursor == name
