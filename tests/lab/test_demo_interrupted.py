"""Ctrl-C in the middle of the headless demo, at moments nobody chose: exit 130 and nothing left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.practice import abilities, processes
from tests.support.lab import CLOCK, ROOT, environment
from tests.support.practice import Machine, hold_namespaces, namespaces_of, processes_naming, tree_of

pytestmark = pytest.mark.lab
ENDS_S = 60.0
# (from, to) seconds after the start, a moment drawn from each: starting, installing, first saves, a loss, a restore
STRETCHES = ((0.0, 1.0), (1.0, 5.0), (5.0, 12.0), (12.0, 22.0))
IMPATIENT_S = 0.2


@pytest.mark.parametrize("stretch", STRETCHES, ids=lambda pair: f"{pair[0]:.0f}-{pair[1]:.0f}s")
def test_ctrl_c_at_a_random_moment_leaves_nothing(stretch: tuple[float, float], tmp_path: Path) -> None:
    check_nothing_is_left(stretch, tmp_path)


def test_ctrl_c_pressed_again_and_again_leaves_nothing_either(tmp_path: Path) -> None:
    check_nothing_is_left((4.0, 12.0), tmp_path, times=4)


def check_nothing_is_left(stretch: tuple[float, float], tmp_path: Path, times: int = 1) -> None:
    """Press Ctrl-C at a moment of `stretch` and look for anything that is left."""
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    seed = int(os.environ.get("REPRIEVE_TEST_SEED", random.randrange(1 << 30)))
    delay_s = random.Random(seed).uniform(*stretch)
    print(f"seed {seed}: {delay_s:.3f} s")
    state, scratch = tmp_path / "state", tmp_path / "scratch"
    scratch.mkdir()
    before = Machine.now()
    child = subprocess.Popen(
        [sys.executable, "-m", "console.cli.main", "demo", "--headless"],
        cwd=ROOT, env={**environment(state), "TMPDIR": str(scratch)}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert child.stderr is not None
    assert child.stderr.readline() == "Starting the practice fleet …\n"
    time.sleep(delay_s)
    below = [pid for pid in tree_of(child.pid) if pid != child.pid]
    tree = [found for pid in below if (found := processes.look(pid)) is not None]
    held = held_of(below)
    spaces = {str(Path(f"/proc/self/fd/{descriptor}").readlink()) for descriptor in held}
    for _ in range(times):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGINT)  # as a terminal does: the whole foreground group hears it
        time.sleep(IMPATIENT_S if times > 1 else 0.0)
    out, said = child.communicate(timeout=ENDS_S)
    assert child.returncode == 130, said
    assert out == ""
    assert said.splitlines()[-1] == "interrupted"
    assert "Traceback" not in said
    assert processes.wait_gone(tree, CLOCK, 10)
    assert not processes_naming(str(tmp_path))
    assert Machine.now() == before
    everyone = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    assert not (spaces - namespaces_of([os.getpid()])) & namespaces_of(everyone)
    for descriptor in held:
        os.close(descriptor)
    assert not list(scratch.iterdir())
    left = sorted(str(path.relative_to(state)) for path in state.rglob("*") if path.is_file())
    assert left in ([], ["reprieve/practice/lock", "reprieve/practice/practice-fleet"])


def held_of(pids: list[int]) -> list[int]:
    """Descriptors of their namespaces, so that their numbers are not given to others; ended ones are passed over."""
    held = []
    for pid in pids:
        try:
            held += hold_namespaces([pid])
        except OSError:
            continue
    return held
