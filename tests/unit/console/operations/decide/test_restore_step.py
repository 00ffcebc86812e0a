"""The next step of a restore, for every state of the world."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from console.operations.decide.loss import GuardWord, Proof
from console.operations.decide.restore import Observed, extra_loss_text, next_step

PROOF = Proof("cloud", "gone", "api", "t")


def seen(**changes: Any) -> Observed:
    base: dict[str, Any] = {
        "epoch": 1,
        "claim_is_ours": False,
        "claim_seen_s": 0.0,
        "kind": "genesis",
        "continues_is_ours": False,
        "running_epoch": 1,
        "guard": GuardWord("unreachable"),
        "proof": None,
        "started_from": 1,
        "tries": 0,
    }
    return Observed(**{**base, **changes})


def ours(**changes: Any) -> Observed:
    return seen(
        epoch=2, kind="checkpoint", running_epoch=2, claim_is_ours=True, continues_is_ours=True, **changes
    )


def test_the_usual_path() -> None:
    assert next_step(seen()).name == "no_proof"
    assert next_step(seen(patience_s=10.0)).name == "wait"
    assert next_step(seen(proof=PROOF)).name == "take_over"
    assert next_step(seen(epoch=2, kind="none", claim_is_ours=True)).name == "write_continues"
    assert next_step(ours(guard=GuardWord("absent"))).name == "ask_node"
    assert next_step(ours(guard=GuardWord("restoring"))).name == "ask_node"
    assert next_step(ours(guard=GuardWord("running"))).name == "done"


def test_it_still_runs() -> None:
    assert next_step(seen(guard=GuardWord("running"))).name == "no_proof"
    assert (
        next_step(seen(epoch=2, running_epoch=2, guard=GuardWord("running"), kind="checkpoint")).name
        == "already"
    )


def test_another_taker_is_given_time_and_then_its_claim_is_void() -> None:
    claimed = {"epoch": 2, "kind": "none", "running_epoch": 1, "proof": PROOF}
    assert next_step(seen(**claimed)).name == "wait"
    assert next_step(seen(**claimed, claim_seen_s=61.0)).name == "take_over"


def test_another_taker_that_died_after_naming_is_finished_by_us() -> None:
    step = next_step(seen(epoch=2, kind="checkpoint", running_epoch=2, guard=GuardWord("absent"), proof=None))
    assert step.name == "ask_node"


def test_failures_are_counted() -> None:
    ended = GuardWord("ended", "g", 2, "t", "no room")
    assert next_step(ours(guard=ended, proof=PROOF, tries=1)).name == "take_over"
    last = next_step(ours(guard=ended, proof=PROOF, tries=3))
    assert last.name == "give_up"
    assert last.reason == "no room"
    assert (
        next_step(ours(guard=GuardWord("ended", "g", 2, finished=True), proof=PROOF, tries=1)).name == "done"
    )


WORDS = st.sampled_from(["running", "restoring", "ended", "absent", "behind", "unreachable"])
KINDS = st.sampled_from(["none", "void", "genesis", "checkpoint", "cold"])


@settings(max_examples=400)
@given(
    st.integers(1, 4),
    st.booleans(),
    KINDS,
    st.booleans(),
    WORDS,
    st.booleans(),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_no_take_over_without_proof_and_no_success_without_the_guards_word(
    epoch: int,
    claim: bool,
    kind: str,
    continued: bool,
    word: str,
    proven: bool,
    running: int,
    tries: int,
    from_: int,
) -> None:
    running = epoch if kind not in ("none", "void") else min(running, epoch - 1)
    state = seen(
        epoch=epoch, claim_is_ours=claim, kind=kind, continues_is_ours=continued, guard=GuardWord(word),  # type: ignore[arg-type]  # drawn words
        proof=PROOF if proven else None, running_epoch=running, tries=tries, started_from=from_,
    )  # fmt: skip
    step = next_step(state)
    if step.name == "take_over":
        assert proven or running == 0
        assert tries < 3
    if step.name in ("done", "already"):
        assert word == "running"
        assert running == epoch
    if step.name == "ask_node":
        assert kind == "checkpoint"
        assert word in ("absent", "restoring")


def test_the_extra_loss_is_told_in_minutes() -> None:
    assert "12.5 more minutes" in extra_loss_text(["1.3"], 750.0)
    assert "unknown" in extra_loss_text(["1.3", "1.2"], None)
