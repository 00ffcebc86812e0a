"""The exhaustive model check of the lineage protocol, and that none of its steps is idle."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.support.lineage_model import STEPS, Bounds, BrokenError, Machine
from tests.support.lineage_reduction import REST_ON, Reduced

TWO = ("t1", "t2")

# All actors at once: two takers, a duplicate executor, a retention run, one wrong word of the operator, four epochs.
ALL_ACTORS = Bounds()

# The smallest bounds in which leaving the step out is found. Each run within them is a run within ALL_ACTORS.
COUNTEREXAMPLES = {
    "void": Bounds(3, 1, executors=TWO, retention=False),
    "proof": Bounds(2, 1, executors=("t1",), retention=False),
    "proof_names_the_last": Bounds(3, 1, executors=TWO, retention=False),
    "claim": Bounds(2, executors=("t1",), retention=False),
    "choose_after_claim": Bounds(2, executors=("t1",), retention=False),
    "chain_only": Bounds(3, executors=("t1",), retention=False),
    "continues_once": Bounds(3, 1, executors=TWO, retention=False),
    "named_guard": Bounds(3, 1, executors=TWO, retention=False),
    "start_once": Bounds(2, 1, executors=("t1",), retention=False),
    "look_after_manifest": Bounds(2, executors=("t1",), retention=False),
    "retention_looks": Bounds(2, executors=("t1",)),
    "retention_lists_first": Bounds(2, executors=("t1",)),
}


def within(small: Bounds, large: Bounds) -> bool:
    """Whether every run in the smaller bounds is one in the larger: who is not there is one who never moves."""
    counts = [
        (small.epochs, large.epochs),
        (small.first_saves, large.first_saves),
        (small.later_saves, large.later_saves),
        (small.words, large.words),
        (small.retention, large.retention),
    ]
    return all(less <= more for less, more in counts) and set(small.executors) <= set(large.executors)


def explored(machine: Machine, title: str, capsys: pytest.CaptureFixture[str]) -> int:
    states = machine.explore(100_000_000)
    with capsys.disabled():
        print(f"\nlineage model, {title}: {states} states, {machine.transitions} transitions, 0 violations")
    return states


@pytest.mark.slow
def test_all_actors_and_four_epochs_keep_the_invariants(capsys: pytest.CaptureFixture[str]) -> None:
    title = "two takers, a duplicate executor, retention, four epochs, crashes between any two steps"
    assert explored(Reduced(ALL_ACTORS), title, capsys) > 10_000


@pytest.mark.prove
@pytest.mark.parametrize("bounds", [Bounds(4, 2, 2, words=2), Bounds(5)], ids=str)
def test_all_actors_within_larger_bounds(bounds: Bounds, capsys: pytest.CaptureFixture[str]) -> None:
    assert explored(Reduced(bounds), str(bounds), capsys) > 50_000


@pytest.mark.parametrize("step", STEPS)
def test_leaving_out_any_one_step_breaks_an_invariant(step: str) -> None:
    bounds = COUNTEREXAMPLES[step]
    assert within(bounds, ALL_ACTORS)
    for machine in (Machine, Reduced):
        machine(bounds).explore()  # with the step these very bounds are fine
        with pytest.raises(BrokenError):
            machine(bounds, frozenset({step})).explore()


def check_images(bounds: Bounds, rules: Iterable[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The reduced exploration visits the images of exactly the states that the unreduced one visits."""
    reduced = Reduced(bounds, rules=frozenset(rules))
    visited = set(reduced.reachable())
    images, states = set(), 0
    for state in Machine(bounds).reachable():
        states += 1
        image = reduced.image(state)
        assert image in visited, f"{state} has no counterpart"
        images.add(image)
    assert images == visited
    assert len(visited) < states
    with capsys.disabled():
        print(f"\nlineage model, {bounds}: {states} states, {len(visited)} by {', '.join(sorted(rules))}")


@pytest.mark.slow
@pytest.mark.parametrize("rule", REST_ON)
def test_each_reduction_keeps_a_counterpart_of_every_state(
    rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_images(Bounds(2, executors=TWO), {rule}, capsys)
    if rule == "executors":
        check_images(Bounds(2, 1, words=0, retention=False), {rule}, capsys)
        check_images(Bounds(3, 1, executors=TWO, retention=False), {rule}, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [Bounds(2), Bounds(3, 1, executors=TWO)], ids=str)
def test_all_reductions_keep_a_counterpart_of_every_state(
    bounds: Bounds, capsys: pytest.CaptureFixture[str]
) -> None:
    check_images(bounds, REST_ON, capsys)


@pytest.mark.prove
@pytest.mark.parametrize("bounds", [Bounds(3, 1), Bounds(4, 1, executors=TWO)], ids=str)
def test_all_reductions_keep_a_counterpart_of_every_state_within_larger_bounds(
    bounds: Bounds, capsys: pytest.CaptureFixture[str]
) -> None:
    check_images(bounds, REST_ON, capsys)
