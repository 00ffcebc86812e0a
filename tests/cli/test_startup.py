"""What each way of starting loads: the modules are the cost, and they are counted instead of timed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli import reprieve

_HEAVY = {"argparse", "textual", "rich", "asyncssh", "numpy", "pandas", "boto3", "google", "azure"}
_REPORT = """
import sys, json
before = set(sys.modules)
from console.cli.main import main
code = main()
sys.stderr.write("\\n" + json.dumps(sorted(set(sys.modules) - before)))
sys.exit(code)
"""


def loaded(home: Path, *argv: str) -> set[str]:
    ran = reprieve(home, *argv, code=_REPORT)
    modules: list[str] = json.loads(ran.err.rpartition("\n")[2])
    return set(modules)


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help"], ["version"], ["--version"], []], ids=str)
def test_the_first_words_load_next_to_nothing(tmp_path: Path, argv: list[str]) -> None:
    modules = loaded(tmp_path, *argv)
    assert modules == {"console", "console.cli", "console.cli.main", "console.cli.static_help"}


@pytest.mark.parametrize(
    "argv",
    [
        ["jobs", "--help"],
        ["jobs", "save", "-h"],
        ["config", "show"],
        ["config", "validate"],
        ["jobs", "svae"],
        ["plan", "--hours", "24", "--discount", "0.7", "--reclaims", "3", "--lost", "10m", "-o", "json"],
    ],
    ids=str,
)
def test_ordinary_commands_load_nothing_heavy(tmp_path: Path, argv: list[str]) -> None:
    modules = loaded(tmp_path, *argv)
    assert not {name.split(".")[0] for name in modules} & _HEAVY
    assert not {
        name for name in modules if name.startswith(("console.tui", "backends.nodes", "backends.store"))
    }
    assert "asyncio" not in modules


def test_only_the_noun_that_was_typed_is_loaded(tmp_path: Path) -> None:
    modules = {name for name in loaded(tmp_path, "config", "show") if name.startswith("console.registry.")}
    assert modules == {"console.registry.index", "console.registry.model", "console.registry.upkeep"}
