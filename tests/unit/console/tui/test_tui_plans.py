"""What a dialog tells, and what it makes happen."""

from __future__ import annotations

import dataclasses

import pytest

from console.operations.view import JobRow
from console.tui.asked import places
from console.tui.model import plans
from tests.support.tui_fleet import NOON, rich_view, settled_view

VIEW = rich_view()


def job(name: str) -> JobRow:
    return next(row for row in VIEW.jobs if row.name == name)


def told(plan: plans.Plan) -> str:
    return "\n".join(
        [f"{label}: {cell.text}" for label, cell in plan.facts] + [note.text for note in plan.notes]
    )


def test_save() -> None:
    plan = plans.save(VIEW, [job("llama-ft")], NOON)
    assert plan.tier == 1
    assert plan.steps[0].words == "jobs save"
    assert plan.steps[0].command == "reprieve --context ml-team jobs save llama-ft"
    for words in (
        "uid: llamaftq7x2m4k6p3w5t",
        "pid 4121 on gpu-a, epoch 3",
        "pause: about 6.4s",
        "size: 212 GiB",
        "at risk now: 4m 12s",
    ):
        assert words in told(plan)


def test_the_default_context_needs_no_option() -> None:
    view = settled_view()
    assert plans.save(view, view.jobs, NOON).steps[0].command == "reprieve jobs save train-a"


def test_a_first_save_has_unknown_costs() -> None:
    assert told(plans.save(VIEW, [job("diffusion-xl")], NOON)).count("unknown: no save yet") == 2


def test_many_are_named_twenty_then_counted() -> None:
    many = [dataclasses.replace(job("llama-ft"), name=f"j{number}") for number in range(25)]
    plan = plans.save(VIEW, many, NOON, hidden=2)
    assert "j19 and 5 more" in told(plan)
    assert "2 marked jobs hidden by the filter: left out" in told(plan)
    assert len(plan.steps) == 25
    assert plan.typed == "25"


def test_restore_tells_loss_target_and_the_rule() -> None:
    plan = plans.restore(VIEW, job("fold-9"), None, NOON)
    assert plan.tier == 2
    assert plan.steps[0].arguments == {"name": "fold-9"}
    for words in (
        "work lost: 35m 22s and counting",
        "to: any compatible node",
        "new epoch: 2",
        "without proof",
    ):
        assert words in told(plan)
    assert "move (M)" not in told(plan)


def test_restoring_a_running_job_advises_to_move() -> None:
    assert "llama-ft is running on gpu-a: move (M)" in told(
        plans.restore(VIEW, job("llama-ft"), "free-1", NOON)
    )


def test_move() -> None:
    plan = plans.move(VIEW, job("llama-ft"), "free-1", NOON)
    assert plan.steps[0].arguments == {"name": "llama-ft", "to": "free-1"}
    assert plan.steps[0].command.endswith("jobs move llama-ft --to free-1")


@pytest.mark.parametrize(("name", "verb"), [("llama-ft", "pause"), ("sd3-lora", "resume")])
def test_suspend(name: str, verb: str) -> None:
    assert plans.suspend(VIEW, [job(name)], NOON).steps[0].words == f"jobs {verb}"


def test_production_lifts_every_tier_by_one() -> None:
    view = rich_view(production=True)
    assert plans.save(view, [job("llama-ft")], NOON).tier == 2
    assert plans.suspend(view, [job("llama-ft")], NOON).tier == 3
    assert plans.raised(3, view) == 3


def test_a_name_cannot_become_a_second_word_of_the_command_line() -> None:
    odd = dataclasses.replace(job("llama-ft"), name="a; rm -rf /")
    assert plans.save(VIEW, [odd], NOON).steps[0].command.endswith("'a; rm -rf /'")


def test_changed() -> None:
    before = plans.identity_of(job("llama-ft"))
    assert plans.changed(before, VIEW, "llama-ft") is None
    assert plans.changed(dataclasses.replace(before, pid=None), VIEW, "llama-ft") == "pid was –, is 4121"
    assert "no longer" in str(plans.changed(before, VIEW, "gone"))


def test_targets_say_why_not() -> None:
    found = places.targets(VIEW, job("fold-9"))
    by_name = {target.name: target for target in found}
    assert by_name["free-1"].fits
    assert not by_name["gpu-e"].fits
    assert "4.2 or newer is needed" in by_name["spot-eu-west-1-m7i-metal-24xl-0042"].note.text
    assert not by_name["gpu-b"].fits, "it is being taken"
    assert [target.fits for target in found] == sorted((target.fits for target in found), reverse=True)
    moving = {target.name: target for target in places.targets(VIEW, job("llama-ft"))}
    assert not moving["gpu-a"].fits
