"""The headless demo on real hosts with CRIU, as machines read it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from backends.practice import abilities
from tests.support.lab import environment
from tests.support.story import check, play

pytestmark = pytest.mark.lab


def test_both_jobs_come_back_and_nothing_is_left(tmp_path: Path) -> None:
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    state = tmp_path / "state"
    document = play(
        [sys.executable, "-m", "console.cli.main"], state, {**environment(state), "TMPDIR": str(scratch)}
    )
    check(document, "namespaces", "criu")
    assert not list(scratch.iterdir())
