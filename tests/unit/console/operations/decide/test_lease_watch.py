"""A lapsed lease proves an end only beside a silent node, for the guard that the epoch names, by our own clock."""

from __future__ import annotations

import pytest

from console.operations.decide.lease import LeaseWatch
from console.operations.decide.loss import GuardWord, LeaseWord, NodeVerdict, prove
from console.operations.truth import LeaseView

SILENT = NodeVerdict("unreachable", "silent for 200 s")
NONE = GuardWord("unreachable")


def test_it_runs_out_after_its_length_a_tenth_more_and_the_margin() -> None:
    assert LeaseWord("g1", 90.0, 0.0).left_s == pytest.approx(114.0)
    assert LeaseWord("g1", 90.0, 113.9).left_s > 0
    assert LeaseWord("g1", 90.0, 114.1).left_s == 0


@pytest.mark.parametrize(
    ("verdict", "guard", "lease", "proven"),
    [
        (SILENT, NONE, LeaseWord("g1", 90.0, 115.0), True),
        (SILENT, NONE, LeaseWord("g1", 90.0, 113.0), False),
        (SILENT, NONE, LeaseWord("g2", 90.0, 115.0), False),
        (SILENT, NONE, None, False),
        (NodeVerdict("late", "silent for 12 s"), NONE, LeaseWord("g1", 90.0, 115.0), False),
        (NodeVerdict("ok"), NONE, LeaseWord("g1", 90.0, 115.0), False),
        (SILENT, GuardWord("running", "g1", 1), LeaseWord("g1", 90.0, 115.0), False),
    ],
)
def test_what_a_lease_proves(
    verdict: NodeVerdict, guard: GuardWord, lease: LeaseWord | None, proven: bool
) -> None:
    proof = prove(verdict, guard, epoch=1, named_guard="g1", word=None, lease=lease, now="t")
    assert (proof is not None) == proven
    if proof is not None:
        assert (proof.kind, proof.source) == ("lease", "guard g1")
        assert "promised to freeze epoch 1" in proof.detail


def test_a_renewal_starts_the_watch_again_and_a_withdrawal_ends_it() -> None:
    watch = LeaseWatch()
    first, second = LeaseView("g1", 90.0, "n1"), LeaseView("g1", 90.0, "n2")
    assert watch.note("u", 1, first, 0.0, 2.0) == LeaseWord("g1", 90.0, 0.0)
    assert watch.note("u", 1, first, 60.0, 61.0) == LeaseWord("g1", 90.0, 58.0), (
        "from the end of the read that showed it"
    )
    assert watch.note("u", 1, second, 70.0, 71.0) == LeaseWord("g1", 90.0, 0.0)
    assert watch.note("u", 2, second, 90.0, 91.0) == LeaseWord("g1", 90.0, 0.0)
    assert watch.note("u", 2, LeaseView("g1", None, "n3"), 200.0, 201.0) is None
    assert watch.note("u", 2, second, 300.0, 301.0) == LeaseWord("g1", 90.0, 0.0)
