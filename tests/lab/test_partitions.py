"""Each of the three links between node, console and store is cut for a while: nothing is ever restored."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.cuts import PROGRAM, cut
from tests.support.lab import CLOCK, ROOT, Lab, environment, until
from tests.support.reclaims import able_lab

pytestmark = [pytest.mark.lab, pytest.mark.prove]
CUT_S = 30.0  # watch looks every second meanwhile
CONSOLE = [sys.executable, "-m", "console.cli.main", "--context", "practice"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two hosts, so that there is one where a job could be restored."""
    with able_lab(tmp_path_factory.mktemp("lab"), 2) as found:
        yield found


@contextmanager
def watching(fleet: Lab, *before: str) -> Iterator[None]:
    """`watch` that may restore what it likes; `before` stands before its command line."""
    child = subprocess.Popen(
        [*before, *CONSOLE, "watch", "--yes", "--every", "1s"],
        cwd=ROOT, env=environment(fleet.state), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield
        assert child.poll() is None, "watch goes on while the link is cut"
    finally:
        child.terminate()
        _, said = child.communicate(timeout=60)
        print(said)


def refused(fleet: Lab, job: str, *before: str) -> str:
    """A restore asked for by hand is refused; what was said."""
    ran = subprocess.run(
        [*before, *CONSOLE, "jobs", "restore", job, "--yes"],
        cwd=ROOT, env=environment(fleet.state), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    print(f"exit {ran.returncode}: {ran.stderr.strip()}")
    assert ran.returncode not in (0, 7)
    assert "Traceback" not in ran.stderr
    return ran.stderr


def nothing_was_restored(fleet: Lab, job: str, pid: int) -> None:
    """The link is whole again: the same process goes on in its first epoch, and no restore is in the books."""
    fleet.moves(job)
    assert list(fleet.processes(job)) == [pid]
    until("its node answers", lambda: fleet.show(job)["state"] not in ("unreachable", "late"))
    shown = fleet.show(job)
    assert (shown["epoch"], shown["node"]) == (1, "host-a")
    assert fleet.cli("report", "--job", job, "-o", "json").document["reclaims"] == []
    before = fleet.checkpoints(job)
    until("a new save", lambda: fleet.checkpoints(job)[0] != before[0])
    assert all(checkpoint.startswith("1.") for checkpoint in fleet.checkpoints(job))
    fleet.cli("jobs", "stop", job, "--now", "--yes", "--confirm", job)


def test_node_and_console(fleet: Lab) -> None:
    fleet.start("nc", "host-a", "--interval", "5s")
    (pid,) = fleet.processes("nc")
    fleet.act("partition", host="host-a")
    try:
        with watching(fleet):
            assert "nothing proves" in refused(fleet, "nc")
            CLOCK.sleep(CUT_S)
            shown = fleet.show("nc")
            print(f"shown as {shown['state']}: {shown['reason']}")
            assert shown["state"] in ("unreachable", "waiting_proof")
    finally:
        fleet.act("heal", host="host-a")
    nothing_was_restored(fleet, "nc", pid)


def test_node_and_store(fleet: Lab) -> None:
    fleet.start("ns", "host-a", "--interval", "5s")
    (pid,) = fleet.processes("ns")
    with cut(pid, fleet.running.layout.store), watching(fleet):
        stands = fleet.checkpoints("ns")
        refused(fleet, "ns")
        CLOCK.sleep(CUT_S)
        until("it is overdue", lambda: fleet.show("ns")["state"] == "overdue")
        assert fleet.checkpoints("ns") == stands, "its node cannot save"
        fleet.moves("ns")
    nothing_was_restored(fleet, "ns", pid)


def test_console_and_store(fleet: Lab) -> None:
    fleet.start("cs", "host-a", "--interval", "5s")
    (pid,) = fleet.processes("cs")
    apart = (*PROGRAM, "run", str(fleet.running.layout.store))
    stands = fleet.checkpoints("cs")
    with watching(fleet, *apart):
        refused(fleet, "cs", *apart)
        CLOCK.sleep(CUT_S)
        fleet.moves("cs")
        assert fleet.checkpoints("cs")[0] != stands[0], "its node saves on"
    nothing_was_restored(fleet, "cs", pid)
