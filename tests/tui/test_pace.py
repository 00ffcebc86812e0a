"""What keeps keys quick: frame rate, collections, and no layout of the whole screen for words that are there already."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from console.tui import themes
from console.tui.widgets.bars import GuideStrip
from console.tui.widgets.caption import Caption
from console.tui.widgets.prompt import Prompt

CHILD = """
import gc, sys
from console.tui import pace
pace.before_textual()
pace.at_start()
kept = [[] for _ in range(50_000)]
pace.settled()
from textual import constants
print(constants.MAX_FPS, gc.get_threshold()[0], sys.getswitchinterval(), gc.get_freeze_count() > 50_000)
"""


@pytest.mark.parametrize(("environment", "frames"), [({}, "120"), ({"TEXTUAL_FPS": "30"}, "30")])
def test_the_process_is_set_up_for_keys(environment: dict[str, str], frames: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=True, env=environment
    )
    assert found.stdout.split() == [frames, "10000", "0.001", "True"]


class _App(App[None]):
    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.defaults()

    def compose(self) -> ComposeResult:
        yield Caption()
        yield GuideStrip()
        yield Prompt()


async def test_the_same_words_again_lay_out_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    real: Callable[..., None] = Static.update

    def update(self: Static, content: object = "", *, layout: bool = True) -> None:
        asked.append(layout)
        real(self, content, layout=layout)

    app = _App()
    async with app.run_test():
        monkeypatch.setattr(Static, "update", update)
        for words in ("one", "one", "two", "two", "one"):
            app.query_one(Caption).say(words)
            app.query_one(GuideStrip).say(words)
            app.query_one(Prompt).hint(words)
        assert len(asked) == 3 * 4  # the guide has two parts
        assert str(app.query_one("#hint", Static).render()) == "one"
