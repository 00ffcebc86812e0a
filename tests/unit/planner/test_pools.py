"""Pools ranked for a job: the deadline only separates chances that are really different."""

from __future__ import annotations

from planner.plan.inputs import PlanInputs
from planner.pools import Offer, rank

JOB = PlanInputs(hours=24.0, checkpoint_cost=0.01, restore=0.05, deadline=30.0)


def test_a_chance_beyond_what_the_law_knows_does_not_outrank_the_cost() -> None:
    """Both bands meet the deadline to nine digits; the cheaper pool is first, whatever the tenth says."""
    rows = rank(JOB, [Offer("calm", "<5%", -0.6), Offer("busy", ">20%", 0.6)], by_deadline=True)
    chances = [row.p_finish for row in rows]
    assert all(chance is not None and chance > 0.999999 for chance in chances)
    assert [row.name for row in rows] == ["busy", "calm"]


def test_a_chance_that_differs_goes_before_the_cost() -> None:
    tight = JOB._replace(deadline=24.3, nodes=16)
    rows = rank(tight, [Offer("calm", "<5%", 0.1), Offer("busy", ">20%", 0.6)], by_deadline=True)
    assert [row.name for row in rows] == ["calm", "busy"]
    by_cost = rank(tight, [Offer("calm", "<5%", 0.1), Offer("busy", ">20%", 0.6)])
    assert [row.name for row in by_cost] == ["busy", "calm"]
