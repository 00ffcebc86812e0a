"""Which checkpoints are read back, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.operations.decide.upkeep import (
    SAMPLED_AT_ONCE,
    Scrub,
    first_whole,
    may_retain,
    may_scrub,
    samples,
    scrub_due,
)
from console.operations.truth import SaveView

DAY = 86400.0


def save(seq: int, **fields: bool) -> SaveView:
    return SaveView(f"1.{seq}", 0.0, 1, "n0", "fake", **fields)  # type: ignore[arg-type]  # flags only


def scrub(seq: int, at: float, *, whole: bool = True) -> Scrub:
    return Scrub(f"1.{seq}", at, "full", whole, "" if whole else "flipped")


def test_due_once_a_period_and_never_when_off() -> None:
    assert scrub_due({}, 0.0, DAY)
    known = {"1.1": scrub(1, 0.0), "1.2": scrub(2, 10.0)}
    assert not scrub_due(known, DAY + 9.0, DAY)
    assert scrub_due(known, DAY + 10.0, DAY)
    assert not scrub_due({}, 0.0, 0.0)


def test_the_newest_unverified_ones_down_to_one_that_was_verified() -> None:
    saves = [save(5), save(4, orphan=True), save(3, usable=False), save(2), save(1, verified=True)]
    assert [(check.checkpoint, check.sample) for check in first_whole(saves, {})] == [
        ("1.5", None),
        ("1.2", None),
    ]
    assert [check.checkpoint for check in first_whole(saves, {"1.5": scrub(5, 0, whole=False)})] == ["1.2"]
    assert first_whole([save(6, verified=True), *saves], {}) == []


def test_samples_take_those_looked_at_longest_ago() -> None:
    saves = [save(seq, verified=True) for seq in (5, 4, 3, 2, 1)]
    known = {
        "1.5": scrub(5, 50.0),
        "1.4": scrub(4, 10.0),
        "1.3": scrub(3, 30.0),
        "1.2": scrub(2, 5.0, whole=False),
    }
    assert [check.checkpoint for check in samples(saves, known)] == ["1.1", "1.4"]


@given(st.lists(st.integers(1, 30), unique=True, max_size=12), st.integers(2, 30))
def test_every_verified_checkpoint_is_sampled_in_turn(seqs: list[int], rounds: int) -> None:
    saves = [save(seq, verified=True) for seq in sorted(seqs, reverse=True)]
    known: dict[str, Scrub] = {}
    for at in range(rounds):
        for check in samples(saves, known):
            known[check.checkpoint] = Scrub(check.checkpoint, float(at), "sample 0.10", True)
    assert len(known) == min(len(saves), rounds * SAMPLED_AT_ONCE)


def test_nothing_is_deleted_under_a_notice_a_takeover_or_after_the_end() -> None:
    for state in (
        "noticed",
        "restoring",
        "waiting_proof",
        "zombie",
        "finished",
        "stopped",
        "ended_unknown",
        "failed",
    ):
        assert not may_retain(state)
    assert may_retain("protected")
    assert may_scrub("stopped")
    assert not may_scrub("restoring")
