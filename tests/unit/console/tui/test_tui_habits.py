"""The user's file: themes, keys by id with their clash check, saved views; the clipboard's words."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from textual.theme import Theme

from backends.errors import UsageError
from console.config import habits
from console.tui import keymap, themes
from console.tui.app import ConsoleApp
from console.tui.model import clipboard
from console.tui.modes import IDS


def written(tmp_path: Path, text: str) -> habits.Habits:
    file = tmp_path / "console.toml"
    file.write_text(text, encoding="utf-8")
    return habits.read(file, themes.SHORT, IDS)


def test_no_file_is_no_habit(tmp_path: Path) -> None:
    assert habits.read(tmp_path / "console.toml", themes.SHORT, IDS) == habits.Habits()


def test_a_whole_file(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        'theme = "day"\n[keys]\n"job.save" = "f5"\n[views.worst]\nscreen = "jobs"\nfilter = "risk>10m"\nsort = "risk"\ndescending = true\n',
    )
    assert found.theme == "day"
    assert keymap.checked(found, ConsoleApp) == {"job.save": "f5"}
    assert found.views["worst"] == habits.View("jobs", "risk>10m", "risk", descending=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('theme = "dya"', ":1: theme is 'dya'; did you mean 'day'?"),
        ("them = 1", "did you mean 'theme'?"),
        ('[keys]\n"job.save" = 3', ":2: key of 'job.save' is 3"),
        ('[views.a]\nscreen = "job"', ":2: view 'a': screen is 'job'; did you mean 'jobs'?"),
        ('[views.a]\nscreen = "jobs"\nsrot = "x"', ":3: unknown key 'srot'"),
        ('[views.a]\nscreen = "jobs"\ndescending = 1', ":3: view 'a': descending is 1"),
        ('[views.a]\nscreen = "jobs"\nfilter = 1', ":3: view 'a': filter is 1"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        written(tmp_path, text)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[keys]\n"job.svae" = "f5"', "no binding has the id 'job.svae'; did you mean 'job.save'?"),
        ('[keys]\n"job.save" = "R"', "'R' for 'job.save' means 'job.restore' already on jobs"),
        ('[keys]\n"job.move" = "q"', "'q' for 'job.move' means 'app.quit' already"),
        ('[keys]\n"job.stop" = "j"', "means 'nav.down' already"),
    ],
)
def test_clashes_are_found_before_the_start(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        keymap.checked(written(tmp_path, text), ConsoleApp)
    assert words in caught.value.message
    assert "console.toml:2" in caught.value.message


def test_two_ids_may_change_places(tmp_path: Path) -> None:
    found = written(tmp_path, '[keys]\n"job.save" = "R"\n"job.restore" = "S"\n"ckpt.restore" = "S"\n')
    assert set(keymap.checked(found, ConsoleApp)) == {"job.save", "job.restore", "ckpt.restore"}


def test_the_keys_as_they_come_do_not_clash() -> None:
    for title, scope in keymap.scopes(ConsoleApp).items():
        owners: dict[str, set[str]] = {}
        for name, keys in scope.items():
            for key in keys.split(","):
                owners.setdefault(key, set()).add(name)
        # A screen asks its own source again where the application looks at the fleet; the wizard's Enter stands behind a table's.
        meant = [{"view.refresh", "view.ask"}, {"row.open", "wizard.next"}, {"panel.leave", "nav.operations"}]
        clashes = {key: names for key, names in owners.items() if len(names) > 1 and names not in meant}
        assert not clashes, (title, clashes)


def test_the_clipboard_is_asked_through_tmux_and_screen() -> None:
    data = base64.b64encode(b"llama-ft").decode()
    assert clipboard.sequence("llama-ft", {}) == f"\x1b]52;c;{data}\x07"
    assert clipboard.sequence("llama-ft", {"TMUX": "/tmp/x"}) == f"\x1bPtmux;\x1b\x1b]52;c;{data}\x07\x1b\\"
    pieces = clipboard.sequence("x" * 300, {"TERM": "screen-256color"})
    assert pieces is not None
    assert pieces.count("\x1bP") > 4
    assert clipboard.sequence("x" * 60_000, {}) is None


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    """WCAG 2 contrast ratio."""
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def without_green(colour: str) -> tuple[float, float, float]:
    """How a deuteranope sees a colour (Viénot, Brettel and Mollon 1999, linear RGB)."""
    red, green, blue = ((int(colour[at : at + 2], 16) / 255) ** 2.2 for at in (1, 3, 5))
    mixed = 0.292 * red + 0.708 * green
    return mixed, mixed, -0.0223 * red + 0.0223 * green + blue


@pytest.mark.parametrize(
    "theme", [theme for theme in themes.THEMES if not theme.ansi], ids=lambda theme: theme.name
)
def test_every_tone_can_be_read_and_good_and_bad_stay_apart(theme: Theme) -> None:
    variables, back = theme.variables, str(theme.background)
    for name in ("ok", "info", "warn", "bad", "accent", "strong"):
        assert contrast(variables[f"tone-{name}"], back) >= 4.5, name
        assert contrast(variables[f"tone-{name}"], variables["cursor-back"]) >= 3.0, name
    assert contrast(variables["tone-muted"], back) >= 4.5
    assert contrast(variables["tone-alarm"], variables["tone-alarm-back"]) >= 4.5
    good, bad = without_green(variables["tone-ok"]), without_green(variables["tone-bad"])
    assert max(abs(one - two) for one, two in zip(good, bad, strict=True)) > 0.15
