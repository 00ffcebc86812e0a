"""Bad days on real hosts, through the real command line: silence, damage, a full store, a killed guard, a zombie."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.clock import parse_utc
from backends.ids import CheckpointId
from backends.practice import abilities
from tests.support.lab import CLOCK, ROOT, Lab, environment, lab, reprieve, until

pytestmark = pytest.mark.lab
MAX_FREEZE_S = 5.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Four hosts with guards; each test has its own job and leaves the hosts as they were."""
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    with lab(tmp_path_factory.mktemp("lab"), 4) as found:
        yield found


def test_a_partition_proves_nothing_and_nothing_is_restored(fleet: Lab) -> None:
    fleet.start("cut", "host-a", "--interval", "1h")
    assert fleet.show("cut")["state"] == "unrehearsed"
    fleet.act("partition", host="host-a")
    try:
        refused = fleet.cli("jobs", "restore", "cut", "--yes", code=10)
        assert "nothing proves that its process on host-a is gone" in refused.err
        assert "the provider says running" in refused.err
        assert "--i-know-it-is-dead cut" in refused.err
        assert "nothing to do" in fleet.cli("watch", "--once", "--yes").out
        until("the job is called unreachable", lambda: fleet.show("cut")["state"] == "unreachable")
        shown = fleet.show("cut")
        assert shown["state"] in ("unreachable", "waiting_proof")
        assert "host-a" in shown["reason"]
        assert "silent for" in shown["reason"]
        assert shown["stale"] is True
        assert shown["work_at_risk_s"] >= shown["checkpoint_age_s"] > 0
        nodes = fleet.cli("fleet", "list", "-o", "json").document["items"]
        assert {row["name"]: row["state"] for row in nodes}["host-a"] == "unreachable"
        assert len(fleet.running_pids("cut")) == 1
        assert fleet.show("cut")["epoch"] == 1
    finally:
        fleet.act("heal", host="host-a")
    fleet.moves("cut")
    until("its node answers again", lambda: fleet.show("cut")["state"] == "unrehearsed")
    fleet.cli("jobs", "stop", "cut", "--now", "--yes", "--confirm", "cut")


