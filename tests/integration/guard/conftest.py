"""Nodes and fleets for the guard's process tests; everything is ended afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.guard_node import Fleet, Node


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """One store, key and job."""
    return Fleet(tmp_path)


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Starts nodes by name."""
    nodes: list[Node] = []

    def make(name: str = "node", **environment: str) -> Node:
        node = Node(tmp_path / name, environment)
        nodes.append(node)
        return node.start()

    yield make
    for node in nodes:
        node.end()
