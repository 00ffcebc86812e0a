"""Every state has a word of its own, told apart without colour."""

from __future__ import annotations

import unicodedata
from typing import get_args

import pytest

from backends.records.job import JobState
from backends.records.node import NodeState, NoticeState
from console.tui import themes
from console.tui.model import words


@pytest.mark.parametrize(
    ("table", "states"),
    [(words.JOB, get_args(JobState)), (words.NODE, get_args(NodeState)), (words.NOTICE, get_args(NoticeState)),
     (words.OPERATION, ("running", "done", "failed", "cancelled"))],
)  # fmt: skip
def test_words_and_glyphs_are_complete_and_differ(
    table: dict[str, words.Word], states: tuple[str, ...]
) -> None:
    assert set(table) == set(states)
    assert len({str(word) for word in table.values()}) == len(states)
    assert len({word.glyph for word in table.values()}) == len(states)
    for word in table.values():
        assert len(word.glyph) == 1
        assert unicodedata.east_asian_width(word.glyph) not in ("W", "F"), (
            f"{word.glyph} may be two cells wide"
        )
        assert len(str(word)) <= 14


def test_a_state_from_a_newer_version_is_shown_not_hidden() -> None:
    assert str(words.of(words.JOB, "levitating")) == "? levitating"
    assert str(words.of(words.JOB, None)) == "– unknown"


def test_failures_are_bad_whatever_they_are() -> None:
    for kind in ("save.failed", "restore.refused", "image.damaged", "whatever.failed"):
        assert words.of_event(kind).tone == "bad"
    assert words.of_event("save.committed").tone == "ok"
    assert words.of_event("something.new").tone == "plain"


def test_every_theme_has_every_tone() -> None:
    for theme in themes.THEMES:
        missing = (
            {f"tone-{tone}" for tone in words.TONES} - set(theme.variables) - {"tone-plain", "tone-title"}
        )
        assert not missing, theme.name


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("name", "least"), [(themes.NIGHT, 4.5), (themes.CONTRAST, 7.0)])
def test_contrast(name: str, least: float) -> None:
    """WCAG contrast of each tone on the theme's background."""
    theme = next(theme for theme in themes.THEMES if theme.name == name)
    assert theme.background is not None
    for tone in ("muted", "ok", "info", "warn", "bad", "accent", "strong"):
        light, dark = sorted(
            (_luminance(theme.variables[f"tone-{tone}"]), _luminance(theme.background)), reverse=True
        )
        assert (light + 0.05) / (dark + 0.05) >= least, tone
