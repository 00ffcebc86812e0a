"""The planner's exact forms against the best Monte Carlo at equal accuracy."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from benchmarks.common import interleaved_s, median_s, ratio, report
from benchmarks.startup import plan_against_parser
from planner.arrays import closed
from planner.arrays.law import makespan_law
from planner.makespan import deviation, expected_makespan, exposures

H, RATE, SAVE, RESTORE, TAU = 24.0, 0.125, 0.01, 0.05, 0.5
RUNS = 250_000
CELLS, WIDTH = 1_000_000, 8_192


def monte_carlo(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Makespans of `RUNS` jobs, one vectorised round per reclaim: lives are memoryless, so only hits cost work."""
    pieces = math.ceil(H / TAU)
    total = np.zeros(RUNS)
    done = np.zeros(RUNS, dtype=np.int64)
    lead = np.zeros(RUNS)
    active = np.arange(RUNS)
    width = TAU + SAVE
    while len(active):
        life = rng.exponential(1 / RATE, len(active))
        left = (pieces - done[active]) * width - SAVE + lead[active]
        ends = life >= left
        total[active[ends]] += left[ends]
        active, life = active[~ends], life[~ends]
        total[active] += life
        done[active] += np.maximum(0, np.floor((life - lead[active]) / width)).astype(np.int64)
        lead[active] = RESTORE
    return total


def sweep_s() -> tuple[float, float, float]:
    """Seconds to copy a million scenarios' arrays (four inputs, three results), to compute them, and by `reprieve`'s blocks."""
    rng = np.random.default_rng(2)
    ins = [rng.uniform(low, high, CELLS) for low, high in ((1, 100), (0, 0.9), (0, 50), (0, 2))]
    arrays = [*ins, *(np.empty(CELLS) for _ in range(3))]
    targets = [np.empty(CELLS) for _ in arrays]
    out = closed.Costs(*arrays[4:])

    def copy() -> None:
        for source, target in zip(arrays, targets, strict=True):
            np.copyto(target, source)

    def whole() -> None:
        closed.cost(*ins, out=out)

    def blocks() -> None:
        for start in range(0, CELLS, WIDTH):
            part = slice(start, start + WIDTH)
            closed.cost(
                *(values[part] for values in ins), out=closed.Costs(*(values[part] for values in out))
            )

    times = interleaved_s({"copy": copy, "whole": whole, "blocks": blocks})
    return times["copy"], times["whole"], times["blocks"]


def main() -> None:
    """Measure and print."""
    rng = np.random.default_rng(1)
    span = expected_makespan(H, RATE, SAVE, RESTORE, TAU)
    kinds = exposures(span.pieces, TAU + SAVE, span.last_piece_hours, RESTORE, 0.0)

    def mean_and_deviation() -> None:
        for _ in range(1000):
            expected_makespan(H, RATE, SAVE, RESTORE, TAU)
            deviation(kinds, RATE, 0.0)

    mean_s = median_s(mean_and_deviation) / 1000
    law_s = median_s(lambda: makespan_law(kinds, RATE, 0.0, 8.0))
    runs_s = median_s(lambda: monte_carlo(rng), repeats=5)
    sample = monte_carlo(rng)
    law = makespan_law(kinds, RATE, 0.0, 8.0)
    p99 = float(np.quantile(sample, 0.99))
    # Runs that a Monte Carlo needs to know p to the lattice's own error, about 2e-6.
    needed = 0.25 / (2e-6) ** 2
    copy_s, whole_s, blocks_s = sweep_s()
    starts = plan_against_parser()
    figures = {
        "copy_1e6_scenarios_ms": copy_s * 1e3,
        "compute_1e6_scenarios_at_once_ms": whole_s * 1e3,
        "compute_1e6_scenarios_in_blocks_ms": blocks_s * 1e3,
        "mean_and_deviation_us": mean_s * 1e6,
        "distribution_ms": law_s * 1e3,
        "monte_carlo_250k_ms": runs_s * 1e3,
        "mean_exact_h": span.expected_billed_hours,
        "deviation_exact_h": deviation(kinds, RATE, 0.0),
        "deviation_monte_carlo_h": float(sample.std()),
        "mean_monte_carlo_h": float(sample.mean()),
        "p_by_p99_exact": law.p_by(p99),
    }
    ratios = {
        "mean_and_deviation_over_50us": ratio(mean_s / 50e-6, 1.0),
        "distribution_over_5ms": ratio(law_s / 5e-3, 1.0),
        "monte_carlo_over_exact_at_equal_accuracy": ratio(runs_s * needed / RUNS / law_s, 20.0, "higher"),
        "sweep_1e6_over_copy": ratio(blocks_s / copy_s, 2.5),
        "plan_over_parser": ratio(starts["plan"] / starts["parser"], 1.6),
        "monte_carlo_1e6_over_exact": ratio(4 * runs_s / law_s, 20.0, "higher"),
    }
    report("planner", figures, ratios, ("numpy",))


if __name__ == "__main__":
    main()
