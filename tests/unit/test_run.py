"""The tiers that CI runs beside each other are together the tiers that `make test` runs."""

from __future__ import annotations

from tests import run


def test_what_computes_and_the_rest_are_fast_slow_and_lab_each_test_once() -> None:
    assert all((run.ROOT / folder).is_dir() for folder in run.COMPUTING)
    assert run.COMPUTED.files() == list(run.COMPUTING)
    fast, slow, *others = run.REST
    assert [fast.markers, slow.markers] == [run.FAST.markers, run.SLOW.markers]
    assert fast.files() == [f"--ignore={folder}" for folder in run.COMPUTING]
    inside = [name for name in run.SLOW.files() if name.startswith(run.COMPUTING)]
    assert inside
    assert sorted([*slow.files(), *inside]) == sorted(run.SLOW.files())
    assert others == [run.LAB, run.GPU]


def test_no_test_that_only_computes_needs_what_another_tier_needs() -> None:
    for tier in (run.LAB, run.STORES, run.GPU):
        assert not [name for name in tier.files() if name.startswith(run.COMPUTING)]
        assert f"not {tier.name}" in run.COMPUTED.markers
