"""`reprieve demo`: what it refuses before anything is started, how it ends, and how people read its end."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import pytest

from backends.errors import UsageError
from backends.ledger.records import Reclaim
from backends.practice import launch
from console.cli.commands import demo, demo_console
from console.operations.demo import telling
from tests.support.cli import invocation

GOOD: dict[str, Any] = {
    "schema": "reprieve/demo/v1", "fleet": "namespaces", "reason": "r", "engine": "criu", "hosts": 3,
    "reclaims": [
        {"job": "train-a", "from_node": "host-a", "notice": False, "lost_work_s": 8.0, "restore_s": 5.0, "wait_s": 0.0,
         "from_checkpoint": "1.2", "to_node": "host-c", "epoch": 2},
        {"job": "train-b", "from_node": "host-b", "notice": True, "lost_work_s": None, "restore_s": 5.0, "wait_s": 9.0,
         "from_checkpoint": "1.6", "to_node": "host-d", "epoch": 2},
    ],
    "jobs": [{"job": "train-a", "final_digest": "a" * 64, "expected_digest": "a" * 64, "steps": 700,
              "duplicate_processes": 0}],
    "duration_s": 71.2, "ok": True,
}  # fmt: skip


def arguments(**changes: Any) -> dict[str, Any]:
    return {"headless": True, "hosts": None, "mode": None, "steps": None, **changes}


class Running:
    """A fleet that was never started."""

    mode, reason = "namespaces", "a test"
    stopped = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        type(self).stopped += 1


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Let the story be GOOD; what it was asked for is kept."""
    asked: dict[str, Any] = {"document": GOOD}
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(Running, "stopped", 0)

    def start(directory: Path, hosts: int, mode: str, **_: object) -> Running:
        asked.update(directory=directory, hosts=hosts, mode=mode)
        return Running()

    class Story:
        async def tell(self) -> dict[str, Any]:
            found: dict[str, Any] = asked["document"]
            return found

    @contextlib.asynccontextmanager
    async def tell(_running: Running, _clock: object, *_: object, **named: Any) -> AsyncIterator[Story]:
        asked["steps"] = named["steps"]
        yield Story()

    monkeypatch.setattr(launch, "start", start)
    monkeypatch.setattr(telling, "telling", tell)
    return asked


@pytest.mark.parametrize(
    ("changes", "options", "reason"),
    [
        ({"headless": False}, {"no_input": True}, "needs a terminal"),
        ({"headless": False}, {"output": "json"}, "needs a terminal"),
        ({"hosts": 2}, {}, "--hosts is 2; the story needs at least 3"),
        ({"steps": 10}, {}, "--steps is 10; the story needs at least 400"),
    ],
)
def test_refused_before_anything_is_started(
    changes: dict[str, Any], options: dict[str, Any], reason: str, played: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=reason):
        demo.run(invocation(arguments=arguments(**changes), words="demo", **options))
    assert "hosts" not in played


def test_a_good_story_exits_0_and_ends_its_fleet(played: dict[str, Any], tmp_path: Path) -> None:
    asked = invocation(arguments=arguments(hosts=4, mode="loopback", steps=500), words="demo")
    assert demo.run(asked) == 0
    assert (played["hosts"], played["mode"], played["steps"]) == (4, "loopback", 500)
    assert played["directory"] == tmp_path / "reprieve" / "practice"
    assert Running.stopped == 1
    assert isinstance(asked.renderer.stream, io.StringIO)
    assert "Both jobs came back" in asked.renderer.stream.getvalue()
    assert isinstance(asked.narrator.stream, io.StringIO)
    assert "namespaces: a test." in asked.narrator.stream.getvalue()


def test_a_bad_story_exits_1(played: dict[str, Any]) -> None:
    played["document"] = {**GOOD, "ok": False}
    assert demo.run(invocation(arguments=arguments(), words="demo")) == 1
    assert Running.stopped == 1


def test_the_end_for_people() -> None:
    lines = demo.text(GOOD).splitlines()
    assert lines[1].split()[:4] == ["train-a", "host-a", "no", "host-c"]
    assert lines[1].split()[-3:] == ["8s", "5s", "0s"]
    assert lines[2].split()[2] == "yes"
    assert "–" in lines[2] or "unknown" in lines[2], "unknown lost work is never shown as 0"
    assert "=" in lines[4]
    assert lines[-1] == "Both jobs came back and ended as if nothing had happened. (criu, namespaces, 71 s)"
    bad = {**GOOD, "ok": False, "jobs": [{**GOOD["jobs"][0], "final_digest": None}]}
    assert "≠" in demo.text(bad)
    assert "The story did not end well." in demo.text(bad)


def reclaim(job: str, **changes: Any) -> Reclaim:
    plain = Reclaim("k", 0.0, job, "u", "host-a", None, None, 9.0, 8.0, 4.0, 1.5, "1.2", "host-c", 2)
    return dataclasses.replace(plain, **changes)


@pytest.mark.parametrize(
    ("reclaims", "document", "fault", "line"),
    [
        ([], None, "", "Demo: no job was lost and brought back. Left before the jobs' end, so their digests were not compared."),
        ([reclaim("train-a")], None, "no answer", "Demo: 1 reclaim: train-a lost 9s of work and was back on host-c after 5.5s. It stopped: no answer"),
        ([reclaim("train-a"), reclaim("train-b", wait_s=None)], GOOD, "",
         ("Demo: 2 reclaims: train-a lost 9s of work and was back on host-c after 5.5s; train-b lost 9s of work and was back on host-c "
         "after an unknown time. Both jobs ended with the digest of an uninterrupted run.")),
        ([reclaim("train-a")], {**GOOD, "ok": False}, "",
         "Demo: 1 reclaim: train-a lost 9s of work and was back on host-c after 5.5s. It did not end well: see reprieve demo --headless."),
    ],
)  # fmt: skip
def test_one_line_tells_what_happened_when_the_console_is_left(
    reclaims: list[Reclaim], document: dict[str, Any] | None, fault: str, line: str
) -> None:
    assert demo_console.ending(reclaims, document, fault) == line
