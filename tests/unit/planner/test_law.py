"""The lattice law against the exact expansions, the expectations, and an independent Monte Carlo."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.arrays.law import makespan_law
from planner.deadline import p_finish_fixed_loss, p_finish_no_resume, p_finish_saved
from planner.economics import self_consistent_reclaims
from planner.makespan import Exposure, expected_makespan, exposures, no_resume


@pytest.mark.parametrize(("n", "w", "rate", "restore", "wait", "limit"), [
    (4, 1.0, 0.2, 0.1, 0.05, 6.0), (24, 1.02, 0.125, 0.05, 0.25, 30.0), (6, 0.5, 1.0, 0.05, 0.0, 4.2),
    (10, 0.3, 0.5, 0.2, 0.4, 5.0), (1, 3.0, 0.3, 0.0, 0.0, 9.0),
])  # fmt: skip
def test_the_lattice_agrees_with_the_exact_expansion(
    n: int, w: float, rate: float, restore: float, wait: float, limit: float
) -> None:
    law = makespan_law((Exposure(n, w, restore),), rate, wait, limit - n * w)
    exact = p_finish_saved(n, w, rate, restore, wait, limit, restore_can_be_hit=True)
    assert law.p_by(limit) == pytest.approx(exact, abs=2e-6)
    assert law.p_by(n * w) == pytest.approx(math.exp(-rate * n * w), rel=1e-12)


def simulate(
    rng: np.random.Generator, works: list[tuple[float, float]], rate: float, wait: float
) -> tuple[float, float, int]:
    """One run, event by event: (billed, wall, reclaims); `works` are (first try, restore before a retry)."""
    billed = wall = 0.0
    reclaims = 0
    for first, restore in works:
        need = first
        while True:
            life = rng.exponential(1 / rate)
            if life >= need:
                billed, wall = billed + need, wall + need
                break
            billed, wall, reclaims = billed + life, wall + life + wait, reclaims + 1
            need = first + restore
    return billed, wall, reclaims


@pytest.mark.slow
@pytest.mark.parametrize("upload", [0.0, 0.3])
def test_an_independent_monte_carlo_agrees_with_definition_3_and_11(upload: float) -> None:
    h, rate, save, restore, tau, wait, limit = 8.0, 0.25, 0.05, 0.1, 1.0, 0.2, 12.0
    span = expected_makespan(h, rate, save, restore, tau, wait_hours=wait, upload_hours=upload)
    kinds = exposures(span.pieces, tau + save, span.last_piece_hours, restore, upload)
    works = [(kind.hours, kind.restore_hours) for kind in kinds for _ in range(kind.times)]
    rng = np.random.default_rng(20261201)
    runs = np.array([simulate(rng, works, rate, wait) for _ in range(40_000)])
    errors = runs.std(axis=0) / math.sqrt(len(runs))
    for column, expected in enumerate(
        (span.expected_billed_hours, span.expected_wall_hours, span.expected_reclaims)
    ):
        assert abs(runs[:, column].mean() - expected) < 3 * errors[column]
    law = makespan_law(kinds, rate, wait, limit - span.failure_free_hours)
    share = float((runs[:, 1] <= limit).mean())
    assert abs(law.p_by(limit) - share) < 3 * math.sqrt(share * (1 - share) / len(runs))


@pytest.mark.slow
def test_an_independent_monte_carlo_of_overlapped_uploads_on_a_timeline() -> None:
    """Definition 3 with U from the story itself: a save counts once its upload has ended, work goes on meanwhile."""
    h, rate, save, restore, tau, upload = 6.0, 0.3, 0.05, 0.1, 1.0, 0.4
    rng = np.random.default_rng(7)
    totals = []
    for _ in range(40_000):
        billed, durable, started = 0.0, 0, False
        while True:
            life = rng.exponential(1 / rate)
            clock = restore if started else 0.0
            done, pending, work = durable, list[tuple[float, int]](), h - durable * tau
            started = True
            finished = False
            while True:
                piece = min(tau, work)
                last = piece >= work - 1e-12
                clock += piece if last else piece + save
                pending = [(t, k) for t, k in pending if t > life or k > durable]
                if clock > life:
                    break
                if last:
                    finished = True
                    break
                work -= piece
                done += 1
                pending.append((clock + upload, done))
            for moment, k in pending:
                if moment <= life:
                    durable = max(durable, k)
            if finished:
                billed += clock
                break
            billed += life
        totals.append(billed)
    sample = np.array(totals)
    expected = expected_makespan(h, rate, save, restore, tau, upload_hours=upload).expected_billed_hours
    assert abs(sample.mean() - expected) < 3 * sample.std() / math.sqrt(len(sample))


@pytest.mark.slow
def test_an_independent_monte_carlo_agrees_with_definitions_2_and_10() -> None:
    h, rate, lost = 10.0, 0.15, 0.5
    rng = np.random.default_rng(3)
    counts = []
    for _ in range(40_000):
        need, count = rng.exponential(1 / rate), 0
        total = h
        while need < total:
            count, total, need = count + 1, total + lost, need + rng.exponential(1 / rate)
        counts.append(count)
    sample = np.array(counts)
    expected = self_consistent_reclaims(h, rate, lost).expected_reclaims
    assert abs(sample.mean() - expected) < 3 * sample.std() / math.sqrt(len(sample))
    share = float((sample * lost <= 2.0).mean())
    p = p_finish_fixed_loss(h, rate, lost, h + 2.0).p_finish
    assert abs(p - share) < 3 * math.sqrt(share * (1 - share) / len(sample))
    alone = np.array([simulate(rng, [(h, 0.0)], rate, 0.0)[0] for _ in range(40_000)])
    assert abs(alone.mean() - no_resume(h, rate).expected_hours) < 3 * alone.std() / math.sqrt(len(alone))
    by = p_finish_no_resume(h, rate, 30.0)
    seen = float((alone <= 30.0).mean())
    assert abs(by - seen) < 3 * math.sqrt(seen * (1 - seen) / len(alone))
