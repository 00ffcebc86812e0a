"""How this process shares its time, so that a key is answered soon while a fleet's changes come in.

Measured at 10,000 rows with 5 % of all cells changing each second (docs/benchmarks.md): what a key draws waits for one
or two of Textual's frames, a collection of a fleet's records stalls everything, and a thread that reads keys or writes
to the terminal waits for as long as Python lets another compute.
"""

from __future__ import annotations

import gc
import os
import sys

FRAMES_A_SECOND = "120"  # Textual draws at most so often, and only when something changed; its own word is 60
YOUNG = 10_000  # records made and not yet gone before the youngest are looked at: 10 ms
SWITCH_S = 0.001  # Python's own word is 5 ms


def before_textual() -> None:
    """Choose the frame rate, unless the user did; Textual reads it when it is loaded."""
    os.environ.setdefault("TEXTUAL_FPS", FRAMES_A_SECOND)


def at_start() -> None:
    """Modules are loaded: they live as long as the process does, and are never collected."""
    gc.freeze()
    gc.set_threshold(YOUNG, 50, 100)
    gc.enable()
    sys.setswitchinterval(SWITCH_S)


def settled() -> None:
    """The first snapshot is in: its records, tens of thousands in a large fleet, are left alone from now on.

    They are freed as they are replaced, which takes no collection: none of them refers to itself.
    """
    gc.freeze()
