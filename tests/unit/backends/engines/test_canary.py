"""What the canary remembers, and how an unusable CRIU is told (RC-34: one warning, not one per interval)."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.engines import canary
from backends.engines.criu import CriuEngine
from backends.engines.criu_tool import CriuTool
from backends.engines.port import Verdict
from backends.fakes.engine import FakeEngine
from tests.unit.backends.engines.test_proc import CASES, case

TOOL = CriuTool(("/opt/criu",), "4.2.1")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: the canary refuses earlier")


@needs_root
def test_an_old_criu_makes_the_node_unusable_for_it_and_says_what_to_do(tmp_path: Path) -> None:
    name = case("RC-34")["input"]
    assert isinstance(name, dict)
    count = tmp_path / "count"
    script = tmp_path / "criu"
    script.write_text(
        f'#!/bin/sh\necho x >> {count}\nwhile [ $# -gt 1 ]; do [ "$1" = --work-dir ] && place=$2; shift; done\n'
        f"cat {CASES.parent / name['file']} > $place/dump.log\nexit 1\n"
    )
    script.chmod(0o755)
    engine = CriuEngine(CriuTool((str(script),), "3.17.1"), tmp_path / "run", SystemClock())
    verdict = engine.ready()
    assert verdict.answer == "impossible"
    assert "too old for the running kernel" in verdict.reasons[0]
    assert "engine signal" in verdict.reasons[0]
    assert engine.ready() is verdict
    assert count.read_text() == "x\n", "tried once, not at every interval"


def test_without_root_the_reason_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    verdict = canary.ready(FakeEngine(SystemClock()), TOOL, tmp_path, SystemClock())
    assert verdict.answer == "impossible"
    assert "needs root" in verdict.reasons[0]


def test_jobs_that_start_at_once_wait_for_one_canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    at_once: list[int] = []
    inside = 0

    def slow(_engine: object, run: Path, _clock: object) -> Verdict:
        nonlocal inside
        inside += 1
        at_once.append(inside)
        (run / "canary.1").mkdir()
        SystemClock().sleep(0.05)
        assert (run / "canary.1").is_dir()
        inside -= 1
        return Verdict("impossible", ("not today",), None, "criu")  # so that each of them tries

    monkeypatch.setattr(canary, "_try", slow)
    with ThreadPoolExecutor(4) as pool:
        fakes = [FakeEngine(SystemClock()) for _ in range(4)]
        found = list(pool.map(lambda fake: canary.ready(fake, TOOL, tmp_path, SystemClock()), fakes))
    assert at_once == [1, 1, 1, 1]
    assert {verdict.reasons for verdict in found} == {("not today",)}


def test_success_is_remembered_for_this_tool_and_kernel_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    tried: list[str] = []

    def once_more(*_: object) -> Verdict:
        tried.append("x")
        return Verdict("ok", (), None, "criu")

    monkeypatch.setattr(canary, "_try", once_more)
    fake = FakeEngine(SystemClock())
    for _ in range(3):
        assert canary.ready(fake, TOOL, tmp_path, SystemClock()).answer == "ok"
    assert len(tried) == 1
    assert canary.ready(fake, CriuTool(("/opt/criu",), "4.3"), tmp_path, SystemClock()).answer == "ok"
    assert len(tried) == 2
    (tmp_path / "canary.json").write_text("garbage")
    assert canary.ready(fake, TOOL, tmp_path, SystemClock()).answer == "ok"
    assert len(tried) == 3


def test_two_who_ask_at_once_do_not_clear_away_each_other_s_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    tried: list[str] = []
    begun = threading.Event()

    def slow(_engine: object, run: Path, _clock: object) -> Verdict:
        tried.append("x")
        place = run / f"canary.{len(tried)}"
        place.mkdir()
        begun.set()
        time.sleep(0.2)  # long enough for the other one to come by
        return Verdict("ok" if place.is_dir() else "impossible", (), None, "criu")

    monkeypatch.setattr(canary, "_try", slow)
    fake, answers = FakeEngine(SystemClock()), []

    def ask() -> None:
        answers.append(canary.ready(fake, TOOL, tmp_path, SystemClock()).answer)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    threads[0].start()
    assert begun.wait(20)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == ["ok", "ok", "ok"]
    assert tried == ["x"], "who waited took the remembered answer"
