"""The seeded Monte Carlo against the closed forms, and what only it can answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.arrays.law import makespan_law
from planner.deadline import p_finish_fixed_loss, p_finish_no_resume
from planner.intervals import optimal_plan
from planner.lives.laws import bathtub, parse_law, weibull
from planner.lives.lifetimes import weibull_no_resume
from planner.lives.schedule import age_aware
from planner.makespan import deviation, expected_makespan, exposures, no_resume
from planner.plan.costs import bill_at, wall_deviation
from planner.plan.inputs import PlanError, PlanInputs
from planner.simulate import runs
from planner.simulate.runs import Job, Prices, Runs, World, constant, empirical, exponential, simulate
from tests.support.data import data

SAVED = Job(hours=8.0, interval_hours=1.0, save_hours=0.05, restore_hours=0.1)


def near(found: Runs, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], expected: float) -> None:
    mean, error = found.mean_and_error(values)
    assert abs(mean - expected) < 3 * error + 1e-12, (mean, expected, error)


@pytest.mark.parametrize("upload", [0.0, 0.3])
def test_definition_3_and_11_with_waits(upload: float) -> None:
    job, rate, wait = Job(8.0, 1.0, 0.05, 0.1, upload), 0.25, 0.2
    found = simulate(job, World(exponential(rate), constant(wait)), runs=40_000, seed=11)
    span = expected_makespan(8.0, rate, 0.05, 0.1, 1.0, wait_hours=wait, upload_hours=upload)
    near(found, found.billed_hours, span.expected_billed_hours)
    near(found, found.wall_hours, span.expected_wall_hours)
    near(found, found.reclaims, span.expected_reclaims)
    kinds = exposures(span.pieces, 1.05, span.last_piece_hours, 0.1, upload)
    law = makespan_law(kinds, rate, wait, 12.0 - span.failure_free_hours)
    near(found, (found.wall_hours <= 12.0).astype(float), law.p_by(12.0))
    spread, sample = deviation(kinds, rate, wait), found.wall_hours
    fourth = float(((sample - sample.mean()) ** 4).mean())
    error = math.sqrt((fourth - sample.var() ** 2) / len(sample)) / (2 * sample.std())
    assert abs(float(sample.std()) - spread) < 3 * error


def test_definition_10() -> None:
    found = simulate(Job(10.0), World(exponential(0.15)), runs=40_000, seed=5)
    near(found, found.billed_hours, no_resume(10.0, 0.15).expected_hours)
    near(found, (found.wall_hours <= 30).astype(float), p_finish_no_resume(10.0, 0.15, 30.0))
    inputs = PlanInputs(hours=10.0, discount=0.5, rate=0.15, no_resume=True)
    assert wall_deviation(inputs, bill_at(inputs, 0.15, None)) == pytest.approx(
        float(found.wall_hours.std()), rel=0.03
    )


def test_the_deviation_is_that_of_the_exact_law() -> None:
    kinds = exposures(6, 1.05, 0.7, 0.1, 0.0)
    law = makespan_law(kinds, 0.4, 0.1, 60.0, points=16_384)
    times = law.failure_free_hours + law.step_hours * (np.arange(len(law.cdf) - 1) + 0.5)
    mass = np.diff(law.cdf)
    mean = law.atom * law.failure_free_hours + float((mass * times).sum())
    second = law.atom * law.failure_free_hours**2 + float((mass * times**2).sum())
    assert deviation(kinds, 0.4, 0.1) == pytest.approx(math.sqrt(second - mean**2), rel=1e-3)
    assert deviation(kinds, 0.0, 0.1) == 0.0
    assert deviation(kinds, 1e-9, 0.0) == pytest.approx(deviation(kinds, 1.01e-9, 0.0), rel=0.01)


def test_the_deviation_with_a_given_loss_is_that_of_the_count() -> None:
    inputs = PlanInputs(hours=10.0, discount=0.5, rate=0.2, lost=0.5, wait=0.25)
    bill = bill_at(inputs, 0.2, None)
    masses = [
        p_finish_fixed_loss(10.0, 0.2, 0.5, 10.0 + 0.5 * (k + 0.5)).p_finish
        - (p_finish_fixed_loss(10.0, 0.2, 0.5, 10.0 + 0.5 * (k - 0.5)).p_finish if k else 0.0)
        for k in range(80)
    ]
    mean = sum(k * mass for k, mass in enumerate(masses))
    variance = sum(k * k * mass for k, mass in enumerate(masses)) - mean**2
    assert wall_deviation(inputs, bill) == pytest.approx(0.75 * math.sqrt(variance), rel=1e-6)


def test_one_seed_is_one_answer_and_another_is_another() -> None:
    world = World(exponential(0.3))
    first, again, other = (simulate(SAVED, world, runs=500, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.wall_hours, again.wall_hours)
    assert not np.array_equal(first.wall_hours, other.wall_hours)


def test_weibull_lives_without_a_resume() -> None:
    found = simulate(Job(4.0), World(runs.weibull(0.6, 6.0)), runs=60_000, seed=3)
    near(found, found.billed_hours, weibull_no_resume(4.0, 0.6, 6.0).expected_hours)
    assert found.billed_hours.min() == pytest.approx(4.0)  # the first life was long enough


def test_prices_that_move_are_paid_as_they_are() -> None:
    prices = Prices((0.0, 1.0, 3.0), (2.0, 5.0, 1.0))
    assert prices.paid(np.array([0.0, 0.5, 4.0]), np.array([4.0, 2.0, 5.0])).tolist() == [13.0, 6.0, 1.0]
    found = simulate(Job(4.0), World(constant(100.0), prices=prices), runs=3, seed=1)
    assert found.usd.tolist() == [13.0] * 3
    flat = simulate(SAVED, World(exponential(0.3), prices=Prices((0.0,), (3.0,))), runs=2000, seed=1)
    assert np.allclose(flat.usd, 3.0 * flat.billed_hours)


def test_waits_are_not_billed() -> None:
    found = simulate(SAVED, World(exponential(0.3), empirical([0.0, 2.0])), runs=5000, seed=1)
    assert (found.wall_hours >= found.billed_hours).all()
    near(found, found.wall_hours - found.billed_hours - found.reclaims, 0.0)


def test_a_life_too_short_for_any_progress_is_given_up_and_counted() -> None:
    found = simulate(Job(5.0), World(constant(2.0)), runs=4, seed=1, give_up_hours=50.0)
    assert found.unfinished == 4
    with pytest.raises(ValueError, match="at least one value"):
        empirical([])


def test_observed_lifetimes_of_real_machines() -> None:
    lines = data("gcp-preemption", "lifetime_ecdf.csv").read_text(encoding="utf-8").splitlines()[1:]
    lives = [float(line.split(",")[1]) for line in lines if line.startswith("All_data,")]
    found = simulate(Job(20.0), World(empirical(lives)), runs=20_000, seed=8)
    assert found.unfinished == 0
    long = [life for life in lives if life >= 20.0]
    renewal = sum(min(life, 20.0) for life in lives) / len(long)  # E[min(X, H)]/P(X ≥ H)
    near(found, found.billed_hours, renewal)
    assert renewal < 0.8 * no_resume(20.0, 1.0 / float(np.mean(lives))).expected_hours, (
        "real lives are not memoryless"
    )


def test_memoryless_lives_get_the_fixed_optimum_back() -> None:
    found = age_aware(weibull(1.0, 8.0), 24.0, 0.02, 0.05)
    best = optimal_plan(24.0, 0.125, 0.02, 0.05)
    assert found.expected_billed_hours == pytest.approx(best.expected_billed_hours, rel=1e-3)
    assert found.fixed_expected_billed_hours == pytest.approx(found.expected_billed_hours, rel=1e-3)


def test_an_age_aware_schedule_beats_every_fixed_one_on_bathtub_lives() -> None:
    found = age_aware(bathtub(0.45, 1.0, 0.8, 24.0), 20.0, 0.1, 0.1)
    assert found.expected_billed_hours < found.fixed_expected_billed_hours
    works = [work for _, work in found.steps]
    assert sum(works) == pytest.approx(20.0)
    assert works[0] < max(works), "saves are close at first and rare in the safe middle"
    assert works[-1] < max(works), "and close again towards the cap"


@pytest.mark.slow
def test_the_schedule_costs_what_it_says() -> None:
    """The policy of the dynamic programme, followed event by event on Weibull lives."""
    law, hours, save, restore = weibull(0.6, 6.0), 6.0, 0.05, 0.1
    found = age_aware(law, hours, save, restore, units=48)
    rng, totals = np.random.default_rng(4), []
    for _ in range(20_000):
        left, billed, first = 48, 0.0, True
        while left:
            life, age = 6.0 * rng.weibull(0.6), 0.0 if first else restore
            first = False
            while left and age <= life:
                step = found.next_units(left, age)
                age += step * found.unit_hours + (save if step < left else 0.0)
                if age <= life:
                    left -= step
            billed += min(age, life)
        totals.append(billed)
    sample = np.array(totals)
    error = sample.std() / math.sqrt(len(sample))
    assert abs(sample.mean() - found.expected_billed_hours) < 4 * error + 0.003 * found.expected_billed_hours


@pytest.mark.parametrize(
    "text", ["", "weibull", "weibull:1", "weibull:0,3", "weibull:nan,3", "weibull:1,2,3", "bathtub:1,1,1,1", "normal:1,2",
             "weibull:inf,1", "bathtub:.4,1,1", "weibull:1e9,1", "weibull:a,b"],
)  # fmt: skip
def test_laws_that_are_refused_name_the_option(text: str) -> None:
    with pytest.raises(PlanError, match="--lifetime"):
        parse_law(text)
