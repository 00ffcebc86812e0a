"""The exhaustive model check of the lineage protocol, and that none of its steps is idle."""

from __future__ import annotations

import pytest

from tests.support.lineage_model import STEPS, Bounds, BrokenError, Machine

TWO = ("t1", "t2")
DUPLICATE = ("t1", "t2", "t1dup")

# What holds with every interleaving of the actors named, crashes between any two steps always included.
CONFIGURATIONS = {
    "two takers, a duplicate executor, retention, three epochs": Bounds(3, 1, executors=DUPLICATE),
    "two takers, retention, two saves of the first epoch, three epochs": Bounds(3, executors=TWO),
    "two takers, four epochs": Bounds(4, 1, executors=TWO, retention=False),
}

# The smallest bounds in which leaving the step out is found.
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


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_interleaving_keeps_the_invariants(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    machine = Machine(CONFIGURATIONS[name])
    states = machine.explore()
    with capsys.disabled():
        print(f"\nlineage model, {name}: {states} states, {machine.transitions} transitions, 0 violations")
    assert states > 100_000


@pytest.mark.prove
@pytest.mark.parametrize(
    "bounds", [Bounds(3), Bounds(4, 1, executors=TWO), Bounds(4, 1, words=0, retention=False)], ids=str
)
def test_all_actors_and_four_epochs(bounds: Bounds, capsys: pytest.CaptureFixture[str]) -> None:
    machine = Machine(bounds)
    states = machine.explore(100_000_000)
    with capsys.disabled():
        print(f"\nlineage model, {bounds}: {states} states, {machine.transitions} transitions, 0 violations")
    assert states > 1_000_000


@pytest.mark.parametrize("step", STEPS)
def test_leaving_out_any_one_step_breaks_an_invariant(step: str) -> None:
    Machine(COUNTEREXAMPLES[step]).explore()  # with the step these very bounds are fine
    with pytest.raises(BrokenError):
        Machine(COUNTEREXAMPLES[step], frozenset({step})).explore()
