"""A plan as people read it: no figure without end, no saving below 0, no sentence about what was not asked."""

from __future__ import annotations

from typing import Any

import pytest

from console.cli.planning.text import text
from console.pictures.figures import hours, saved
from console.pictures.plan import pictures
from planner.advice import evaluate
from planner.plan.inputs import PlanInputs

LOSS = PlanInputs(hours=24.0, discount=0.7, rate=0.125, lost=1 / 6)
SAVED = PlanInputs(hours=24.0, discount=0.7, rate=0.125, checkpoint_cost=0.02, restore=0.05)


def shown(inputs: PlanInputs, **changes: Any) -> str:
    return text(evaluate(inputs._replace(**changes)))


def row(said: str, name: str) -> str:
    return next(line for line in said.splitlines() if line.strip().startswith(name))


@pytest.mark.parametrize("width", [60, 80])
def test_lines_beside_the_pictures_are_folded_to_the_width(width: int) -> None:
    plan = evaluate(SAVED._replace(deadline=30.0))
    said = text(plan, width)
    assert max(map(len, text(plan).splitlines())) > width, "something had to be folded"
    assert max(map(len, said.splitlines())) <= width
    assert said.split() == text(plan).split(), "no word is lost"
    first = next(place for place, line in enumerate(said.splitlines()) if line.startswith("  reclaims"))
    lines = said.splitlines()
    assert lines[first + 1].startswith(" " * lines[first].index("one every")), "it goes on below its note"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.694, "69.4 % saved"), (0.0, "as much as on demand"), (-0.12, "12.0 % dearer"), (-9.9, "990.0 % dearer"),
        (-256.32, "257.3 times as dear"), (None, "–"), (-1e-16, "as much as on demand"),
    ],
)  # fmt: skip
def test_a_saving_is_said_as_people_say_it(value: float | None, words: str) -> None:
    assert saved(value) == words


def test_a_time_beyond_ages_is_a_power_of_ten() -> None:
    assert (hours(24.5), hours(999_999.0), hours(None)) == ("1d 00h 30m", "41666d 15h 00m", "–")
    assert hours(1.307e72) == "1.307e+72 h"
    said = shown(SAVED, rate=40.0, lost=None, interval=1.0, no_resume=True)
    assert max(map(len, said.splitlines())) < 160


def test_the_ends_of_a_range_never_save_a_negative_share() -> None:
    said = shown(SAVED, rate=None, band=">20%", band_basis="hour", restore=0.5, nodes=4)
    assert "-" not in row(said, "at the high end").split("end")[1].split("times")[0]
    assert "times as dear" in row(said, "at the high end")
    assert "% saved" in row(said, "at the low end")


def test_without_reclaims_there_is_no_save_and_no_range() -> None:
    said = shown(SAVED, rate=0.0)
    assert "Do not save: without reclaims" in said
    assert "safe range" not in said
    one = shown(SAVED, rate=1e-4, checkpoint_cost=0.05)
    assert "Do not save\n" in one
    assert "one piece, no save" in one
    assert "Save every" not in shown(SAVED, no_resume=True)


def test_lost_work_and_saves_is_not_called_rl_over_h() -> None:
    """billed/H - 1 holds the saves too; only without them it is rL/H."""
    assert row(shown(LOSS), "lost work, rL/H").split()[3] == "0.02128"
    with_saves = shown(SAVED, interval=1.0)
    assert row(with_saves, "lost work and saves").split()[4] == "0.09375"
    assert "rL/H" not in with_saves


def test_a_notice_is_only_trusted_when_a_share_was_given() -> None:
    assert "trusted" not in shown(SAVED, notice=120.0)
    assert "if 90.0 % of notices are trusted: save every 1h 47m" in shown(
        SAVED, notice=120.0, notice_reliability=0.9
    )


def test_a_deadline_already_lost_has_no_latest_switch() -> None:
    assert row(shown(SAVED, deadline=20.0), "latest switch").split() == [
        "latest", "switch", "–", "too", "late", "from", "the", "start",
    ]  # fmt: skip


def test_the_best_fixed_interval_may_be_none() -> None:
    aged = PlanInputs(
        hours=20.0, discount=0.7, lifetime="bathtub:.45,1,.8,24", checkpoint_cost=0.1, restore=0.1
    )
    said = shown(aged)
    assert row(said, "best fixed interval").endswith("without a save")
    assert row(said, "without a resume").split()[3:6] == ["20h", "55m", "45s"]


def test_a_band_of_a_pool_names_its_feed_and_snapshot() -> None:
    said = shown(
        LOSS,
        rate=None,
        band="<5%",
        band_basis="month",
        pool="aws/x",
        sources=(("band", "feed.json, 2025-06"),),
    )
    assert "band <5%, basis month; feed.json, 2025-06" in row(said, "reclaims")


def test_the_break_even_of_the_picture_names_its_rate() -> None:
    """It is more than G/L of the table: at a higher rate each reclaim loses less."""
    plan = evaluate(SAVED)
    drawn = " ".join("\n".join(pictures(SAVED, width=160)).split())
    assert f"{plan['break_even_rate_per_hour']:.4g} per hour; this plan" in drawn
    dear = " ".join("\n".join(pictures(SAVED._replace(discount=-0.1), width=160)).split())
    assert "% dearer" in dear
    assert "-" not in dear.partition("this plan:")[2].split("dearer")[0]
