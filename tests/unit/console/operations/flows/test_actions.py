"""Actions as the command line and the terminal app call them, on fakes."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from backends.errors import (
    EngineError,
    IncompatibleError,
    NoProofError,
    ReprieveError,
    StillRunningError,
    UsageError,
)
from backends.fakes.clock import run
from backends.records.job import Job
from console.operations import api
from console.operations.actions.typed import changes_of, job_of
from console.operations.common import runs
from console.operations.observe import Observer
from console.operations.view import FleetView
from tests.support.operations import STORE, Practice


@pytest.fixture(params=["memory", "store"])
def practice(request: pytest.FixtureRequest, tmp_path: Path) -> Practice:
    return Practice(tmp_path, real=request.param == "store")


def act(practice: Practice, words: str, **arguments: Any) -> api.Outcome:
    return run(practice.clock, api.perform(practice.fleet(), words, arguments, lambda text: None))


def view(practice: Practice) -> FleetView:
    async def main() -> FleetView:
        observer = Observer(practice.fleet())
        found = await observer.view()
        await observer.close()
        return found

    return run(practice.clock, main())


def start(practice: Practice, name: str = "train", node: str = "n0") -> Job:
    act(practice, "jobs run", name=name, node=node, command=["true"], interval=60.0)
    return practice.fleet().job(name)


def test_run_claims_epoch_one_names_the_guard_and_takes_the_trial_save(practice: Practice) -> None:
    job = start(practice)
    assert practice.where(job.uid) == [("n0", 1)]
    assert practice.side.checkpoints(job.uid) == ["1.1"]
    lineage = practice.side.truth("x").lineage(job.uid)
    assert [(e.kind, e.target, e.guard) for e in lineage.epochs] == [("genesis", "n0", "guard-n0")]
    assert job.store == STORE
    row = view(practice).jobs[0]
    assert (row.state, row.node, row.epoch, row.checkpoint) == ("unrehearsed", "n0", 1, "1.1")


def test_running_it_twice_is_refused_and_starts_nothing(practice: Practice) -> None:
    job = start(practice)
    with pytest.raises(UsageError, match="under guard on n0 already"):
        start(practice)
    assert practice.where(job.uid) == [("n0", 1)]


def test_a_job_is_protected_only_after_a_rehearsal_on_another_host(practice: Practice) -> None:
    start(practice)
    assert "rehearse" in view(practice).jobs[0].reason
    outcome = act(practice, "jobs rehearse", name="train")
    assert outcome.document["node"] != "n0"
    row = view(practice).jobs[0]
    assert (row.state, row.reason) == ("protected", f"rehearsed on {outcome.document['node']}")


def test_a_failed_rehearsal_leaves_the_job_unrehearsed(practice: Practice) -> None:
    start(practice)
    practice.nodes["n1"].failures = ["no room"]
    with pytest.raises(EngineError, match="no room"):
        act(practice, "jobs rehearse", name="train", to="n1")
    assert view(practice).jobs[0].state == "unrehearsed"
    with pytest.raises(IncompatibleError, match="another host"):
        act(practice, "jobs rehearse", name="train", to="n0")


def test_save_stop_and_start_again(practice: Practice) -> None:
    job = start(practice)
    assert act(practice, "jobs save", name="train").document["checkpoint"] == "1.2"
    stopped = act(practice, "jobs stop", name="train")
    assert stopped.document["checkpoint"] == "1.3"
    assert practice.where(job.uid) == []
    assert view(practice).jobs[0].state == "stopped"
    restored = act(practice, "jobs restore", name="train")
    assert (restored.document["checkpoint"], restored.document["epoch"]) == ("1.3", 2)


def test_an_acknowledged_stop_is_proof_after_the_node_went_silent(practice: Practice) -> None:
    job = start(practice)
    act(practice, "jobs stop", name="train")
    practice.nodes["n0"].partitioned = True
    result = act(practice, "jobs restore", name="train")
    assert practice.where(job.uid) == [(result.document["node"], 2)]


def test_move_ends_here_and_begins_there(practice: Practice) -> None:
    job = start(practice)
    outcome = act(practice, "jobs move", name="train", to="n2")
    assert practice.where(job.uid) == [("n2", 2)]
    assert outcome.document["checkpoint"] == "1.2"
    assert outcome.document["lost_work_s"] == pytest.approx(0, abs=1)
    with pytest.raises(UsageError, match="already"):
        act(practice, "jobs move", name="train", to="n2")


def test_a_move_that_fails_there_runs_here_again_under_a_new_epoch(practice: Practice) -> None:
    job = start(practice)
    practice.nodes["n2"].failures = ["no room"]
    with pytest.raises(ReprieveError, match="runs on n0 again"):
        act(practice, "jobs move", name="train", to="n2")
    assert practice.where(job.uid) == [("n0", 3)]


def test_a_move_to_a_node_that_does_not_fit_touches_nothing(practice: Practice) -> None:
    job = start(practice)
    practice.nodes["n2"].facts = {"arch": "aarch64"}
    with pytest.raises(IncompatibleError, match="not touched"):
        act(practice, "jobs move", name="train", to="n2")
    assert practice.where(job.uid) == [("n0", 1)]


def test_a_last_save_that_fails_leaves_the_job_running(practice: Practice) -> None:
    job = start(practice)
    practice.nodes["n0"].store_away = True
    with pytest.raises(EngineError):
        act(practice, "jobs stop", name="train")
    assert practice.where(job.uid) == [("n0", 1)]


def test_the_typed_word_must_be_the_jobs_name(practice: Practice) -> None:
    job = start(practice)
    practice.nodes["n0"].partitioned = True
    with pytest.raises(UsageError, match="names 'other'"):
        act(practice, "jobs restore", name="train", i_know_it_is_dead="other")
    with pytest.raises(NoProofError):
        act(practice, "jobs restore", name="train")
    result = act(practice, "jobs restore", name="train", i_know_it_is_dead="train")
    assert (result.document["node"], 2) in practice.where(job.uid)
    words = practice.fleet().ledger.words()
    assert [(word.kind, word.epoch) for word in words] == [("dead", 1)]


def test_set_pause_resume_unprotect_remove(practice: Practice) -> None:
    job = start(practice)
    act(practice, "jobs set", name="train", changes=["interval=20m", "priority=3"])
    assert practice.nodes["n0"].held[job.uid].job.interval_s == 1200
    act(practice, "jobs pause", name="train")
    assert view(practice).jobs[0].state == "paused"
    act(practice, "jobs resume", name="train")
    assert view(practice).jobs[0].state == "unrehearsed"
    act(practice, "jobs unprotect", name="train")
    assert view(practice).jobs[0].state == "unprotected"
    assert practice.where(job.uid) == [("n0", 1)]
    act(practice, "jobs remove", name="train")
    assert practice.records.jobs() == {}
    assert practice.side.checkpoints(job.uid) == ["1.1"]


def test_a_name_used_again_gets_a_new_uid(practice: Practice) -> None:
    first = start(practice)
    act(practice, "jobs unprotect", name="train")
    second = start(practice)
    assert first.uid != second.uid


def test_read_only_contexts_and_unknown_words_are_refused(practice: Practice) -> None:
    from dataclasses import replace

    fleet = practice.fleet()
    fleet.context = replace(fleet.context, read_only=True)
    with pytest.raises(UsageError, match="read-only"):
        run(practice.clock, api.perform(fleet, "jobs save", {"name": "x"}, lambda text: None))
    with pytest.raises(UsageError, match="not an action"):
        act(practice, "jobs dance")


def test_nodes_are_cordoned_installed_and_removed(practice: Practice) -> None:
    start(practice)
    act(practice, "fleet cordon", name="n1")
    assert {row.name: row.state for row in view(practice).nodes}["n1"] == "cordoned"
    act(practice, "fleet uncordon", name="n1")
    with pytest.raises(UsageError, match="protected job train"):
        act(practice, "fleet remove", name="n0")
    act(practice, "fleet remove", name="n3")
    practice.nodes["n2"].installed = False
    outcome = act(practice, "fleet install", names=["n2"])
    assert outcome.exit_code == 0
    assert practice.installed == ["n2"]


def test_a_silent_node_is_fenced_on_the_operators_word(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    with pytest.raises(UsageError, match="answers: nothing was turned off"):
        act(practice, "fleet fence", name="n0")
    practice.nodes["n0"].partitioned = True
    practice.cloud.on_terminate = lambda instance: practice.nodes["n0"].reclaim()
    result = act(practice, "fleet fence", name="n0")
    assert result.document["state"] == "terminated"
    act(practice, "jobs restore", name="train")
    assert [epoch for _, epoch in practice.where(job.uid)] == [2]


@pytest.mark.parametrize("words", ["jobs move", "jobs restore", "jobs rehearse"])
def test_a_place_that_is_none_is_wrong_usage(practice: Practice, words: str) -> None:
    start(practice)
    with pytest.raises(UsageError, match="'n9': no node or pool of this fleet is called so"):
        act(practice, words, name="train", to="n9")
    pool = practice.records.nodes()["n0"].pool
    assert pool is not None
    if words == "jobs rehearse":
        assert act(practice, words, name="train", to=pool).exit_code == 0


def test_a_lost_node_announces_nothing_any_more(practice: Practice) -> None:
    async def main() -> list[tuple[str, str | None, float | None]]:
        observer = Observer(practice.fleet())
        seen: list[tuple[str, str | None, float | None]] = []
        for _ in range(2):
            row = next(node for node in (await observer.view()).nodes if node.name == "n0")
            seen.append((row.state, row.notice, row.notice_left_s))
            practice.reclaim("n0")
            practice.clock.advance(60)
        await observer.close()
        return seen

    start(practice)
    practice.nodes["n0"].notice, practice.nodes["n0"].notice_deadline_s = "notice", 12.0
    before, after = run(practice.clock, main())
    assert before[:2] == ("ok", "notice")
    assert after == ("lost", None, None)


def test_a_restore_that_is_not_waited_for_goes_on_and_the_same_command_keeps_the_books(
    practice: Practice,
) -> None:
    job = start(practice)
    practice.reclaim("n0")
    with pytest.raises(StillRunningError, match="goes on there by itself"):
        act(practice, "jobs restore", name="train", no_wait=True)
    assert practice.fleet().ledger.reclaims() == []
    result = act(practice, "jobs restore", name="train")
    assert [epoch for _, epoch in practice.where(job.uid)] == [2]
    assert result.document["state"] == "restored"
    ledger = practice.fleet().ledger
    assert [run.state for run in ledger.runs(10) if run.kind == "restore"] == ["done"]
    assert len(ledger.reclaims()) == 1


def test_a_move_that_is_not_waited_for_is_finished_by_the_same_command(practice: Practice) -> None:
    job = start(practice)
    with pytest.raises(StillRunningError):
        act(practice, "jobs move", name="train", to="n2", no_wait=True)
    act(practice, "jobs move", name="train", to="n2")
    assert [node for node, _ in practice.where(job.uid)] == ["n2"]
    runs_ = [run for run in practice.fleet().ledger.runs(10) if run.kind == "move"]
    assert [run.state for run in runs_] == ["done"]


def test_the_refusal_keeps_what_was_typed(practice: Practice) -> None:
    start(practice)
    practice.nodes["n0"].partitioned = True
    practice.cloud.states["i-n0"] = "running"
    with pytest.raises(NoProofError) as error:
        act(practice, "jobs restore", name="train", to="n2", checkpoint="1.1")
    assert error.value.hint is not None
    assert error.value.hint.endswith(
        "reprieve jobs restore train --to n2 --checkpoint 1.1 --i-know-it-is-dead train"
    )


def test_a_node_that_nobody_can_turn_off_says_what_to_set(practice: Practice) -> None:
    practice.running_job("train", "n0")
    practice.records.put_node(dataclasses.replace(practice.records.nodes()["n0"], provider="none"))
    practice.nodes["n0"].partitioned = True
    with pytest.raises(UsageError, match="nobody can turn it off") as error:
        act(practice, "fleet fence", name="n0")
    assert "[nodes.n0] fence" in (error.value.hint or "")


def test_typed_arguments_become_a_record() -> None:
    job = job_of(
        None,
        {
            "name": "a",
            "node": "n",
            "pid": 7,
            "interval": "auto",
            "runtime": ["serving=vllm 0.20"],
            "done": "file=/d",
        },
    )
    assert job.attach is not None
    assert (job.attach.pid, job.interval_s, job.runtime, job.done_file) == (
        7,
        None,
        {"serving": "vllm 0.20"},
        "/d",
    )
    again = job_of(job, {"name": "a", "command": ["x", "y"], "interval": 5.0})
    assert (again.command, again.attach, again.interval_s, again.node) == (("x", "y"), None, 5.0, "n")
    with pytest.raises(UsageError, match="--node"):
        job_of(None, {"name": "a"})
    preset = job_of(
        None, {"name": "a", "node": "n", "preset": "ray-train=/r", "signal": "USR2", "files": ["/x"]}
    )
    assert (preset.engine, preset.signal, preset.files) == ("signal", "USR2", ("/r", "/x"))
    with pytest.raises(UsageError, match="--preset 'keras'"):
        job_of(None, {"name": "a", "node": "n", "preset": "keras"})
    with pytest.raises(UsageError, match=r"give one of them"):
        job_of(None, {"name": "a", "node": "n", "pid": 7, "container": "c"})


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("interval=10m", {"interval_s": 600.0}),
        ("interval=auto", {"interval_s": None}),
        ("priority=-3", {"priority": -3}),
        ("keep-last=5", {"keep_last": 5}),
        ("rollback=true", {"rollback": True}),
    ],
)
def test_set_reads_values_by_the_fleet_files_rules(text: str, fields: dict[str, Any]) -> None:
    assert changes_of([text]) == fields


@pytest.mark.parametrize(
    "text", ["intervall=10m", "interval=10", "interval", "uid=x", "engine=criu", "priority=high"]
)
def test_set_refuses_by_name(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        changes_of([text])
    assert "\n" not in caught.value.message


def test_a_restore_that_waits_for_nobody_leaves_nothing_running(practice: Practice) -> None:
    job = start(practice)
    fleet = practice.fleet()
    with (
        fleet.locks.only_runner(f"job.{job.uid}", "job train"),
        pytest.raises(StillRunningError),
    ):
        act(practice, "jobs restore", name="train", to="n1")
    assert [(row.kind, row.state) for row in view(practice).operations if row.kind == "restore"] == [
        ("restore", "failed")
    ]
    assert view(practice).jobs[0].state == "unrehearsed"


def test_an_interrupted_move_is_closed_and_the_job_can_be_brought_back(
    practice: Practice, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(practice)

    async def cut(*_words: Any, **_named: Any) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr("console.operations.flows.move.restore", cut)
        with pytest.raises(asyncio.CancelledError):
            act(practice, "jobs move", name="train", to="n1")
    shown = view(practice)
    assert [(row.kind, row.state) for row in shown.operations if row.kind == "move"] == [
        ("move", "cancelled")
    ]
    assert shown.jobs[0].state == "stopped"
    act(practice, "jobs restore", name="train", to="n1")
    assert view(practice).jobs[0].node == "n1"


def test_a_given_up_operation_hides_nothing_and_a_stopped_job_risks_nothing(practice: Practice) -> None:
    start(practice)
    runs.open_run(practice.fleet(), "move", [("1", "train", {})])  # its console was killed
    practice.clock.advance(5)
    act(practice, "jobs save", name="train")
    assert view(practice).jobs[0].state == "unrehearsed"
    act(practice, "jobs stop", name="train")
    practice.nodes["n0"].reclaim()
    practice.clock.advance(500)
    row = view(practice).jobs[0]
    assert (row.state, row.risk_base_s) == ("stopped", None)
    act(practice, "jobs restore", name="train", to="n1")
    runs.open_run(practice.fleet(), "restore", [("1", "train", {})])
    act(practice, "jobs unprotect", name="train")
    assert view(practice).jobs[0].state == "unprotected"
