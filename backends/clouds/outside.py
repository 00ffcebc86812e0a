"""What a provider tells of machines outside of them, and what of it is news: repeats and disorder are usual. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

WordKind = Literal["hint", "notice", "loss", "alive"]
KEPT = 20_000  # machines remembered
_ENDED = ("terminated", "shutting-down")  # such a machine never comes back; a stopped one may


@dataclass(frozen=True)
class Word:
    """One sentence of a provider about one machine."""

    kind: WordKind
    instance: str
    at: float  # seconds since 1970 by the provider's clock
    text: str  # what is announced, or the state: terminate, stop, shutting-down …
    window_s: float = 0.0  # notice: from `at` to the end, as documented

    def left_s(self, provider_now: float) -> float:
        """Seconds until the end, both times by the provider's clock: a clock of ours that is off changes nothing."""
        return self.window_s - max(0.0, provider_now - self.at)


@dataclass(frozen=True)
class Heard:
    """What was taken in: per machine the kinds told, and how and when it ended."""

    told: dict[str, frozenset[WordKind]] = field(default_factory=dict)
    ended: dict[str, tuple[str, float]] = field(default_factory=dict)


def take(heard: Heard, word: Word) -> tuple[Heard, bool]:
    """Take a word in, and whether it is news: once a machine and kind, and nothing but its return after its end.

    A machine that was terminated is never revived, whatever comes late; one that was stopped is when a younger word says
    that it runs.
    """
    told = heard.told.get(word.instance, frozenset())
    end = heard.ended.get(word.instance)
    if word.kind == "alive":
        if end is None or end[0] in _ENDED or word.at <= end[1]:
            return heard, False
        return _put(heard, word.instance, frozenset(), None), True
    if end is not None or word.kind in told or (word.kind == "hint" and "notice" in told):
        return heard, False
    return _put(
        heard, word.instance, told | {word.kind}, (word.text, word.at) if word.kind == "loss" else None
    ), True


def _put(heard: Heard, instance: str, told: frozenset[WordKind], end: tuple[str, float] | None) -> Heard:
    known = {**heard.told, instance: told}
    ended = {name: each for name, each in heard.ended.items() if name != instance}
    if end is not None:
        ended[instance] = end
    for old in list(known)[: max(0, len(known) - KEPT)]:
        known.pop(old)
        ended.pop(old, None)
    return dataclasses.replace(heard, told=known, ended=ended)


def before(words: Iterable[Word]) -> Heard:
    """What an earlier controller heard, by the history."""
    heard = Heard()
    for word in words:
        heard, _ = take(heard, word)
    return heard


def worth_a_save(left_s: float, cost_s: float | None, *, guard_knows: bool) -> tuple[bool, str]:
    """Whether to ask for a save after a notice from outside, and why.

    Args:
        left_s: until the end.
        cost_s: measured time of a save with its upload; None: none was measured.
        guard_knows: the node's own guard has the notice: it decides, nearer and better.
    """
    if guard_knows:
        return False, "its guard knows and decides"
    if cost_s is None:
        return (left_s > 30.0), f"no save was measured yet, {left_s:.0f} s are left"
    fits = cost_s < 0.7 * left_s
    return fits, f"a save takes {cost_s:.0f} s, {left_s:.0f} s are left" + (
        "" if fits else ": it would not fit"
    )