def test_a_flipped_byte_is_refused_and_the_save_before_is_used(fleet: Lab) -> None:
    fleet.start("bit", "host-b", "--interval", "1h")
    fleet.moves("bit")
    fleet.cli("jobs", "save", "bit", "--yes")
    at_newest = fleet.steps("bit")
    fleet.cli("jobs", "stop", "bit", "--now", "--yes", "--confirm", "bit")
    newest, before = fleet.checkpoints("bit")[:2]
    store = fleet.running.layout.store / "jobs" / fleet.show("bit")["uid"]
    pack = max((store / "packs" / newest).iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 0x10
    pack.chmod(0o600)
    pack.write_bytes(data)
    restored = fleet.cli("jobs", "restore", "bit", "--to", "host-c", "--yes", "-o", "json")
    assert restored.document["checkpoint"] == before
    assert restored.document["epoch"] == 2
    (note,) = restored.document["notes"]
    found = re.fullmatch(
        rf"checkpoint {newest} cannot be used; the one before costs (\S+) more minutes of work", note
    )
    assert found is not None, note
    assert float(found.group(1)) > 0
    assert note in restored.err
    assert restored.err.index(note) < restored.err.index("claiming epoch 2")  # refused before anything began
    assert len(fleet.running_pids("bit")) == 1
    fleet.moves("bit")
    assert at_newest > 0
    fleet.cli("jobs", "stop", "bit", "--now", "--yes", "--confirm", "bit")


def test_a_store_that_fills_up_stops_no_job_and_takes_no_save(fleet: Lab) -> None:
    fleet.start("full", "host-b", "--interval", "2s")
    fleet.act("store_full", on=True)
    try:
        older = fleet.checkpoints("full")
        failed = fleet.cli("jobs", "save", "full", "--yes", "-o", "json", code=1)
        assert "No space left on device" in failed.err
        assert "Traceback" not in failed.err
        fleet.moves("full")
        assert fleet.checkpoints("full")[: len(older)] == older
        until("it is overdue", lambda: fleet.show("full")["state"] == "overdue")
        assert "No space left on device" in fleet.show("full")["reason"]
        fleet.moves("full")
        stands = fleet.checkpoints("full")[0]
        fleet.cli("checkpoints", "verify", "full", stands, "--full")
    finally:
        fleet.act("store_full", on=False)
    saved = fleet.cli("jobs", "save", "full", "--yes", "-o", "json").document
    assert saved["checkpoint"] not in older
    until("it is no longer overdue", lambda: fleet.show("full")["state"] == "unrehearsed")
    fleet.cli("jobs", "stop", "full", "--now", "--yes", "--confirm", "full")


def test_a_guard_killed_while_its_job_is_frozen_leaves_no_job_frozen(fleet: Lab) -> None:
    fleet.start("ice", "host-c", "--interval", "1s", "--max-freeze", f"{MAX_FREEZE_S:.0f}s")
    (pid,) = fleet.processes("ice")
    root = Path(f"/proc/{pid}/root/opt/reprieve/state")
    entry = root / "frozen" / f"{fleet.show('ice')['uid']}.json"
    guard = guard_of(pid)
    until("it is frozen for a save", entry.exists)
    os.kill(guard, signal.SIGKILL)
    saved = None
    fleet.moves(
        "ice", MAX_FREEZE_S + 30
    )  # frozen for MAX_FREEZE_S at most; the rest is patience with this machine
    assert list(fleet.processes("ice")) == [pid]

    def again() -> bool:
        nonlocal saved
        ran = reprieve(fleet.state, "--context", "practice", "jobs", "save", "ice", "--yes", "-o", "json")
        saved = ran.document["checkpoint"] if ran.code == 0 else None
        return saved is not None

    until("the next good save", again)
    assert CheckpointId.parse(fleet.checkpoints("ice")[0]) >= CheckpointId.parse(str(saved))
    assert guard_of(pid) != guard
    assert fleet.running_pids("ice") == [pid]
    fleet.cli("jobs", "stop", "ice", "--now", "--yes", "--confirm", "ice")


def guard_of(pid: int) -> int:
    """The guard's process on the host where `pid` runs."""
    space = Path(f"/proc/{pid}/ns/mnt").readlink()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                ours = (entry / "ns/mnt").readlink() == space and b"backends.guard.watchdog" not in words
                if ours and b"backends.guard" in b" ".join(words):
                    return int(entry.name)
            except OSError:
                continue
    raise AssertionError(f"no guard beside process {pid}")


def test_the_console_killed_the_next_save_comes_within_two_seconds_of_its_time(fleet: Lab) -> None:
    interval_s = 3.0
    fleet.start("orphan", "host-a", "--interval", "3s")
    argv = [
        sys.executable,
        "-m",
        "console.cli.main",
        "--context",
        "practice",
        "watch",
        "--yes",
        "--every",
        "1s",
    ]
    console = subprocess.Popen(
        argv,
        cwd=ROOT,
        env=environment(fleet.state),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert console.stderr is not None
        assert "watching" in console.stderr.readline()
        before = len(fleet.checkpoints("orphan"))
        until("a save under the console", lambda: len(fleet.checkpoints("orphan")) > before)
    finally:
        console.kill()
        killed_at = CLOCK.wall()
        console.communicate()
    CLOCK.sleep(3 * interval_s)  # nobody looks meanwhile
    listed = fleet.cli("checkpoints", "list", "orphan", "-o", "json").document["items"]
    frozen = sorted(parse_utc(item["frozen_at"]) for item in listed)
    after = [(earlier, later) for earlier, later in itertools.pairwise(frozen) if later > killed_at]
    assert len(after) >= 2, frozen
    late = [later - earlier - interval_s for earlier, later in after]
    print(f"saves after the console's death were late by {', '.join(f'{each:.2f}' for each in late)} s")
    assert max(late) <= 2.0
    fleet.cli("jobs", "stop", "orphan", "--now", "--yes", "--confirm", "orphan")


def test_a_zombie_is_frozen_and_never_chosen(fleet: Lab) -> None:
    fleet.start("dead", "host-d", "--interval", "2s")
    (old,) = fleet.processes("dead")
    fleet.act("partition", host="host-d")
    try:
        restored = fleet.cli(
            "jobs", "restore", "dead", "--i-know-it-is-dead", "dead", "--to", "host-a", "--yes", "-o", "json"
        ).document
        assert (restored["node"], restored["epoch"]) == ("host-a", 2)
        until("the old process is frozen", lambda: fleet.processes("dead").get(old) == "T")
    finally:
        fleet.act("heal", host="host-d")
    (new,) = fleet.running_pids("dead")
    assert new != old
    stood_at = fleet.steps("dead", old)

    def told() -> bool:
        rows = {row["name"]: row for row in fleet.cli("fleet", "list", "-o", "json").document["items"]}
        return "zombie" in rows["host-d"]["reason"]

    until("the console says that host-d holds a zombie", told)
    events = fleet.cli("events", "list", "-o", "json").document["items"]
    assert [event["node"] for event in events if event["kind"] == "job.zombie"] == ["host-d"]
    until("a save of the new epoch", lambda: fleet.checkpoints("dead")[0].startswith("2."))
    shown = fleet.show("dead")
    assert (shown["node"], shown["epoch"]) == ("host-a", 2)
    moved = fleet.steps("dead", new)
    until("the new process goes on", lambda: fleet.steps("dead", new) > moved)
    assert fleet.steps("dead", old) == stood_at
    assert fleet.processes("dead")[old] == "T"
    fleet.cli("jobs", "stop", "dead", "--now", "--yes", "--confirm", "dead")
    again = fleet.cli("jobs", "restore", "dead", "--to", "host-b", "--yes", "-o", "json").document
    assert again["epoch"] == 3
    assert again["checkpoint"].startswith("2.")
    assert len(fleet.running_pids("dead")) == 1
    fleet.cli("jobs", "stop", "dead", "--now", "--yes", "--confirm", "dead")
