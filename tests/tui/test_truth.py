"""What is on screen is true: time ticks, silence is told, a lost source ends nothing."""

from __future__ import annotations

from console.tui.model.words import JOB
from tests.support.tui_app import running
from tests.support.tui_fleet import LostError, job, rich_view, settled_view


async def test_work_at_risk_ticks_every_second() -> None:
    async with running(settled_view()) as session:
        assert "21s" in session.text()
        await session.pass_time(1)
        assert "22s" in session.text()
        assert "A reclaim this second would cost 22s" in session.detail


async def test_the_notice_counts_down() -> None:
    async with running(start="fleet") as session:
        assert "NOTICE 1m 37s" in session.text()
        session.fleet.hanging = True
        await session.pass_time(7)
        assert "NOTICE 1m 30s" in session.text()


async def test_a_wall_clock_that_jumps_changes_no_figure() -> None:
    async with running(settled_view()) as session:
        session.fleet.hanging = True
        session.clock.jump(-7200)
        await session.pass_time(1)
        assert "A reclaim this second would cost 22s" in session.detail
        session.clock.jump(86400)
        await session.pass_time(1)
        assert "A reclaim this second would cost 23s" in session.detail


async def test_a_lost_source_is_told_and_the_last_picture_stays() -> None:
    async with running(settled_view(), size=(200, 60)) as session:
        session.fleet.failure = LostError("ssh: no route to host")
        await session.pass_time(2)
        await session.until(lambda: "no route to host" in session.text(), "the failure was not told")
        assert "train-a" in session.text()
        session.fleet.failure = None
        for _ in range(20):
            await session.pass_time(5)
        await session.until(lambda: "no route to host" not in session.text(), "it never came back")


async def test_ages_grow_into_late_and_stale_while_nothing_comes() -> None:
    async with running(settled_view(), size=(200, 60)) as session:
        session.fleet.hanging = True
        await session.pass_time(14.5)
        await session.pass_time(1)
        assert "fleet LATE" in session.text()
        for _ in range(60):
            await session.pass_time(1)
        assert "fleet STALE 1m" in session.text()
        assert "no answer for 20 s" in session.text()


async def test_a_source_that_never_answers_leaves_every_key_alive() -> None:
    async with running(ready=False, prepare=lambda fleet: setattr(fleet, "hanging", True)) as session:
        await session.until(lambda: session.app.frame() is not None, "no screen")
        await session.press("1", "2", "4", "?", "escape", "0", "escape", "S", "j", "enter")
        assert "connecting" in session.text()
        await session.press("q")
    assert session.app.return_code == 0


async def test_a_bug_in_the_source_ends_nothing() -> None:
    async with running(
        ready=False, prepare=lambda fleet: setattr(fleet, "failure", ZeroDivisionError("x"))
    ) as session:
        await session.until(lambda: "ZeroDivisionError" in session.text(), "not told")
        await session.press("1", "2")
        assert session.app.is_running


async def test_no_controller_is_said_on_every_screen() -> None:
    for size in ((80, 24), (120, 40), (200, 60), (60, 14)):
        async with running(size=size) as session:
            for screen in "123":
                await session.press(screen)
                await session.pilot.pause()
                assert "NO CONTROLLER since 13:39:40" in session.text(), (size, screen)


async def test_stale_rows_carry_a_tilde_and_say_at_least() -> None:
    async with running() as session:
        await session.press("2", "/")
        await session.type("fold-9")
        await session.press("enter")
        assert "~fold-9" in session.text()
        assert "~35m 22s" in session.text()
        assert "would cost at least 35m 22s" in session.detail


async def test_unknown_is_a_dash_never_zero() -> None:
    async with running(
        rich_view(jobs=(job("new", "unprotected", "gpu-a", None, interval_s=None),))
    ) as session:
        row = next(line for line in session.text().splitlines() if " new " in line)
        assert "0s" not in row
        assert "–" in row
        assert "Unknown what a reclaim this second would cost" in session.detail


async def test_the_row_under_the_cursor_leaves_a_ghost() -> None:
    async with running() as session:
        await session.press("2", "/")
        await session.type("fold")
        await session.press("enter")
        assert session.cursor == "fold-9"
        session.fleet.remove_job("fold-9")
        await session.refreshed()
        assert session.cursor == "fold-9"
        assert "gone" in session.text()
        await session.press("S")
        assert "no job is under the cursor" in session.toasts()[-1]
        await session.press("down")
        assert session.cursor == "fold-10"
        assert "~fold-9" not in session.text()


async def test_a_refresh_that_reorders_keeps_job_and_line() -> None:
    async with running(size=(80, 24)) as session:
        await session.press("2", "down", "down")
        name = session.cursor
        session.fleet.change_job(name, risk_base_s=1.0)
        await session.refreshed()
        assert session.cursor == name
        assert f"▸ {name}" in session.text()


async def test_every_state_reads_without_colour() -> None:
    async with running(size=(200, 60)) as session:
        await session.press("2")
        text = session.text()
        for word in JOB.values():
            assert str(word) in text


async def test_ages_of_nodes_belong_to_the_newest_snapshot() -> None:
    async with running(start="fleet") as session:
        for _ in range(12):
            await session.pass_time(2)
            await session.refreshed()
        row = next(line for line in session.text().splitlines() if " gpu-a " in line)
        assert " 2s " in row, "an age counted from an older snapshot grows with every refresh"
