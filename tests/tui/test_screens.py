"""The screens whose rows are asked for, the planner, the wizard and the panels: from keys to commands."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from typing import Any

import pytest

from backends.errors import UnreachableError
from console.tui.modes import IDS
from console.tui.screens.choose import Choose
from console.tui.screens.dialog import Confirm
from console.tui.screens.planner import Planner
from console.tui.screens.restore import Restore
from console.tui.widgets.detail import DetailPane
from tests.support.tui_app import Session, running
from tests.support.tui_fleet import ScriptedFleet, rich_view


def is_mode(session: Session, mode: str) -> bool:
    return session.app.current_mode == mode


async def go_to(session: Session, name: str, screen: str = "2") -> None:
    await session.press(screen)
    await session.until(lambda: len(session.table.rows) > 0, "no rows")
    await session.until(
        lambda: session.table.rows.select(next((key for key in session.table.rows.order if name in session.board.name_of(session.table.rows.get(key))), ""), 0.0),
        f"no {name}",
    )  # fmt: skip
    session.table._moved()
    await session.pilot.pause()


def wizard(session: Session) -> Restore:
    frame = session.app.frame()
    assert isinstance(frame, Restore)
    return frame


async def at_step(session: Session, step: int) -> None:
    await session.until(
        lambda: isinstance(session.app.frame(), Restore) and wizard(session).step == step,
        f"not at step {step}",
    )
    if step == 2:
        await session.until(lambda: len(wizard(session).places.rows) > 0, "no places")


@pytest.mark.slow
async def test_eight_keys_eight_screens() -> None:
    async with running() as session:
        for number, mode in enumerate(IDS, 1):
            await session.press(str(number))
            await session.until(functools.partial(is_mode, session, mode), mode)
            assert mode.capitalize() in session.text()
            await session.press("2")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_the_wizard_restores_from_keys_to_command(size: tuple[int, int]) -> None:
    async with running(size=size) as session:
        await go_to(session, "fold-9")
        await session.press("R")
        await at_step(session, 2)
        await session.expect("does not")
        await session.press("down", "enter")
        await at_step(session, 3)
        for words in ("to free-1", "35m 22s and counting", "new epoch 2"):
            await session.expect(words)
        await session.expect("asks once more, then begins")
        await session.press("enter")
        await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == 1, "nothing was performed")
        assert session.fleet.performed == [("jobs restore", {"name": "fold-9", "to": "free-1"})]
        await at_step(session, 4)
        await session.until(lambda: "is it really back?" in session.text().lower(), "no proofs are shown")


async def test_any_node_leaves_the_choice_to_the_gate() -> None:
    async with running() as session:
        await go_to(session, "fold-9")
        await session.press("R")
        await at_step(session, 2)
        await session.press("enter", "enter")
        await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == 1, "nothing was performed")
        assert session.fleet.performed == [("jobs restore", {"name": "fold-9"})]


async def test_every_place_says_why_and_one_that_does_not_fit_is_refused() -> None:
    async with running() as session:
        await go_to(session, "fold-9")
        await session.press("R")
        await at_step(session, 2)
        table = wizard(session).places
        for place in (table.rows.get(key) for key in table.rows.order):
            assert place is not None
            assert place.reasons or place.fits, f"{place.name} says nothing"
        table.rows.select("node/l40s-1", 0.0)
        table._moved()
        await session.pilot.pause()
        why = wizard(session).query_one("#why", DetailPane).words
        assert "GPU model: 8x H100 in the save, 2x L40S on this node" in why
        assert "kernel: 6.12.9 in the save" in why
        await session.press("enter")
        assert wizard(session).step == 2
        assert "l40s-1 does not fit: GPU model" in session.toasts()[-1]


@pytest.mark.slow
async def test_a_job_that_runs_is_not_restored_onto_its_own_node_and_move_is_offered() -> None:
    async with running() as session:
        await go_to(session, "llama-ft")
        await session.press("R")
        await at_step(session, 2)
        place = wizard(session).places.rows.get("node/gpu-a")
        assert place is not None
        assert place.fits is False
        assert place.reasons[0] == "llama-ft runs here now"
        await session.press("enter")
        await at_step(session, 3)
        await session.expect("running on gpu-a: move (M) saves first and")


async def test_an_older_checkpoint_names_itself_and_the_greater_loss() -> None:
    async with running(size=(120, 40)) as session:
        await go_to(session, "fold-9/1.13", "3")
        await session.press("R")
        await at_step(session, 2)
        await session.press("enter")
        await at_step(session, 3)
        await session.expect("Not the newest checkpoint, which is 1.14")
        await session.expect("50m 22s and counting")
        await session.press("enter")
        await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == 1, "nothing was performed")
        assert session.fleet.performed == [("jobs restore", {"name": "fold-9", "checkpoint": "1.13"})]


async def test_a_damaged_checkpoint_is_not_taken() -> None:
    async with running() as session:
        await go_to(session, "fold-9/1.12", "3")
        await session.press("R")
        assert "pack 3 does not match its digest" in session.toasts()[-1]
        assert session.app.current_mode == "checkpoints"


@pytest.mark.slow
async def test_a_half_filled_wizard_survives_a_look_elsewhere_and_steps_back() -> None:
    async with running() as session:
        await go_to(session, "fold-9")
        await session.press("R")
        await at_step(session, 2)
        await session.press("enter")
        await at_step(session, 3)
        await session.press("1", "7")
        assert wizard(session).step == 3
        await session.press("escape")
        assert wizard(session).step == 2
        await session.press("A")
        await session.until(lambda: wizard(session).step == 1, "not at the start")
        await session.until(lambda: len(wizard(session).saves.rows) == 10, "not every checkpoint")


@pytest.mark.slow
async def test_the_wizard_performs_nothing_when_read_only() -> None:
    async with running(dataclasses.replace(rich_view(), read_only=True)) as session:
        await session.press("3")
        await session.until(lambda: len(session.table.rows) == 10, "no rows")
        await session.press("R")
        assert "read-only" in session.toasts()[-1]
        await session.press("7")
        await session.until(lambda: len(wizard(session).saves.rows) > 0, "no checkpoints")
        await session.press("enter")
        await at_step(session, 2)
        await session.press("enter")
        await at_step(session, 3)
        await session.press("enter")
        assert "read-only" in session.toasts()[-1]
        assert not isinstance(session.app.screen, Confirm)


@pytest.mark.slow
async def test_verify_reads_a_checkpoint_back() -> None:
    async with running() as session:
        await go_to(session, "protein-mpnn/1.21", "3")
        await session.press("V")
        await session.until(lambda: len(session.fleet.performed) == 1, "nothing was performed")
        assert session.fleet.performed == [
            ("checkpoints verify", {"name": "protein-mpnn", "checkpoint": "1.21"})
        ]


@pytest.mark.slow
async def test_an_answer_that_stays_away_says_so_and_keeps_the_last_one_with_its_age() -> None:
    async with running() as session:
        await session.press("3")
        await session.until(lambda: len(session.table.rows) == 10, "no rows")
        session.fleet.ask_failure = UnreachableError("store s3://ml: no answer in 20 s")
        await session.pass_time(31)
        await session.until(lambda: "STALE 31s: store s3://ml: no answer" in session.text(), "no word of it")
        assert len(session.table.rows) == 10


@pytest.mark.slow
async def test_nothing_is_asked_for_a_screen_that_is_not_shown() -> None:
    async with running() as session:
        await session.pass_time(100)
        assert session.fleet.asked == []
        await session.press("8")
        await session.until(lambda: session.fleet.asked == [("batches", {"items": True})], "not asked")
        await session.press("2")
        asked = len(session.fleet.asked)
        await session.pass_time(100)
        assert len(session.fleet.asked) == asked


@pytest.mark.slow
async def test_batch_shows_each_item_with_its_reason_and_how_to_go_on() -> None:
    async with running(size=(120, 40)) as session:
        await session.press("8")
        await session.until(lambda: len(session.table.rows) == 2, "no rows")
        assert "reprieve batch resume 20261201-1349-c2" in session.detail
        await session.press("down")
        assert "exit code 137 after the third restore" in session.detail


@pytest.mark.slow
async def test_a_pool_goes_to_the_planner() -> None:
    async with running(size=(120, 40)) as session:
        await session.press("5")
        await session.until(lambda: len(session.table.rows) == 12, "no rows")
        await session.press("n")
        await session.until(lambda: session.app.current_mode == "planner", "no planner")
        screen = session.app.frame()
        assert isinstance(screen, Planner)
        await session.until(lambda: screen.typed["discount"] == "0.89", "the discount was not taken")
        assert screen.typed["band"] == "10-15%"
        assert not screen.typed.get("reclaims")
        await session.expect("Spot pays")


async def test_the_planner_redraws_as_values_are_typed_and_names_what_is_wrong() -> None:
    async with running(size=(120, 40)) as session:
        await session.press("6")
        await session.expect("cost 7.35 on-demand hours")
        await session.press("i", "tab", "backspace", "1")
        await session.until(
            lambda: "9.7 % saved" in session.text() or "8.1 % saved" in session.text(), "not computed again"
        )
        await session.press("x")
        await session.until(lambda: "discount d:" in session.text(), "the field is not named")
        await session.press("escape", "E")
        await session.until(lambda: "69.4 % saved" in session.text(), "the example did not come back")
        assert "discount d:" not in session.text(), "what was wrong is not wrong any more"


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_every_curve_has_its_numbers(size: tuple[int, int]) -> None:
    async with running(size=size) as session:
        await session.press("6", "t")
        await session.pilot.pause()
        if size[0] == 80:
            assert "Saving against the reclaims suffered" in session.text()
            await session.press("t")
        await session.until(lambda: "SAVING FOR EACH NUMBER OF RECLAIMS" in session.text(), "no numbers")
        await session.press("t")
        await session.until(lambda: "SAVING FOR EACH" not in session.text(), "the numbers stayed")
        assert "69.4 % saved" in session.text()


@pytest.mark.slow
async def test_a_job_goes_to_the_planner_with_what_is_known_of_it() -> None:
    async with running(size=(120, 40)) as session:
        await go_to(session, "llama-ft")
        await session.press("n")
        await session.until(lambda: "Save every" in session.text(), "no advice")
        assert "for llama-ft" in session.text()


async def test_an_interval_is_set_by_the_planners_advice() -> None:
    async with running() as session:
        await go_to(session, "llama-ft")
        await session.press("I")
        await session.until(lambda: isinstance(session.app.screen, Choose), "no choice")
        await session.expect("advised")
        await session.press("enter")
        await session.dialog()
        await session.expect("interval=")
        await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == 1, "nothing was performed")
        words, arguments = session.fleet.performed[0]
        assert words == "jobs set"
        assert arguments["changes"][0].startswith("interval=")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "line", "words"),
    [("X", "stop llama-ft", "jobs stop"), ("H", "rehearse llama-ft", "jobs rehearse"), ("", "interval llama-ft 7m", "jobs set"),
     ("", "jobs set llama-ft interval=7m", "jobs set")],
)  # fmt: skip
async def test_keys_and_words_open_the_same_dialog(key: str, line: str, words: str) -> None:
    async with running() as session:
        await go_to(session, "llama-ft")
        for way in ([key] if key else []) + [":"]:
            await session.press(way)
            if way == ":":
                session.app.screen.query_one("#line").value = line  # type: ignore[attr-defined]  # an Input
                await session.press("enter")
            await session.dialog()
            await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == (2 if key else 1), "not performed")
        assert {performed for performed, _ in session.fleet.performed} == {words}


async def test_kill_wants_the_name_typed() -> None:
    async with running() as session:
        await session.press(":")
        await session.type("kill llama-ft")
        await session.press("enter")
        await session.dialog()
        await session.pass_time(0.6)
        await session.press("y", "enter")
        assert session.fleet.performed == []
        await session.expect("lost for good")
        await session.press("backspace")
        await session.type("llama-ft")
        await session.press("enter")
        await session.until(lambda: len(session.fleet.performed) == 1, "not performed")
        assert session.fleet.performed == [("jobs stop", {"name": "llama-ft", "now": True})]


@pytest.mark.slow
async def test_drain_cordons_then_saves_and_checks_the_guard() -> None:
    async with running() as session:
        await go_to(session, "gpu-a", "1")
        await session.press("N")
        await session.confirm()
        await session.until(lambda: len(session.fleet.performed) == 3, "not performed")
        assert [words for words, _ in session.fleet.performed] == ["fleet cordon", "jobs save", "jobs save"]
        nodes = tuple(
            dataclasses.replace(node, guard="g-other") if node.name == "gpu-c" else node
            for node in session.fleet.current.nodes
        )
        await go_to(session, "gpu-c", "1")
        await session.press("N")
        session.fleet.current = dataclasses.replace(session.fleet.current, nodes=nodes)
        await session.confirm()
        await session.until(
            lambda: any("guard was g-5f2a91, is g-other" in toast for toast in session.toasts()), "not told"
        )
        assert ("fleet cordon", {"name": "gpu-c"}) not in session.fleet.performed


@pytest.mark.slow
async def test_an_operation_of_this_console_can_be_given_up_others_cannot() -> None:
    async with running() as session:
        session.fleet.gate = asyncio.Event()
        await go_to(session, "llama-ft")
        await session.press("S")
        await session.confirm()
        await session.press("0")
        await session.until(lambda: "jobs save llama-ft" in session.text(), "not listed")
        await session.press("G", "X")
        assert "belongs to another console" in session.toasts()[-1] or "has ended" in session.toasts()[-1]
        await session.press("g", "X")
        await session.dialog()
        await session.expect("a claimed epoch stays claimed")
        await session.confirm()
        await session.until(lambda: session.app.desk.tasks.operations[0].state == "cancelled", "not given up")


@pytest.mark.slow
async def test_log_and_settings() -> None:
    async with running() as session:
        await session.press("L")
        await session.until(lambda: "jobs move old-run --to gpu-b" in session.text(), "no log")
        assert "exit 6" in session.text()
        await session.press("escape", "comma")
        await session.expect("theme")
        await session.press("escape")
        await session.press(":")
        await session.type("log")
        await session.press("enter")
        await session.until(lambda: "everything that was done" in session.text(), "no log by words")


@pytest.mark.slow
async def test_a_hanging_look_freezes_no_key() -> None:
    def hang(fleet: ScriptedFleet) -> None:
        async def ask(words: str, arguments: dict[str, Any]) -> dict[str, Any]:
            await asyncio.get_running_loop().create_future()
            raise AssertionError(words, arguments)

        fleet.ask = ask  # type: ignore[method-assign]  # a store that never answers

    async with running(prepare=hang) as session:
        await session.press("3", "5", "7", "8", "6", "2", "down")
        assert session.app.current_mode == "jobs"
        await session.press("3")
        assert "asking…" in session.text()
        await session.pass_time(61)
        await session.until(lambda: "no answer for 60 s" in session.text(), "its silence is not told")
