"""The names of journalled steps in plain words."""

from __future__ import annotations

# What a step of the journal is about, for people; machine formats and the journal keep its name.
_STEP_WORDS = {
    "begin": "looking at store and node",
    "claim": "taking over: claims the next epoch",
    "void": "settling an epoch that started nothing",
    "continues": "naming checkpoint and node",
    "ask": "its node fetches, verifies and restores",
    "decline": "asking a guard to give the epoch up",
    "override": "setting a refusal aside, as asked",
    "prefetch": "having the save fetched ahead",
    "source": "looking at the node it is on",
    "result": "restored: writing down what it cost",
    "save": "its guard saves",
    "stop": "its guard stops the process",
    "rehearse": "a copy is restored, tried and ended",
    "end zombie": "ending the frozen older copy",
    "hold": "each guard freezes its member at one instant",
    "keep": "each guard saves its held member",
    "drop": "letting the held members run on",
    "commit": "writing the one record of the group's save",
    "epoch": "taking over the whole group: claims its next epoch",
    "brought": "the group is back: writing down who came",
}


def step_words(step: str) -> str:
    """A step's name in plain words; one that has none is shown as it is."""
    return _STEP_WORDS.get(step, step)
