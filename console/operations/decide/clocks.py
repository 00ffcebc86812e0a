"""A node's wall clock against ours. Nothing is ordered or timed by it, but people and signed calls go by it."""

from __future__ import annotations

NODE_CLOCK = "node clock"
OFF_S = 30.0  # an answer may be on its way for seconds; stores and clouds refuse signed calls from 300 s on


def clock_word(offset_s: float | None) -> str:
    """What to tell of a node whose wall clock is `offset_s` ahead of ours; empty when it is right, or not known."""
    if offset_s is None or abs(offset_s) < OFF_S:
        return ""
    return (
        f"{NODE_CLOCK} {offset_s:+.0f} s against ours: set it right; order, intervals and work at risk do not go by it, "
        f"but stores and clouds may refuse what it signs"
    )


def stamp_word(frozen_at: float, offset_s: float | None, now: float) -> str:
    """What to tell of a save's stamp; `frozen_at` is corrected by `offset_s`, its node's clock less ours, where known."""
    if offset_s is not None and abs(offset_s) >= OFF_S:
        return f"stamped by a {NODE_CLOCK} at {offset_s:+.0f} s; its age is corrected by that"
    if frozen_at - now >= OFF_S:
        return f"stamped {frozen_at - now:.0f} s in the future: a {NODE_CLOCK} was wrong"
    return ""
