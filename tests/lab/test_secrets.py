"""What a job keeps secret is in none of the texts that its guard writes or says; its memory is sealed before it is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.data import case
from tests.support.engines import RealBench, criu_or_skip
from tests.support.guard_node import Fleet, Node, request, wait_for

pytestmark = pytest.mark.lab
Make = Callable[[str], Node]


def test_rc_35_the_secret_is_in_no_text(make_node: Make, job_fleet: Fleet, tmp_path: Path) -> None:
    criu_or_skip()
    story = case(35)["input"]
    secret = story["job_env"]["API_TOKEN"].encode()
    bench = RealBench(None, tmp_path / "home", pause_s=0.02, last=1_000_000)  # type: ignore[arg-type]  # its engine is not used
    job = job_fleet.job(
        engine="criu", command=[*bench.argv, *story["argv"][1:]], cwd=str(tmp_path / "home"), files=[],
        environment=story["job_env"], interval_s=1.0,
    )  # fmt: skip
    node = make_node("a")
    answer = node.call("start", request=request(), job=job, grant=job_fleet.genesis(node.guard))
    wait_for("the second save", lambda: node.checkpoint() not in (None, "1.1"), 60)
    pid = answer["job"]["pid"]
    assert secret in Path(f"/proc/{pid}/environ").read_bytes(), "the job itself has it"
    assert secret in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert secret not in json.dumps([answer, node.call("status"), node.events()]).encode()
    texts = [*node.layout.run.rglob("*.log"), *node.layout.spool.rglob("*"), *node.layout.frozen.iterdir()]
    texts += job_fleet.store_directory.rglob("*")
    found = [path for path in texts if path.is_file() and secret in path.read_bytes()]
    assert found == []
    assert any(path.name == "manifest.json" for path in texts)
