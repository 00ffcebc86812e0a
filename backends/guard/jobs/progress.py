"""A launched job's log under `run/`, and its last line as the job's own progress."""

from __future__ import annotations

import os
from pathlib import Path

from backends.clean import clean
from backends.guard.disk.layout import Layout

TAIL_BYTES = 4096


def log_path(layout: Layout, uid: str) -> Path:
    """Where a launched job's output goes; the same path for every epoch, so that a restored job goes on in it."""
    return layout.run / f"job-{uid}.log"


def progress_line(layout: Layout, uid: str) -> str | None:
    """The last whole line of the job's log, cleaned; None when there is none."""
    try:
        with log_path(layout, uid).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    return clean(lines[-2].strip()) if len(lines) >= 2 and lines[-2].strip() else None
