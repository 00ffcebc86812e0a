"""A session is recorded, bounded and cleaned, and stepped through by time; nothing can be done in it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from backends.clock import format_utc
from backends.errors import DamagedError, NotFoundError, UsageError
from console.cli.commands import replay as command
from console.operations.view import FleetView
from console.tui import recorder
from console.tui.app import ConsoleApp
from console.tui.model import recorded
from console.tui.model.recorded import Tape
from console.tui.replay import TapeClock, TapeSource
from console.tui.screens.overlays import Help
from tests.support.cli import invocation, reprieve
from tests.support.tui_app import running
from tests.support.tui_fleet import NOON, StillClock, rich_view


def later(view: FleetView, seconds: float, state: str) -> FleetView:
    node = dataclasses.replace(view.nodes[0], state=state)  # type: ignore[arg-type]  # a state by name
    return dataclasses.replace(view, taken_at=NOON + seconds, nodes=(node, *view.nodes[1:]))


def story() -> list[FleetView]:
    view = rich_view()
    heard = tuple(dataclasses.replace(node, as_of=NOON) for node in view.nodes)  # as the poller dates them
    view = dataclasses.replace(view, taken_at=NOON, nodes=heard)
    return [later(view, 0, "ok"), later(view, 10, "silent"), later(view, 20, "ok"), later(view, 200, "lost")]


def recording(views: list[FleetView]) -> bytes:
    writing = recorded.Writing()
    return b"".join(writing.piece(view) for view in views)


def test_what_was_recorded_is_read_back_and_only_changes_are_kept() -> None:
    data = recording(story())
    assert [(view.taken_at, view.nodes[0].state) for view in recorded.views(data.splitlines(True))] == [
        (NOON, "ok"), (NOON + 10, "silent"), (NOON + 20, "ok"), (NOON + 200, "lost"),
    ]  # fmt: skip
    assert len(data) < 1.5 * len(recording(story()[:1]))


def test_a_recording_that_was_cut_short_ends_at_its_last_whole_snapshot() -> None:
    data = recording(story())
    assert len(list(recorded.views(data[:-5].splitlines(True)))) == 3
    with pytest.raises(DamagedError, match="no recording"):
        list(recorded.views([b"{}\n"]))
    with pytest.raises(DamagedError):
        list(recorded.views([recorded.HEAD, b"what\n"]))
    with pytest.raises(NotFoundError, match="no snapshot"):
        Tape([])


def test_hostile_text_in_a_recording_is_cleaned_when_it_is_read() -> None:
    view = story()[0]
    bad = dataclasses.replace(view, nodes=(dataclasses.replace(view.nodes[0], reason="a\x1b]52;c;eA==\x07"),))
    (read,) = recorded.views(recording([bad]).splitlines(True))
    assert "\x1b" not in read.nodes[0].reason
    assert "\x07" not in read.nodes[0].reason


def test_steps_and_moments() -> None:
    tape = Tape(story())
    tape.seek(NOON + 15)
    assert tape.place == 1
    tape.step(1)
    assert tape.place == 2
    tape.step(0, 60)  # nothing was recorded for a minute after: across the gap
    assert tape.place == 3
    tape.step(5)
    assert tape.place == 3
    tape.step(0, -60)
    assert tape.place == 2
    tape.seek(NOON - 1000)
    assert tape.place == 0
    assert recorded.moment("13:59", NOON) == NOON - 60
    assert recorded.moment("14:00:30", NOON) == NOON + 30 - 86400  # not yet today
    assert recorded.moment("2026-12-01T14:00:00Z", NOON) == NOON
    with pytest.raises(UsageError, match="03:12"):
        recorded.moment("noonish", NOON)


async def test_a_session_is_recorded_and_replayed(tmp_path: Path) -> None:
    async with running(record=tmp_path) as session:
        await session.pass_time(10)
        await session.refreshed()
    (file,) = recorder.files(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert len(recorder.read(file)) >= 2


async def test_a_folder_that_cannot_be_written_is_told_once_and_the_console_goes_on(tmp_path: Path) -> None:
    (tmp_path / recorder.FOLDER).write_text("in the way")
    async with running(record=tmp_path) as session:
        await session.until(lambda: bool(session.toasts()), "nothing was said")
        assert "nothing more is kept" in session.toasts()[0]
        assert session.table.rows


async def test_recordings_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StillClock()
    size = len(recording(story()[:1]))
    monkeypatch.setattr(recorder, "FILE_LIMIT", size)
    monkeypatch.setattr(recorder, "TOTAL_LIMIT", 4 * size)
    keeping = recorder.Recorder(tmp_path, clock, pytest.fail)
    for number in range(12):
        clock.advance(3)
        keeping.take(later(story()[0], 3.0 * number, "ok"))
        await keeping.close()
    files = recorder.files(tmp_path)
    assert sum(file.stat().st_size for file in files) <= 4 * size + 200
    assert recorder.begins(files[-1]) == NOON + 33
    assert recorder.covering(tmp_path, format_utc(NOON + 31), NOON + 60) == files[-2]
    with pytest.raises(NotFoundError, match="oldest"):
        recorder.covering(tmp_path, format_utc(NOON - 5), NOON)


async def test_the_keys_of_a_recording() -> None:
    tape = Tape(story())
    clock = TapeClock(tape, StillClock())
    app = ConsoleApp(TapeSource(tape), clock, tape=tape, start="fleet")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:

        def shown() -> str:
            return "\n".join(strip.text for strip in app.screen._compositor.render_strips())

        async def expect(words: str) -> None:
            for _ in range(200):
                if words in " ".join(shown().split()):
                    return
                await pilot.pause(0.02)
            raise AssertionError(f"{words!r} is not shown:\n{shown()}")

        await expect("4 of 4")
        await pilot.press("left_square_bracket")
        await expect("REPLAY 2026-12-01T14:00:20")
        await pilot.press("left_square_bracket", "left_square_bracket")
        await expect("1 of 4")
        await pilot.press("right_square_bracket")
        await expect("2 of 4")
        await pilot.press("right_curly_bracket")
        await expect("3 of 4")
        await pilot.press("right_curly_bracket")
        await expect("4 of 4")
        await pilot.press("left_curly_bracket")
        await expect("3 of 4")
        await expect(" RO ")
        await pilot.press("2", "S")
        await expect("this console is read-only")
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, Help)
        assert "a minute back" in [words for _, _, words in app.screen._live]


async def test_outside_a_recording_its_keys_are_none() -> None:
    async with running() as session:
        await session.press("left_square_bracket")
        await session.press("question_mark")
        assert "a snapshot back" not in session.said()


async def test_a_recording_refuses_to_act() -> None:
    source = TapeSource(Tape(story()))
    with pytest.raises(UsageError, match="recording"):
        await source.perform("jobs save", {"name": "a"}, print)
    with pytest.raises(UsageError, match="not kept"):
        await source.ask("checkpoints", {})
    assert (await source.view()).read_only


def test_what_happened_then_in_one_command(tmp_path: Path) -> None:
    file = tmp_path / "one.ndjson"
    file.write_bytes(recording(story()))
    asked = invocation(
        arguments={"file": str(file), "at": "14:00:12"}, output="json", words="replay", clock=StillClock()
    )
    assert command.run(asked) == 0
    found = json.loads(asked.renderer.stream.getvalue())  # type: ignore[attr-defined]  # StringIO
    assert found["name"].startswith("2026-12-01T14:00:10")
    assert found["nodes"][0]["state"] == "silent"
    ran = reprieve(tmp_path, "replay", str(file), "--at", "14:00:12")
    assert ran.code == 0
    assert "silent" in ran.out
    assert "llama-ft" in ran.out
    missing = reprieve(tmp_path, "replay", "--at", "03:12")
    assert missing.code == 1
    assert "record = true" in missing.err
