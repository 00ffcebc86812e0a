"""Losses are proven, never guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.clouds.port import InstanceState
from console.operations.decide.loss import (
    GuardWord,
    Limits,
    NodeVerdict,
    Proof,
    Witness,
    job_state_on_silence,
    judge_node,
    judge_unanswered,
    prove,
    why_no_proof,
)

LIMITS = Limits()
CLOUDS = ("running", "stopping", "stopped", "terminated", "unknown")


def cloud(state: str) -> InstanceState:
    return InstanceState(state, "code", "2026-12-01T00:00:00Z", "api")  # type: ignore[arg-type]  # parametrised words


@pytest.mark.parametrize(
    ("witness", "state"),
    [
        (Witness(0, True), "ok"),
        (Witness(0, True, cordoned=True), "cordoned"),
        (Witness(0, True, missing="no guard"), "not_ready"),
        (Witness(0, True, cloud("terminated")), "ok"),
        (Witness(5, False), "ok"),
        (Witness(12, False), "late"),
        (Witness(45, False), "unreachable"),
        (Witness(None, False), "unreachable"),
        (Witness(100_000, False, cloud("running")), "unreachable"),
        (Witness(100_000, False, cloud("stopping")), "unreachable"),
        (Witness(100_000, False, cloud("unknown")), "unreachable"),
        (Witness(1, False, cloud("terminated")), "lost"),
        (Witness(1, False, cloud("stopped")), "lost"),
        (Witness(None, False, cloud("terminated")), "lost"),
    ],
)
def test_node_states(witness: Witness, state: str) -> None:
    verdict = judge_node(witness, LIMITS)
    assert verdict.state == state
    assert (verdict.proof is not None) == (state == "lost")
    if state != "ok":
        assert verdict.reason


@given(st.none() | st.floats(0, 1e9), st.booleans(), st.none() | st.sampled_from(CLOUDS), st.booleans())
def test_lost_needs_both_witnesses(
    silence: float | None, answered: bool, said: str | None, cordoned: bool
) -> None:
    verdict = judge_node(Witness(silence, answered, cloud(said) if said else None, cordoned), LIMITS)
    assert (verdict.state == "lost") == (not answered and said in ("terminated", "stopped"))


GUARDS = st.builds(
    GuardWord,
    st.sampled_from(["running", "restoring", "ended", "absent", "behind", "unreachable"]),
    st.sampled_from([None, "g1", "g2"]),
    st.sampled_from([None, 1, 2]),
)
LOST = NodeVerdict("lost", "gone", Proof("cloud", "gone", "api", "t"))
WORD = Proof("word", "typed", "operator x", "t")


@given(GUARDS, st.booleans(), st.booleans())
def test_what_counts_as_proof(guard: GuardWord, lost: bool, typed: bool) -> None:
    verdict = LOST if lost else NodeVerdict("unreachable", "silent")
    proof = prove(verdict, guard, epoch=1, named_guard="g1", word=WORD if typed else None)
    acknowledged = guard.word == "ended" and guard.guard == "g1" and guard.epoch == 1
    allowed = acknowledged or lost or (typed and guard.word not in ("running", "restoring"))
    assert (proof is not None) == allowed
    if guard.word == "running" and not lost:
        assert proof is None


@pytest.mark.parametrize("word", ["running", "absent", "behind", "unreachable"])
def test_the_refusal_names_job_and_node(word: str) -> None:
    text = why_no_proof("train", "gpu-a", NodeVerdict("unreachable", "silent for 45 s"), GuardWord(word))  # type: ignore[arg-type]  # parametrised words
    assert "train" in text
    assert "gpu-a" in text
    assert "nothing was restored" in text


def test_a_silent_job_waits_for_proof_in_the_end() -> None:
    verdict = NodeVerdict("unreachable", "silent")
    assert job_state_on_silence(verdict, 40, LIMITS) == "unreachable"
    assert job_state_on_silence(verdict, 400, LIMITS) == "waiting_proof"
    assert job_state_on_silence(verdict, None, LIMITS) == "waiting_proof"
    assert job_state_on_silence(LOST, 1, LIMITS) == "waiting_capacity"
    assert job_state_on_silence(NodeVerdict("late"), 12, LIMITS) is None


def test_a_node_asked_in_vain_is_late_at_best_and_says_why() -> None:
    running = InstanceState("running", "", "2026-01-01T00:00:00Z", "aws")
    verdict = judge_unanswered(Witness(3.0, False, running), Limits())
    assert (verdict.state, verdict.proof) == ("late", None)
    assert verdict.reason == "no answer now, 3 s after the last one; the provider says running"
    gone = InstanceState("terminated", "spot", "2026-01-01T00:00:00Z", "aws")
    assert judge_unanswered(Witness(3.0, False, gone), Limits()).state == "lost"
    assert judge_unanswered(Witness(300.0, False, running), Limits()).state == "unreachable"
