"""Directories of one incarnation: where its init and logs live, and what a rehearsal lays over the node's files."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from backends.engines.port import RestoreRequest
from backends.engines.system.scratch import places_for


def incarnation(run: Path, request: RestoreRequest) -> Path:
    """A fresh directory (0700) under `run` for one incarnation's specification, logs and how it ended."""
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = request.job.name if request.scratch is None else f"{request.job.name}.rehearsal"
    number = 1
    while True:
        place = run / f"{stem}.{number}"
        try:
            place.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return place


def scratch_plan(request: RestoreRequest) -> tuple[dict[str, Any], list[str]]:
    """What `nsinit` mounts for a rehearsal, and the empty directories under `/` that were made for it."""
    root = request.scratch
    if root is None:
        raise ValueError("a rehearsal needs a scratch directory")
    wanted = [str(path) for path in request.details.get("surroundings", {}).get("places", [])]
    places, make = places_for(wanted)
    made = []
    for path in make:
        Path(path).mkdir()
        made.append(path)
    for name in ("tree", "work"):
        (root / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    plan = {
        "places": places,
        "tree": str(root / "tree"),
        "work": str(root / "work"),
        "user": os.geteuid() != 0,
    }
    return plan, made


def remove_empty(made: list[str]) -> None:
    """Remove the directories that `scratch_plan` made, where nothing was put into them."""
    for path in reversed(made):
        with contextlib.suppress(OSError):
            Path(path).rmdir()
