"""A held job: whatever comes in whatever order, it stands no longer than its limit, and only a whole save is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backends.guard.decide.hold import LATE_S, Hold, drop, frozen, may_freeze, new_hold, saved, tick, word

AT = 100.0


def held(now: float = AT + 0.5) -> Hold:
    return saved(frozen(new_hold("g", AT, 10.0, 5.0), AT, AT + 0.01), now)


def test_a_hold_that_is_saved_in_time_is_kept_by_the_word() -> None:
    hold = held()
    assert hold.state == "held"
    assert word(hold, keep=True).state == "kept"
    assert word(word(hold, keep=True), keep=False).state == "kept", "the word was given"


def test_the_limit_is_less_than_max_freeze_and_runs_from_the_freeze() -> None:
    hold = new_hold("g", AT, 10.0, 5.0)
    assert hold.limit_s == 4.0
    assert tick(hold, AT + 9).state == "waiting", "it runs until it is frozen"
    assert tick(held(), AT + 3.99).state == "held"
    over = tick(held(), AT + 4.0)
    assert (over.state, over.late) == ("dropped", False)
    assert "nobody said to go on" in over.reason
    assert word(over, keep=True).state == "dropped", "the word came too late"


def test_one_that_comes_late_is_not_frozen() -> None:
    hold = new_hold("g", AT, 10.0, 60.0)
    assert may_freeze(hold, AT + LATE_S / 2).state == "waiting"
    late = may_freeze(hold, AT + LATE_S + 0.01)
    assert (late.state, late.late) == ("dropped", True)
    assert frozen(late, AT + 1, AT + 1).state == "dropped"


def test_the_word_to_keep_does_not_keep_what_is_not_saved_yet() -> None:
    hold = frozen(new_hold("g", AT, 10.0, 60.0), AT, AT)
    assert word(hold, keep=True).state == "dropped"
    assert word(new_hold("g", AT, 10.0, 60.0), keep=False).state == "dropped"


STEPS = st.sampled_from(["freeze", "frozen", "saved", "keep", "drop", "tick", "fail"])


@given(st.lists(st.tuples(STEPS, st.floats(0.0, 3.0)), max_size=12))
def test_in_any_order_nothing_stands_beyond_its_limit_and_only_a_saved_one_is_kept(
    steps: list[tuple[str, float]],
) -> None:
    hold, now, was_saved = new_hold("g", AT, 4.0, 60.0), AT - 1.0, False
    for name, passed in steps:
        now += passed
        before = hold
        match name:
            case "freeze":
                hold = may_freeze(hold, now)
            case "frozen":
                hold = frozen(hold, now, now)
            case "saved":
                hold = saved(hold, now)
                was_saved = was_saved or hold.state == "held"
            case "keep" | "drop":
                hold = word(tick(hold, now), keep=name == "keep")
            case "fail":
                hold = drop(hold, "failed")
            case _:
                hold = tick(hold, now)
        if before.over:
            assert hold == before, "what is over stays as it was"
        if hold.state == "kept":
            assert was_saved
        looked = tick(hold, now)
        if looked.froze is not None and now - looked.froze[0] >= 4.0:
            assert looked.over
