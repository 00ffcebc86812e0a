"""Facts on the console's side: strict, cleaned, with the clock's offset."""

from __future__ import annotations

from typing import Any

import pytest

from backends.clock import SystemClock
from backends.errors import DamagedError
from backends.nodes.facts import cleaned, node_facts


class Link:
    def __init__(self, clock: Clock, answer: dict[str, Any]) -> None:
        self.clock, self.answer, self.asked = clock, answer, dict[str, Any]()

    async def call(self, verb: str, document: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        assert verb == "facts"
        self.asked = document
        self.clock.now += 0.5
        return self.answer

    async def close(self) -> None:
        raise AssertionError("not ours to close")


class Clock(SystemClock):
    now = 1000.0

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


async def test_offset_is_taken_at_the_middle_of_the_call() -> None:
    clock = Clock()
    link = Link(clock, {"time": "t", "wall_s": 1010.25, "cpu_model": "x\x1b[2J", "later": {"a": 1}})
    found = await node_facts(link, clock, what="node n1", paths=("/bin/sh",))
    assert (found.clock_offset_s, found.offset_within_s) == (10.0, 0.25)
    assert found.facts.cpu_model == "x\\x1b[2J"
    assert link.asked == {"paths": ["/bin/sh"]}


@pytest.mark.parametrize("answer", [{}, {"time": 1, "wall_s": 1.0}, {"time": "t", "wall_s": 1.0, "gpus": 3}])
async def test_what_are_no_facts_is_refused(answer: dict[str, Any]) -> None:
    clock = Clock()
    with pytest.raises(DamagedError, match="node n1: facts"):
        await node_facts(Link(clock, answer), clock, what="node n1")


def test_every_text_is_cleaned() -> None:
    assert cleaned({"a\x07": ["\u202e", {"b": "\x9b"}], "n": 1}) == {
        "a\\x07": ["\\u202e", {"b": "\\x9b"}],
        "n": 1,
    }
