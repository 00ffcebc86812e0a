"""Machines are turned off only where their record asks for it, after its time, and never by a controller that is cut off."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.operations.decide.fence import Fencing, Suspect, to_fence

DUE = Suspect("gpu-a", "unreachable", 1000.0, 900.0, 1, True)
FINE = Suspect("gpu-b", "ok", 0.0, 900.0, 1, True)


@pytest.mark.parametrize(
    ("change", "fenced"),
    [
        ({}, True),
        ({"silence_s": 899.0}, False),
        ({"silence_s": None}, False),
        ({"terminate_after_s": None}, False),
        ({"jobs": 0}, False),
        ({"can_end": False}, False),
        ({"asked_ago_s": 30.0}, False),
        ({"asked_ago_s": 700.0}, True),
        ({"state": "late"}, False),
        ({"state": "ok"}, False),
        ({"state": "not_ready"}, False),
        ({"state": "lost"}, False),
    ],
)
def test_one_node(change: dict[str, object], fenced: bool) -> None:
    found = to_fence([replace(DUE, **change), FINE], store_answers=True)  # type: ignore[arg-type]  # parametrised fields
    assert (list(found.nodes) == ["gpu-a"]) == fenced
    assert found.held_back == ""
    assert all("1000 s" in reason and "900 s" in reason for reason in found.nodes.values())


def test_a_controller_that_is_cut_off_turns_nothing_off() -> None:
    assert to_fence([DUE, FINE], store_answers=False).nodes == {}
    most = [DUE, replace(DUE, name="gpu-c"), FINE]
    assert to_fence(most, store_answers=True).nodes == {}
    assert "cut off" in to_fence(most, store_answers=True).held_back
    assert to_fence([DUE], store_answers=True).nodes, (
        "the only node of a fleet: the store is the other witness"
    )
    assert to_fence([replace(DUE, terminate_after_s=None)] * 3, store_answers=False) == Fencing({})


SUSPECTS = st.builds(
    Suspect,
    st.text("abc", min_size=1, max_size=3),
    st.sampled_from(["ok", "late", "unreachable", "lost", "not_ready", "cordoned"]),
    st.none() | st.floats(0, 1e6),
    st.none() | st.floats(60, 1e5),
    st.integers(0, 3),
    st.booleans(),
)


@given(st.lists(SUSPECTS, max_size=8), st.booleans())
def test_never_without_consent_silence_and_a_majority(suspects: list[Suspect], answers: bool) -> None:
    named = to_fence(suspects, store_answers=answers).nodes
    if not named:
        return
    assert answers
    heard = sum(each.state in ("ok", "cordoned", "not_ready") for each in suspects)
    silent = sum(each.state in ("unreachable", "late") for each in suspects)
    assert heard >= silent or len(suspects) == 1
    for each in suspects:
        if each.name in named and each.state == "unreachable" and each.terminate_after_s is not None:
            break
    else:
        pytest.fail("a node was named that is not silent, or whose record says wait")
