"""`store init` and `store check` from the outside, on an object store and on one that ignores conditions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Ran, reprieve
from tests.support.cloudfake import CloudState, cloud


@pytest.fixture
def server() -> Iterator[CloudState]:
    with cloud() as state:
        yield state


def run(home: Path, *argv: str) -> Ran:
    keys = {"AWS_ACCESS_KEY_ID": "AKEXAMPLE", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    return reprieve(home, *argv, environ=keys)


def test_init_probes_and_prints_policies(tmp_path: Path, server: CloudState) -> None:
    ran = run(tmp_path, "store", "init", server.s3(), "--yes")
    assert ran.code == 0, ran.err
    assert "FAIL" not in ran.out
    assert "exactly" not in ran.out
    assert "1 of 16 simultaneous creates won" in ran.out
    assert '"s3:if-none-match": "false"' in ran.err
    assert "not proven: that what the store acknowledges" in ran.err
    assert "hunter2" not in ran.out + ran.err
    assert server.objects == {}


def test_a_store_that_ignores_conditions_is_refused(tmp_path: Path, server: CloudState) -> None:
    server.conditional = False
    ran = run(tmp_path, "store", "check", server.s3(), "--yes", "-o", "json")
    assert ran.code == 1
    document = json.loads(ran.out)
    failed = {row["check"] for row in document["checks"] if not row["ok"]}
    assert failed == {"create if absent", "sixteen at once"}
    assert "do not use it" in ran.err


def test_an_unreachable_store_is_one_line(tmp_path: Path) -> None:
    ran = run(tmp_path, "store", "check", "s3://bucket/x?endpoint=http://127.0.0.1:1", "--yes")
    assert ran.code == 1
    assert "did not answer" in ran.out
    assert "Traceback" not in ran.err
