"""Random lines for the filter grammar and the `:` line: no exception, no wrong answer, no control character comes back."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.registry.index import all_commands
from console.tui.model import columns, command_line, filters
from console.tui.model.rows import Rows
from tests.support.tui_fleet import NOON, rich_jobs

IDS = tuple(column.id for column in columns.JOBS)
PIECES = (
    "risk", "state", "job", "size", "next", ">", "<", "=", "!=", ">=", "10m", "2GiB", "80%", "-1", "1e9", "nan", "inf", "*", "?", "[", "]",
    "!", "~", "!~", "protected", "gpu-a", "–", "none", "\x1b[2J", "\u202e", "'", '"', "\\", "\ud800", "é", "界", "\x00", "=" * 40, "a" * 300,
)  # fmt: skip
WORDS = (
    ":", "jobs", "fleet", "plan", "save", "restore", "move", "kill", "interval", "drain", "set", "list", "--to", "--to=", "--force", "llama-ft",
    "interval=5m", "interval=", "gpu-a", "theme", "sort", "view", "export", "'", '"', "\\", "\x1b]52;c;x\x07", "\u202e", "-", "--", "reprieve", "=",
    "\n", "\t", "\x00", "🙂" * 50, "ops", "q",
)  # fmt: skip
COUNT = 100_000


def line(dice: random.Random, pieces: tuple[str, ...], blank: float) -> str:
    return "".join(
        dice.choice(pieces) + (" " if dice.random() < blank else "") for _ in range(dice.randrange(1, 9))
    )


def check_filter(text: str, rows: Rows[object], keys: set[str]) -> None:
    wanted = filters.parse(text, IDS)
    assert wanted.error == "" or "\n" not in wanted.error
    rows.set_filter(wanted, NOON)
    shown = {key for key in rows.order if rows.alive(key)}
    assert shown <= keys
    if not wanted.terms:
        assert shown == keys
    targets, _ = rows.targets()
    assert set(targets) <= keys


def check_line(text: str, commands: tuple[object, ...]) -> None:
    typed = command_line.read(text, commands)  # type: ignore[arg-type]  # the registry's
    said = [bool(part) for part in (typed.mode, typed.action, typed.local, typed.error)]
    assert sum(said) == 1, (text, typed)
    assert typed.action in ("", *command_line.ACTIONS)
    for whole in command_line.complete(text, commands, ["llama-ft"], ["gpu-a"]):  # type: ignore[arg-type]  # as above
        assert whole.startswith(text)


def loaded() -> tuple[Rows[object], set[str]]:
    rows: Rows[object] = Rows(columns.JOBS, "risk", descending=True)  # type: ignore[arg-type]  # of jobs
    rows.load([(job.uid, job) for job in rich_jobs()], NOON)
    return rows, set(rows.order)


@given(st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_text_is_a_filter_and_a_line(text: str) -> None:
    rows, keys = loaded()
    check_filter(text, rows, keys)
    check_line(text, all_commands())


def fuzz(count: int) -> None:
    dice = random.Random(20261201)
    rows, keys = loaded()
    commands = all_commands()
    for _ in range(count):
        check_filter(line(dice, PIECES, 0.5), rows, keys)
        check_line(line(dice, WORDS, 0.8), commands)


def test_some_thousand_random_lines() -> None:
    fuzz(500)
    assert "risk" in IDS


@pytest.mark.prove
def test_a_hundred_thousand_random_lines() -> None:
    fuzz(COUNT)
    assert "risk" in IDS
