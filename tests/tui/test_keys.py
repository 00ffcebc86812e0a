"""From keys to what happens: every binding of the three screens."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from textual.binding import Binding

from backends.errors import NoProofError
from console.tui.app import ConsoleApp
from console.tui.screens.board import Board
from console.tui.screens.checkpoints import Checkpoints
from console.tui.screens.choose import Choose
from console.tui.screens.dialog import Confirm
from console.tui.screens.events import Events
from console.tui.screens.fleet import Fleet
from console.tui.screens.frame import Frame
from console.tui.screens.jobs import Jobs
from console.tui.screens.operations import Operations
from console.tui.screens.overlays import Help
from console.tui.screens.planner import Planner
from console.tui.screens.pools import Pools
from console.tui.screens.restore import Restore
from console.tui.widgets.bars import GuideStrip, KeyFooter
from console.tui.widgets.table import RowTable
from tests.support.tui_app import Session, running
from tests.support.tui_fleet import rich_view


async def go_to(session: Session, job: str) -> None:
    await session.press("2")
    key = next(key for key in session.table.rows.order if session.table.rows.get(key).name == job)  # type: ignore[union-attr]  # it is there
    session.table.rows.select(key, session.clock.wall())
    session.table._moved()
    await session.pilot.pause()
    assert session.cursor == job


async def test_save_is_performed_after_y() -> None:
    async with running() as session:
        await go_to(session, "llama-ft")
        await session.press("S")
        assert isinstance(session.app.screen, Confirm)
        text = session.text()
        assert "llama-ft" in text
        assert "212 GiB" in text
        assert "reprieve --context ml-team jobs save llama-ft" in text
        await session.confirm()
        await session.until(lambda: bool(session.toasts()), "no word on the outcome")
        assert session.fleet.performed == [("jobs save", {"name": "llama-ft"})]
        assert session.toasts() == ["llama-ft: jobs save done"]


@pytest.mark.parametrize("key", ["escape", "n", "enter"])
async def test_a_dialog_left_does_nothing(key: str) -> None:
    async with running() as session:
        await go_to(session, "llama-ft")
        await session.press("S")
        await session.pass_time(0.6)
        await session.press(key)
        assert not isinstance(session.app.screen, Confirm)
        assert session.fleet.performed == []


async def test_keys_count_only_after_half_a_second() -> None:
    async with running() as session:
        await go_to(session, "llama-ft")
        await session.press("S", "y", "y", "enter", "escape")
        assert isinstance(session.app.screen, Confirm)
        await session.pass_time(0.4)
        await session.press("y")
        assert session.fleet.performed == []
        await session.pass_time(0.2)
        await session.press("y")
        await session.until(lambda: len(session.fleet.performed) == 1, "y did nothing after the guard")


async def test_move_goes_to_a_node() -> None:
    async with running() as session:
        await go_to(session, "llama-ft")
        await session.press("M", "enter")
        assert "final save on gpu-a" in session.text()
        await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == 1, "nothing was performed")
        assert session.fleet.performed == [("jobs move", {"name": "llama-ft", "to": "free-1"})]


async def test_pause_and_resume() -> None:
    async with running() as session:
        await go_to(session, "llama-ft")
        await session.press("P")
        assert "work at risk grows without limit" in session.text()
        await session.confirm()
        await go_to(session, "sd3-lora")
        await session.press("P")
        await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == 2, "not both were performed")
        assert [words for words, _ in session.fleet.performed] == ["jobs pause", "jobs resume"]


async def test_production_wants_the_name_typed() -> None:
    async with running(rich_view(production=True)) as session:
        await go_to(session, "llama-ft")
        await session.press("P")
        assert "PRODUCTION" in session.text()
        await session.pass_time(0.6)
        await session.press("y")
        assert isinstance(session.app.screen, Confirm), "y alone must not do"
        await session.press("backspace")
        await session.type("llama-f")
        await session.press("enter")
        assert isinstance(session.app.screen, Confirm), "a wrong name must not do"
        await session.type("t")
        await session.press("enter")
        await session.until(lambda: len(session.fleet.performed) == 1, "the right name did nothing")


async def test_production_lifts_a_save_to_a_disturbing_one_not_to_typing() -> None:
    async with running(rich_view(production=True)) as session:
        await go_to(session, "llama-ft")
        await session.press("S")
        await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == 1, "y did nothing")
        assert session.fleet.performed == [("jobs save", {"name": "llama-ft"})]


@pytest.mark.parametrize("key", ["S", "R", "M", "P"])
async def test_read_only_says_why(key: str) -> None:
    async with running(rich_view(read_only=True)) as session:
        await go_to(session, "llama-ft")
        await session.press(key)
        assert isinstance(session.app.screen, Board)
        assert "read-only" in session.toasts()[-1]
        assert session.fleet.performed == []


@pytest.mark.parametrize("word", ["save", "restore", "move", "pause"])
async def test_read_only_holds_for_typed_words(word: str) -> None:
    async with running(rich_view(read_only=True)) as session:
        await session.press(":")
        await session.type(f"{word} llama-ft")
        await session.press("enter")
        await session.until(lambda: bool(session.toasts()), "no reason given")
        assert isinstance(session.app.screen, Board)
        assert session.fleet.performed == []


async def test_read_only_turned_on_while_the_dialog_is_open() -> None:
    async with running() as session:
        await go_to(session, "llama-ft")
        await session.press("S")
        session.fleet.current = rich_view(read_only=True)
        looks = session.fleet.looks
        session.app.desk.feed.refresh()
        await session.until(lambda: session.fleet.looks > looks, "not looked at")
        await session.confirm()
        assert session.fleet.performed == []
        assert "read-only" in session.toasts()[-1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"epoch": 4}, "epoch was 3, is 4"), ({"pid": 9}, "pid was 4121, is 9"), ({"node": "gpu-c"}, "node was gpu-a, is gpu-c"), ({"uid": "x" * 20}, "another job")],
)  # fmt: skip
async def test_a_job_that_changed_is_left_alone(changes: dict[str, object], words: str) -> None:
    async with running() as session:
        await go_to(session, "llama-ft")
        await session.press("S")
        session.fleet.change_job("llama-ft", **changes)
        await session.confirm()
        await session.until(lambda: bool(session.toasts()), "nothing was said")
        assert session.fleet.performed == []
        assert words in session.toasts()[-1]


async def test_a_job_that_vanished_is_left_alone() -> None:
    async with running() as session:
        await go_to(session, "llama-ft")
        await session.press("S")
        session.fleet.remove_job("llama-ft")
        await session.confirm()
        await session.until(lambda: bool(session.toasts()), "nothing was said")
        assert session.fleet.performed == []
        assert "no longer in the fleet" in session.toasts()[-1]


async def test_marks_save_several_and_leave_out_hidden_ones() -> None:
    async with running() as session:
        await session.press("2", "/")
        await session.type("fold")
        await session.press("enter", "*")
        assert len(session.table.rows.marks) == 2
        await session.press("escape", "/")
        await session.type("fold-9")
        await session.press("enter", "S")
        assert "1 marked job hidden by the filter: left out" in session.text()
        await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == 1, "nothing was performed")
        assert session.fleet.performed == [("jobs save", {"name": "fold-9"})]


async def test_restore_of_several_is_refused() -> None:
    async with running() as session:
        await session.press("2", "space", "space", "R")
        assert isinstance(session.app.screen, Board)
        assert "batch restore" in session.toasts()[-1]


async def test_no_checkpoint_no_restore() -> None:
    async with running() as session:
        await go_to(session, "diffusion-xl")
        await session.press("R")
        assert "no checkpoint yet" in session.toasts()[-1]


async def test_the_operations_own_error_is_told() -> None:
    async with running() as session:
        session.fleet.perform_failure = NoProofError(
            "gpu-d: nothing proves it is gone", hint="wait, or fence it"
        )
        await session.press(":")
        await session.type("restore fold-9 --to free-1")
        await session.press("enter")
        await session.confirm()
        await session.until(lambda: bool(session.toasts()), "nothing was said")
        assert "nothing proves it is gone (wait, or fence it)" in session.toasts()[-1]
        await session.press("0")
        assert "failed" in session.text()


async def test_a_bug_in_an_operation_does_not_end_the_console() -> None:
    async with running() as session:
        session.fleet.perform_failure = RuntimeError("boom [/b]")
        await go_to(session, "llama-ft")
        await session.press("S")
        await session.confirm()
        await session.until(lambda: bool(session.toasts()), "nothing was said")
        assert "RuntimeError: boom [/b]" in session.toasts()[-1]
        await session.press("1")
        assert isinstance(session.app.screen, Fleet)


async def test_operations_outlive_screens_and_show_their_step() -> None:
    import asyncio

    async with running() as session:
        session.fleet.gate = asyncio.Event()
        await go_to(session, "llama-ft")
        await session.press("S")
        await session.confirm()
        await session.press("4", "1", "0")
        assert isinstance(session.app.screen, Operations)
        await session.until(lambda: "uploading 212 MiB" in session.text(), "no step")
        assert "jobs save llama-ft" in session.text()
        await session.press("escape", "q")
        assert isinstance(session.app.screen, Choose), "quitting must ask while an operation runs"
        await session.press("enter")
        session.fleet.gate.set()
        await session.until(lambda: bool(session.toasts()), "nothing was said")
        assert session.app.desk.tasks.running == 0


async def test_save_all_jobs_of_a_node() -> None:
    async with running() as session:
        await session.press("1", "down")
        assert session.cursor == "gpu-a"
        await session.press("S")
        assert "llama-ft, diffusion-xl" in session.text()
        await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == 3, "not every job was saved")


async def test_screens_by_key_and_back() -> None:
    async with running() as session:
        for key, mode in (("1", "fleet"), ("4", "events"), ("minus", "fleet"), ("2", "jobs")):
            await session.press(key)
            assert mode == session.board.MODE


@pytest.mark.parametrize(
    ("line", "screen"), [("fleet", Fleet), ("nodes", Fleet), ("events", Events), ("jobs", Jobs), ("ops", Operations), ("help", Help)],
)  # fmt: skip
async def test_words(line: str, screen: type[object]) -> None:
    async with running(start="events" if line != "events" else "fleet") as session:
        await session.press(":")
        await session.type(line)
        await session.press("enter")
        await session.until(lambda: isinstance(session.app.screen, screen), f":{line}")
        assert session.toasts() == []


async def test_words_take_a_filter_and_name_what_is_wrong() -> None:
    async with running() as session:
        await session.press(":")
        await session.type("jobs state=protected")
        await session.press("enter")
        await session.until(lambda: len(session.table.rows) == 1, "not filtered")
        assert session.cursor == "llama-ft"
        await session.press("escape", ":")
        await session.type("jbos")
        await session.press("enter")
        assert "did you mean 'jobs'" in session.toasts()[-1]


async def test_words_act_on_a_row_that_is_not_shown() -> None:
    async with running() as session:
        await session.press("2", "/")
        await session.type("zinc")
        await session.press("enter", ":")
        await session.type("restore fold-9 --to free-1")
        await session.press("enter")
        await session.until(lambda: isinstance(session.app.screen, Confirm), "no dialog")
        await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == 1, "nothing was performed")
        assert session.fleet.performed == [("jobs restore", {"name": "fold-9", "to": "free-1"})]


async def test_tab_completes_words_and_names() -> None:
    async with running() as session:
        await session.press(":", "s", "a", "tab", "space", "l", "l", "tab", "enter")
        await session.until(lambda: isinstance(session.app.screen, Confirm), "no dialog")
        assert "Save llama-ft now" in session.text()


async def test_filter_as_typed_and_escape_restores() -> None:
    async with running() as session:
        await session.press("2", "/")
        await session.type("fold")
        assert len(session.table.rows) == 2
        await session.press("escape")
        assert len(session.table.rows) == 18
        await session.press("/")
        await session.type("nosuch=1")
        await session.press("enter")
        assert "no column 'nosuch'" in session.text()


async def test_prompt_owns_every_key() -> None:
    async with running() as session:
        await session.press("2", "/", "S", "q", "1", "?")
        assert isinstance(session.app.screen, Jobs)
        assert session.table.rows.filter.source == "Sq1?"


async def test_help_lists_every_key_that_works() -> None:
    async with running(size=(120, 60)) as session:
        await session.press("2", "?")
        assert isinstance(session.app.screen, Help)
        listed = "\n".join(key + " " + words for _, key, words in session.app.screen._live)
        for binding in [*Jobs.BINDINGS, *Board.BINDINGS, *ConsoleApp.BINDINGS, *RowTable.BINDINGS]:
            assert isinstance(binding, Binding)
            if binding.action != "back":
                inside = (binding.id or "").startswith("replay.")  # they work in a recording only
                assert (binding.description in listed) is not inside


async def test_every_binding_has_an_id_of_its_own() -> None:
    ids = [
        binding.id
        for owner in (
            ConsoleApp,
            Frame,
            Board,
            Jobs,
            Fleet,
            Events,
            Checkpoints,
            Pools,
            Planner,
            Restore,
            Operations,
            RowTable,
            Confirm,
            Choose,
        )
        for binding in owner.BINDINGS
        if isinstance(binding, Binding)
    ]
    assert None not in ids
    shared = {"panel.leave", "view.ask"}  # the same key for the same thing on several screens
    assert len([name for name in ids if name not in shared]) == len(set(ids) - shared)


async def test_zoom_sort_copy_refresh_hold_guide() -> None:
    async with running() as session:
        await session.press("2", "z")
        assert session.board.has_class("-zoomed")
        await session.press("escape")
        assert not session.board.has_class("-zoomed")
        await session.press("o", "home", "enter")
        assert session.table.rows.sort == "job"
        await session.press("c")
        assert session.app.clipboard == session.cursor
        looks = session.fleet.looks
        await session.press("r")
        await session.until(lambda: session.fleet.looks == looks + 1, "r did not look")
        await session.press("p")
        assert "PAUSED" in session.text()
        await session.pass_time(10)
        assert session.fleet.looks == looks + 1
        await session.press("p")
        await session.until(lambda: session.fleet.looks > looks + 1, "p did not look again")
        session.app.say("1/7 [b]look[/b] here")
        await session.pilot.pause()
        assert "1/7 [b]look[/b] here" in session.text()
        await session.press("full_stop")
        assert "1/7" not in session.text()


async def test_events_follow() -> None:
    async with running(start="events") as session:
        await session.press("down", "down", "f")
        assert session.table.follow
        assert session.table.rows.index(session.table.rows.cursor) == 0
        await session.press("f")
        assert not session.table.follow


async def test_guide_from_an_iterator_goes_on_after_a_fault() -> None:
    async def story() -> object:
        yield "1/2 one"
        raise RuntimeError("lost the thread")

    async with running(guide=story()) as session:
        await session.until(lambda: "lost the thread" in session.text(), "the guide's end was not told")
        await session.press("1")
        assert isinstance(session.app.screen, Fleet)


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("ctrl+q", 0), ("ctrl+c", 130)])
async def test_quit(key: str, code: int) -> None:
    async with running() as session:
        await session.press(key)
    assert session.app.return_code == code


async def test_what_a_demo_waits_for_stands_below_the_guide_and_over_the_help_too() -> None:
    async def story() -> AsyncIterator[str]:
        yield "One sentence."

    async with running(size=(80, 24), guide=story(), awaited=lambda: "host-q is taken soon") as session:
        await session.expect("One sentence.")
        await session.pass_time(1.0)
        await session.expect("Now: host-q is taken soon")
        assert "next save: " in session.said()
        await session.press("question_mark")
        await session.expect("esc closes")
        await session.expect("Now: host-q is taken soon")
        await session.press("escape", "full_stop")
        assert "host-q" not in session.said()


LONG = "host-b gets a notice: 12 s. host-c is full (cordoned), so train-b will need a new machine, bare: no guard, no CRIU."


@pytest.mark.parametrize(
    ("size", "key", "title"),
    [((80, 24), "question_mark", "Help"), ((120, 40), "question_mark", "Help"), ((80, 24), "0", "Operations")],
)  # fmt: skip
async def test_a_panel_shows_the_guide_once_and_its_own_keys(
    size: tuple[int, int], key: str, title: str
) -> None:
    async def story() -> AsyncIterator[str]:
        yield LONG

    moment = "host-b is gone: the controller proves it, then restores train-b on a bare machine, guard and CRIU first"
    async with running(size=size, guide=story(), awaited=lambda: moment) as session:
        await session.expect("host-b gets a notice")
        await session.pass_time(1.0)
        (strip,) = session.app.screen.query(GuideStrip)
        assert strip.size.height <= (3 if size[1] < 34 else 6)
        assert " S save" in session.text().splitlines()[-1]
        await session.press(key)
        await session.expect(title)
        await session.pass_time(1.0)
        below, panel = session.app.screen_stack[-2:]
        for part in (GuideStrip, KeyFooter):  # the same lines are covered: none of them is seen twice
            assert panel.query_one(part).region == below.query_one(part).region
        last = session.text().splitlines()[-1]
        assert " S save" not in last, "no key is named that does nothing here"
        assert "esc back" in last
        await session.press("escape")
        assert " S save" in session.text().splitlines()[-1]


@pytest.mark.parametrize(("screen", "words"), [
    ("events", "zinc-screen came back on gpu-a from 1.8: 6m 21s lost, restored in 41 s"),
    ("jobs", "whisper-large-distil: a save is 18 minutes late: the store answers slowly"),
    ("fleet", "gpu-d: no SSH answer for 4m 11s; the cloud says running"),
    ("checkpoints", "fold-9 1.12: pack 3 does not match its digest; saved on gpu-d"),
])  # fmt: skip
async def test_what_a_narrow_table_cuts_off_is_told_below_it(screen: str, words: str) -> None:
    async with running(size=(80, 24), start=screen) as session:
        told = []
        for _ in range(len(session.table.rows)):
            told.append(words in session.said())
            await session.press("down")
    assert told.count(True) == 1, "told while the cursor is on its row, and only then"
