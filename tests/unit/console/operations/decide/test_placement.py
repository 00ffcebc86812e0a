"""Placement: a reason for every node that does not fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.operations.decide.placement import Candidate, place, why_not


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (Candidate("a", "cordoned", "cordoned by the operator"), "cordoned"),
        (Candidate("a", "unreachable", "silent for 45 s"), "silent for 45 s"),
        (Candidate("a", "not_ready", "no guard"), "no guard"),
        (Candidate("a", "ok", notice="notice"), "announced"),
        (Candidate("a", "ok", gate="refuse", gate_reasons=("arch: image x, node y",)), "arch"),
        (Candidate("a", "ok", gate="unknown", gate_reasons=("facts missing",)), "facts missing"),
        (Candidate("a", "ok", pool="p2"), "same-pool"),
        (Candidate("a", "ok", pool="p1"), None),
        (Candidate("a", "ok", pool="p1", gate="warn"), None),
        (Candidate("a", "ok", pool="p1", notice=None), None),
    ],
)
def test_reasons(candidate: Candidate, reason: str | None) -> None:
    found = why_not(candidate, None, "same-pool" if candidate.pool else "owned", "p1")
    assert found is None if reason is None else found is not None and reason in found


def test_the_least_loaded_and_calmest_node_wins() -> None:
    nodes = [
        Candidate("a", "ok", jobs=2),
        Candidate("b", "ok", jobs=0, notice="hint"),
        Candidate("c", "ok", jobs=1),
        Candidate("d", "ok", jobs=1, gate="warn", gate_reasons=("kernel differs",)),
    ]
    assert place(nodes).node == "c"
    chosen = place(nodes, exclude={"c": "failed there"})
    assert chosen.node == "d"
    assert chosen.warnings == ("kernel differs",)
    assert chosen.refused == {"c": "failed there"}


def test_asked_for_by_name_or_pool() -> None:
    nodes = [Candidate("a", "ok", pool="p1"), Candidate("b", "ok", pool="p2", jobs=5)]
    assert place(nodes, to="b", policy="same-pool", home_pool="p1").node == "b"
    assert place(nodes, to="p2").node == "b"
    nowhere = place(nodes, to="zz")
    assert nowhere.node is None
    assert "zz" in nowhere.explain()


CANDIDATES = st.builds(
    Candidate,
    st.sampled_from("abcdef"),
    st.sampled_from(["ok", "late", "unreachable", "lost", "not_ready", "cordoned"]),
    st.just("why"),
    st.sampled_from([None, "p1", "p2"]),
    st.sampled_from(["none", "hint", "notice", "unreadable", None]),
    st.integers(0, 5),
    st.sampled_from(["ok", "warn", "refuse", "unknown"]),
)


@given(st.lists(CANDIDATES, unique_by=lambda c: c.name), st.sampled_from([None, "a", "p1"]))
def test_never_a_node_that_does_not_fit_and_never_silence(nodes: list[Candidate], to: str | None) -> None:
    placement = place(nodes, to=to, home_pool="p1")
    by_name = {node.name: node for node in nodes}
    if placement.node is not None:
        chosen = by_name[placement.node]
        assert chosen.state == "ok"
        assert chosen.gate in ("ok", "warn")
        assert chosen.notice != "notice"
        assert to in (None, chosen.name, chosen.pool)
    else:
        assert placement.explain()
