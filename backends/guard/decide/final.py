"""Whether a final save is worth starting before a reclaim."""

from __future__ import annotations

from dataclasses import dataclass, field

from backends.guard.decide.model import Mind

USABLE_SHARE = 0.7  # windows are often cut short: reference figure of the contract, section 3, definition 12


@dataclass(frozen=True)
class FinalSave:
    """The answer: `refused` is None when a final save fits, else the reason in one sentence."""

    refused: str | None
    text: str = ""
    data: dict[str, float | None] = field(default_factory=dict)


def final_save(mind: Mind, now: float) -> FinalSave:
    """Compare the measured time of a save with 0.7 of the window that is left.

    A job without any save has nothing to lose by trying, unless the window is over.
    """
    deadline = mind.notice.deadline_at
    window = max(0.0, deadline - now) if deadline is not None else 0.0
    estimate = mind.costs.save_s
    data = {"window_s": window, "save_s": estimate}
    if window <= 0:
        return FinalSave("no final save: the window is over; the last save stands", data=data)
    if estimate is None:
        return FinalSave(None, f"nothing is saved yet: one try in the {window:.0f} s that are left", data)
    usable = USABLE_SHARE * window
    if estimate > usable:
        reason = (
            f"no final save: it takes about {estimate:.1f} s and only {usable:.1f} s of the {window:.0f} s "
            f"left can be relied on; the last save stands"
        )
        return FinalSave(reason, data=data)
    return FinalSave(
        None, f"a final save of about {estimate:.1f} s fits the {window:.0f} s that are left", data
    )
