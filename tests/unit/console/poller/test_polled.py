"""The console's side of the poller, with real processes: killed, stopped, crashing, and orphaned ones."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.errors import UnreachableError
from console.operations.context import Context
from console.poller.child import context_document, read_context
from console.tui import polled
from console.tui.model import header
from console.tui.poll import Feed
from console.tui.polled import PolledSource
from console.tui.source import Following
from tests.support.tui_fleet import ScriptedFleet, StillClock

CHILD = (sys.executable, "-m", "tests.support.poller_child")
LIMIT_S = 60.0


@asynccontextmanager
async def source_of(**order: Any) -> AsyncIterator[PolledSource]:
    source = PolledSource(order, ScriptedFleet(StillClock()), SystemClock(), CHILD)
    try:
        async with asyncio.timeout(LIMIT_S):
            yield source
    finally:
        await source.close()


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


async def until(wanted: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not wanted():
            await asyncio.sleep(0.02)


async def test_snapshots_follow_one_another_and_unchanged_rows_stay() -> None:
    async with source_of(nodes=250, every=100) as source:
        assert isinstance(source, Following)
        first = await source.following()
        second = await source.following()
        assert len(first.nodes) == len(second.nodes) == 250
        assert second.taken_at > first.taken_at
        assert second.nodes[1] is first.nodes[1]
        assert second.nodes[100].reason != first.nodes[100].reason


async def test_a_view_is_of_a_look_that_began_after_it_was_asked_for() -> None:
    async with source_of() as source:
        await source.following()
        asked_at = time.time()
        assert (await source.view()).taken_at >= asked_at


async def test_commands_and_looks_run_in_this_process() -> None:
    async with source_of() as source:
        steps: list[str] = []
        assert await source.perform("jobs save", {"name": "a"}, steps.append) == "a: jobs save done"
        assert steps


async def test_a_failed_look_is_told_and_the_next_one_comes() -> None:
    async with source_of(failing=True) as source:
        await source.following()
        with pytest.raises(UnreachableError, match="no route"):
            await source.following()
        assert (await source.following()).nodes


async def test_a_killed_poller_is_said_to_be_gone_and_started_again() -> None:
    async with source_of() as source:
        feed = Feed(source, SystemClock(), lambda: None)
        running = asyncio.create_task(feed.run())
        await until(lambda: feed.view is not None)
        old, pid = feed.view, source.pid
        os.kill(pid, signal.SIGKILL)
        await until(lambda: feed.failure is not None)
        assert feed.failure == "the poller ended (killed by SIGKILL); it is started again"
        assert feed.view is not None
        assert old is not None
        told = [cell.text for _, cell in header.left(header.Header(feed.view, feed.now, 61.0, feed.failure))]
        assert any(text.startswith("✗ the poller ended") for text in told)
        assert "fleet STALE 1m" in told  # what it said last only ages
        await until(lambda: feed.failure is None)
        assert source.pid != pid
        assert feed.view.taken_at > old.taken_at
        assert feed.view.nodes[0].guard == str(source.pid)
        running.cancel()


async def test_a_poller_that_says_nothing_is_ended_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polled, "SILENT_S", 1.5)
    async with source_of(hang_after=1) as source:
        await source.following()
        pid = source.pid
        with pytest.raises(UnreachableError, match=r"silent for 2 s"):
            await source.following()
        assert gone(pid)
        assert (await source.following()).nodes


async def test_a_crashing_poller_s_last_words_are_told() -> None:
    async with source_of(crash="no module named \x1b[31mx") as source:
        with pytest.raises(UnreachableError, match=r"\(exit 1: no module named [^\x1b]*x\)"):
            await source.following()


async def test_a_poller_ends_with_the_console_however_that_ends() -> None:
    program = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({CHILD!r}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)\n"
        "child.stdin.write(b'{}\\n'); child.stdin.flush()\n"
        "print(child.pid, flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not gone(child)
        parent.kill()
        await until(lambda: gone(child))


async def test_closing_ends_the_poller() -> None:
    async with source_of() as source:
        await source.following()
        pid = source.pid
    assert gone(pid)


def test_a_context_travels_whole(tmp_path: Path) -> None:
    context = Context("c", tmp_path / "f", tmp_path / "s", tmp_path / "k", read_only=True, store="file:///x")
    assert read_context(context_document(context)) == context
    there = Context("c", tmp_path, tmp_path, tmp_path, practice_socket=tmp_path / "sock")
    assert read_context(context_document(there)) == there
