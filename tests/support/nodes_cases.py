"""The real-world cases beside the repository; tests that need them skip by name where they are absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "cases"
if not FOLDER.is_dir():
    # A worktree lies one level deeper than a clone.
    FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "cases"


def case(identity: str) -> dict[str, Any]:
    """The case `RC-nn`; skips the test where the cases are not there."""
    path = FOLDER / "cases.jsonl"
    if not path.is_file():
        pytest.skip(f"case {identity}: {path} is not there")
    for line in path.read_text("utf-8").splitlines():
        found: dict[str, Any] = json.loads(line)
        if found["id"] == identity:
            return found
    raise AssertionError(f"{identity} is not in {path}")


def case_file(name: str) -> Path:
    """A file that a case names, such as `files/ssh_config_odd`."""
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path
