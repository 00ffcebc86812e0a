"""Hostile text in every field (RC-23, RC-24): no exception, nothing of it acts, no control byte is drawn."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.errors import ReprieveError
from console.tui.model.incoming import safe
from tests.support.tui_app import Session, running
from tests.support.tui_fleet import ScriptedFleet
from tests.support.tui_hostile import (
    CASES,
    CONTROL,
    FORBIDDEN,
    MARKUP,
    hostile_answers,
    hostile_view,
    strings,
)

ROOT = Path(__file__).resolve().parents[2]


def check(session: Session) -> None:
    found = FORBIDDEN.search(session.text())
    assert found is None, repr(found)


def test_the_case_files_were_read() -> None:
    if not CASES.exists():
        pytest.skip(f"{CASES} is not here: the strings kept in tests/support/tui_hostile.py are used alone")
    assert len(strings()) >= len(MARKUP) + len(CONTROL)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_every_screen_and_panel_draws_it_as_text(size: tuple[int, int]) -> None:
    async with running(hostile_view(), size=size) as session:
        for screen in "124":
            await session.press(screen)
            await session.until(lambda: len(session.table.rows) > 20, "no rows")
            for _ in range(len(strings())):
                session.table.action_step(1)
                await session.pilot.pause()
                check(session)
            await session.press("z")
            check(session)
            await session.press("escape", "0")
            check(session)
            await session.press("escape", "?")
            check(session)
            await session.press("escape")
            assert session.app.is_running


@pytest.mark.slow
async def test_dialogs_and_toasts_draw_it_as_text() -> None:
    async with running(hostile_view()) as session:
        await session.press("2", "o", "home", "enter")
        for number, text in enumerate(strings()):
            session.table.rows.move_to(number, session.clock.wall())
            session.table._moved()
            session.fleet.perform_failure = ReprieveError(text, hint=text)
            session.fleet.steps = (text, text)
            await session.press("S")
            check(session)
            await session.confirm()
            await session.until(lambda: session.app.desk.tasks.running == 0, "still running")
            await session.pilot.pause()
            check(session)
            session.app.say(text)
            await session.pilot.pause()
            check(session)
        assert len(session.fleet.performed) == len(strings())
        await session.press("R")
        check(session)


async def test_the_first_rows_of_every_screen_draw_it_as_text() -> None:
    async with running(hostile_view(), size=(120, 60)) as session:
        for screen in "124":
            await session.press(screen)
            await session.until(lambda: len(session.table.rows) > 20, "no rows")
            check(session)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_looked_up_screens_wizard_and_panels_draw_it_as_text(size: tuple[int, int]) -> None:
    def poisoned(fleet: ScriptedFleet) -> None:
        fleet.answers = hostile_answers()

    async with running(hostile_view(), size=size, prepare=poisoned) as session:
        for key in (
            "3",
            "z",
            "escape",
            "5",
            "z",
            "escape",
            "8",
            "z",
            "escape",
            "6",
            "0",
            "escape",
            "L",
            "escape",
            "comma",
            "escape",
        ):
            await session.press(key)
            await session.pilot.pause(0.05)
            check(session)
        await session.press("7")
        await session.until(lambda: "SAVED" in session.text() or "CKPT" in session.text(), "no checkpoints")
        for key in ("enter", "down", "down", "enter", "escape", "home", "enter", "enter", "escape", "escape"):
            await session.press(key)
            await session.pilot.pause(0.05)
            check(session)
        assert session.app.is_running


async def test_brackets_are_shown_exactly() -> None:
    async with running(hostile_view(), size=(200, 60)) as session:
        await session.press("2")
        session.table.sort_by("job")
        await session.press("/")
        await session.type("todo")
        await session.press("enter")
        assert "[TODO] x" in session.text()
        session.app.notify("[/b] x", markup=False)
        await session.pilot.pause()
        assert "[/b] x" in session.text()


@pytest.mark.slow
async def test_a_failing_source_with_a_hostile_message() -> None:
    for text in (*MARKUP, *CONTROL):
        async with running(
            ready=False, prepare=lambda fleet, text=text: setattr(fleet, "failure", ValueError(text))
        ) as session:
            await session.until(lambda: session.app.desk.feed.failure is not None, "no failure seen")
            await session.pilot.pause()
            check(session)


def test_cleaning_is_idempotent() -> None:
    for text in strings():
        assert safe(safe(text)) == safe(text)
        assert FORBIDDEN.search(safe(text)) is None


PROGRAM = """
import asyncio, sys
from tests.support.tui_fleet import ScriptedFleet, StillClock
from tests.support.tui_hostile import hostile_answers, hostile_view
from backends.clock import SystemClock
from console.tui.app import ConsoleApp

class Loud(ScriptedFleet):
    async def view(self):
        return self.current

fleet = Loud(StillClock(), hostile_view())
fleet.answers = hostile_answers()
app = ConsoleApp(fleet, SystemClock())
app.run()
print("ENDED", app.return_code)
"""


def _read(fd: int, seconds: float, until: bytes = b"") -> bytes:
    data = b""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([fd], [], [], 0.1)
        if ready:
            try:
                data += os.read(fd, 65536)
            except OSError:
                break
            if until and until in data:
                break
    return data


def test_nothing_hostile_reaches_a_pseudo_terminal() -> None:
    master, slave = pty.openpty()
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLUMNS": "120",
        "LINES": "40",
        "PYTHONPATH": str(ROOT),
        "LANG": "C.UTF-8",
    }
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=environment,
        start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    try:
        data = _read(master, 30, until=b"Jobs")
        for key in (
            "1",
            "3",
            "4",
            "5",
            "7",
            "8",
            "2",
            "\x1b[B",
            "\x1b[B",
            "z",
            "\x1b",
            "0",
            "\x1b",
            "?",
            "\x1b",
        ):
            os.write(master, key.encode())
            data += _read(master, 0.3)
        for _ in range(10):  # where an Escape and the key after it were read as one, a panel is still open
            os.write(master, b"q")
            data += _read(master, 3, until=b"ENDED 0")
            if b"ENDED 0" in data:
                break
        assert b"ENDED 0" in data, data[-2000:]
        assert process.wait(timeout=20) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=10)
        os.close(master)
    text = data.decode("utf-8", "replace")
    for evil in (
        "\x1b]52;",
        "\x1b]0;PWNED",
        "\x1b[6n",
        "\x1b]8;;https://evil",
        "\x1bP1$t",
        "\x9b31m",
        "\u202e",
        "\u200b",
        "\x00",
    ):
        assert evil not in text, f"{evil!r} reached the terminal"
    known = re.compile(
        r"\x1b(?:\[[0-9;:?<>=$]*[A-Za-z~]|[78=>cM]|\(B|\][0-9;]*;?[^\x07\x1b]*(?:\x07|\x1b\\)|P[^\x1b]*\x1b\\\\)"
    )
    rest = known.sub("", text)
    assert "PWNED" in rest, "the title text is shown, harmlessly"
    assert "\x1b" not in rest.replace("\x1b\\", "")
    assert "\x07" not in rest
    assert "\x7f" not in rest
