"""`jobs`: the handlers by name; looking is in `jobs_look`, acting in `jobs_act`."""

from __future__ import annotations

from console.cli.commands.jobs_act import (
    move,
    pause,
    protect,
    rehearse,
    remove,
    restore,
    resume,
    run,
    save,
    set_,
    stop,
    unprotect,
)
from console.cli.commands.jobs_look import doctor, list_, show

__all__ = [
    "doctor", "list_", "move", "pause", "protect", "rehearse", "remove", "restore", "resume", "run", "save", "set_",
    "show", "stop", "unprotect",
]  # fmt: skip
