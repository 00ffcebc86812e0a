"""The guard out of its bundle: installed over SSH, calls, a job, an upgrade, and nothing left but the job."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backends.engines.port import start_ticks
from backends.errors import UnreachableError
from backends.nodes.bundle import Bundle, build
from backends.nodes.install import install, uninstall
from backends.nodes.ssh import SshLink
from backends.nodes.wheels import Target, own_target
from tests.support import guard_node, sshnodes
from tests.support.engines import RealBench
from tests.support.guard_node import REPOSITORY, request, wait_for

pytestmark = pytest.mark.slow


def bundle_of(directory: Path, mark: str) -> Bundle:
    """A bundle of the packages as they are; another mark makes another bundle."""
    place = directory / f"sources{mark}"
    for package in ("planner", "backends"):
        shutil.copytree(REPOSITORY / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "backends/guard/mark.py").write_text(f'"""{mark}"""\n')
    target = own_target()
    assert isinstance(target, Target)
    return build(target, directory / "cache", version=f"0.1{mark}", sources=place)


@pytest.fixture
async def hosts(tmp_path: Path) -> AsyncIterator[sshnodes.Fleet]:
    async with sshnodes.Fleet(tmp_path) as made:
        yield made


def watchdog_pid(root: Path) -> int | None:
    path = root / "state/watchdog.lock"
    words = path.read_text().split() if path.exists() else []
    return int(words[0]) if words else None


def place_of(root: Path, lock: str) -> str:
    path = root / "state" / lock
    words = path.read_text().split() if path.exists() else []
    return words[1] if len(words) > 1 else ""


def gone(pid: int) -> bool:
    return start_ticks(pid) is None


async def answered(link: SshLink) -> dict[str, Any]:
    """The status, as soon as a guard answers."""
    for _ in range(100):
        try:
            return await link.call("status", {}, timeout_s=20)
        except UnreachableError:
            await asyncio.sleep(0.2)
    raise AssertionError("no guard answers")


async def test_from_bundle_to_nothing(hosts: sshnodes.Fleet, tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    root = tmp_path / "node/opt"
    host = await hosts.host(handler=sshnodes.real({"REPRIEVE_NODE_ROOT": str(root)}))
    link = await hosts.pool.link(hosts.node(host))
    first, newer = bundle_of(tmp_path, "a"), bundle_of(tmp_path, "b")
    done = await install(link, first)
    status = await link.call("status", {}, timeout_s=20)
    assert (status["guard"], status["bundle"], status["jobs"]) == (done.guard, first.digest, [])

    fleet = guard_node.Fleet(tmp_path)
    bench = RealBench(None, tmp_path / "home", pause_s=0.05, last=100_000)  # type: ignore[arg-type]  # not used
    job = fleet.job(
        engine="signal", command=bench.argv, cwd=str(bench.home), files=[], marker="save-*.txt",
        resume=[*bench.argv, "resume"], interval_s=2.0,
    )  # fmt: skip
    document = {"request": request(), "job": job, "grant": fleet.genesis(done.guard)}
    pid = (await link.call("start", document, timeout_s=60))["job"]["pid"]
    try:
        asked: dict[str, object] = {"request": request(), "job": "count", "wait_s": 20}
        assert (await link.call("save", asked, timeout_s=40))["state"] == "saved"
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"REPRIEVE_UID=" in environment
        assert b"PYTHONPATH=" not in environment

        up = await install(link, newer)
        assert (up.guard, up.changed) == (done.guard, True)
        status = await link.call("status", {}, timeout_s=20)
        assert status["bundle"] == newer.digest
        assert status["jobs"][0]["pid"] == pid
        new_place = str(root / "bundle" / newer.digest)
        wait_for(
            "the watchdog is of the new bundle", lambda: place_of(root, "watchdog.lock").startswith(new_place)
        )
        os.kill(int((root / "state/lock").read_text().split()[0]), signal.SIGKILL)
        status = await answered(link)
        assert status["jobs"][0]["pid"] == pid
        assert place_of(root, "lock").startswith(new_place)
        saving: dict[str, object] = {"request": request(), "job": "count", "wait_s": 20}
        assert (await link.call("save", saving, timeout_s=40))["state"] == "saved"

        guards = [int((root / "state/lock").read_text().split()[0]), watchdog_pid(root)]
        removed = await uninstall(link)
        assert removed.left == ()
        assert start_ticks(pid) is not None, "the job runs on"
        for each in guards:
            assert each is not None
            wait_for("guard and watchdog are gone", partial(gone, each))
        assert not root.exists()
    finally:
        os.kill(pid, signal.SIGKILL)
