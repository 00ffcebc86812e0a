"""Nodes with the real engines for the lab's tests of the guard; everything is ended afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.engines import criu_tool
from tests.support.guard_node import Fleet, Node

CANARY = "canary-of-the-guard-7f3a"  # a credential of the guard, which nothing that it starts may hold


@pytest.fixture
def job_fleet(tmp_path: Path) -> Fleet:
    """One store, one fleet key, one job."""
    return Fleet(tmp_path)


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[[str], Node]]:
    """Starts nodes with CRIU by name."""
    if os.geteuid() != 0:
        pytest.skip("not root: CRIU needs it")
    if criu_tool() is None:
        pytest.skip("no CRIU on this machine or in the cache")
    nodes: list[Node] = []

    def make(name: str) -> Node:
        node = Node(tmp_path / name, {"REPRIEVE_TEST_ENGINES": "real", "AWS_SECRET_ACCESS_KEY": CANARY})
        nodes.append(node)
        return node.start()

    yield make
    for node in nodes:
        node.end()
