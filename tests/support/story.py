"""The headless demo as a process, and what its document must be."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.practice import processes
from tests.support.lab import CLOCK, ROOT, until
from tests.support.practice import Machine, processes_naming, tree_of

STEPS = 550  # shorter than the demo's own 700, long enough to be lost twice on a busy machine
STORY_S = 200.0
_NUMBER = (int, float)
_RECLAIM: dict[str, type | tuple[type, ...]] = {
    "job": str, "from_node": str, "notice": bool, "lost_work_s": _NUMBER, "restore_s": _NUMBER, "wait_s": _NUMBER,
    "from_checkpoint": str, "to_node": str, "epoch": int,
}  # fmt: skip
_JOB: dict[str, type | tuple[type, ...]] = {
    "job": str, "final_digest": str, "expected_digest": str, "steps": int, "duplicate_processes": int,
}  # fmt: skip


def play(
    argv: list[str], state: Path, environment: Mapping[str, str], user: int | None = None
) -> dict[str, Any]:
    """Run the demo to its end and return its document; nothing but the document on stdout, nothing left behind."""
    before = Machine.now()
    child = subprocess.Popen(
        [*argv, "demo", "--headless", "-o", "json", "--steps", str(STEPS)],
        cwd=ROOT, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, user=user, group=user, extra_groups=None if user is None else [],
    )  # fmt: skip
    try:
        record = state / "reprieve" / "practice" / "daemon.json"
        until("the fleet is up", lambda: record.exists() or child.poll() is not None)
        tree = [found for pid in tree_of(child.pid) if (found := processes.look(pid)) is not None]
        out, said = child.communicate(timeout=STORY_S)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0, said + out
    assert len(tree) >= 3, "the fleet's processes were seen while it ran"
    assert processes.wait_gone(tree, CLOCK, 10)
    assert not processes_naming(str(state))
    assert Machine.now() == before
    left = sorted(str(path.relative_to(state)) for path in state.rglob("*") if path.is_file())
    assert left == ["reprieve/practice/lock", "reprieve/practice/practice-fleet"]
    document: dict[str, Any] = json.loads(out)
    return document


def check(document: dict[str, Any], fleet: str, engine: str) -> None:
    """The document as the contract has it (section 2), for a story that ended well."""
    assert document["schema"] == "reprieve/demo/v1"
    assert (document["fleet"], document["engine"]) == (fleet, engine)
    assert document["ok"] is True
    assert document["hosts"] >= 3
    assert isinstance(document["duration_s"], float)
    assert [item["notice"] for item in document["reclaims"]] == [False, True]
    for item in document["reclaims"]:
        fits(item, _RECLAIM)
        assert item["epoch"] == 2
        assert re.fullmatch(r"1\.[1-9][0-9]*", item["from_checkpoint"])
        assert item["to_node"] != item["from_node"]
        assert min(item["lost_work_s"], item["restore_s"]) > 0
    silent, announced = document["reclaims"]
    assert silent["wait_s"] == 0, "a node of ours was ready at once"
    assert announced["wait_s"] > 0, "a bare machine had to come"
    assert {item["job"] for item in document["reclaims"]} == {item["job"] for item in document["jobs"]}
    for item in document["jobs"]:
        fits(item, _JOB)
        assert re.fullmatch("[0-9a-f]{64}", item["final_digest"])
        assert item["final_digest"] == item["expected_digest"]
        assert item["steps"] == STEPS
        assert item["duplicate_processes"] == 0


def fits(item: dict[str, Any], fields: Mapping[str, type | tuple[type, ...]]) -> None:
    """Every field is there and of its type; a truth value is no number."""
    assert set(item) >= set(fields)
    for name, kind in fields.items():
        assert isinstance(item[name], kind), (name, item[name])
        assert kind is bool or not isinstance(item[name], bool), name
