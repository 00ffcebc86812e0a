"""The table of engines in the README is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from backends.engines.proven import PROVEN
from backends.records.job import ENGINES

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
IN_THIS_VERSION = {"criu", "criu-cuda", "crun", "runc", "signal"}


def rows() -> dict[str, str]:
    """Engine → its row, for every engine named in the first column."""
    table = README.split("## What works where")[1].split("## Read on")[0]
    found = {}
    for row in re.findall(r"(?m)^\| (`.*)$", table):
        for name in re.findall(r"`([\w-]+)`", row.split("|")[0]):
            found[name] = row
    return found


def test_every_engine_has_a_row() -> None:
    assert set(rows()) == set(ENGINES) - {"auto", "fake"}


def test_what_is_not_there_is_said() -> None:
    for name, row in rows().items():
        assert ("not in this version" in row) == (name not in IN_THIS_VERSION), name


def test_an_engine_is_called_proven_only_with_an_entry() -> None:
    for name, pairs in PROVEN.items():
        assert ("unproven" in rows()[name]) == (not pairs), name
        for _, model in pairs:
            assert model in rows()[name]
