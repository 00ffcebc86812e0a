"""Habits in the running console: keys of the user's own, views, export, copying, sources."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from console.config.habits import Habits, View
from console.tui.screens.dialog import Confirm
from tests.support.tui_app import running


async def test_a_moved_key_acts_and_the_old_one_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with running(habits=Habits(keys={"job.save": "f5"})) as session:
        await session.press("2", "/")
        await session.type("llama")
        await session.press("enter", "S")
        assert not isinstance(session.app.screen, Confirm)
        await session.press("f5")
        await session.dialog()
        assert "Save llama-ft now" in session.text()


async def test_views_export_copy_and_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMUX", "")
    worst = View("jobs", "risk>20m", "job")
    async with running(habits=Habits(views={"worst": worst}), start="fleet") as session:
        session.app.say_line("view worst")
        await session.until(
            lambda: session.app.current_mode == "jobs" and len(session.table.rows) == 4, "not the view"
        )
        assert session.table.rows.sort == "job"
        await session.press("x")
        files = list(tmp_path.glob("reprieve-jobs-*.csv"))
        assert len(files) == 1
        assert files[0].stat().st_mode & 0o777 == 0o600
        rows = list(csv.DictReader(files[0].open(encoding="utf-8")))
        assert [row["job"] for row in rows] == ["fold-9", "gromacs-02", "sd3-lora", "whisper-large-distil"]
        assert rows[2]["pid"] == "881"
        session.app.say_line("export json")
        await session.pilot.pause()
        document = json.loads(next(tmp_path.glob("*.json")).read_text(encoding="utf-8"))
        assert document["items"][0]["next"] is not None or document["items"][0]["node"] == "gpu-d"
        await session.press("x")
        assert "File exists" in session.toasts()[-1], "a file is never written over"
        await session.press("c")
        assert session.app.clipboard == session.cursor
        await session.press("i")
        await session.expect("Where the figures come from")
        await session.expect("never below the truth")
        session.app.say_line("view nosuch")
        await session.expect("no view 'nosuch': worst")


def test_a_formula_is_only_a_text() -> None:
    from console.tui.model import export

    assert export._harmless("=1+1") == "'=1+1"
    assert export._harmless(-3.0) == -3.0
    assert export._harmless(None) == ""
    assert export.file_name("jobs", "2026-12-01T14:00:00.123Z", "csv") == "reprieve-jobs-20261201T140000Z.csv"
