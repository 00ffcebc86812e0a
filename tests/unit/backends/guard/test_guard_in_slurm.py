"""What a guard does otherwise inside a Slurm allocation: jobs that outlive SIGTERM, and a supervisor that restarts it."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from backends.guard import entry
from backends.guard.disk.layout import Layout
from backends.guard.jobs import beginning


def outcome(program: str) -> tuple[int, str]:
    argv = [*beginning._DEAF, "/bin/sh", "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stdout


def test_a_started_program_outlives_sigterm_unless_it_handles_it() -> None:
    assert outcome("kill -TERM $$; echo lives") == (0, "lives\n")
    handler = (
        "import os, signal; signal.signal(15, lambda *a: print('own', flush=True)); os.kill(os.getpid(), 15)"
    )
    assert outcome(f'exec python3 -c "{handler}"') == (0, "own\n")
    assert outcome("kill -KILL $$")[0] == -signal.SIGKILL


def test_its_words_reach_it_unchanged() -> None:
    argv = [*beginning._DEAF, "/usr/bin/printf", "%s|", "a b", "$HOME", "'", ""]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "a b|$HOME|'||"


def test_the_watchdog_leaves_the_restart_to_a_supervisor_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INVOCATION_ID", "REPRIEVE_SUPERVISOR"):
        monkeypatch.delenv(name, raising=False)
    assert entry._respawn(Layout(tmp_path), ["guard"]) == ["guard"]
    monkeypatch.setenv("REPRIEVE_SUPERVISOR", "slurm")
    assert entry._respawn(Layout(tmp_path), ["guard"]) == []
