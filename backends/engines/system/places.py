"""Directories of one incarnation: where its init and logs live, and what a rehearsal lays over the node's files."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.engines.port import Process, RestoreRequest, start_ticks
from backends.engines.system.scratch import places_for
from backends.errors import EngineError

IDENTITY, EXIT = "identity.json", "exit.json"
KEPT = 3  # directories of dead incarnations kept for their logs


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Turn an OSError inside into the EngineError that callers of an engine expect, naming file and cause."""
    try:
        yield
    except OSError as error:
        name = clean(error.filename) if error.filename else ""
        raise EngineError(
            f"{what} failed: {name} {clean(error.strerror or error)}".replace(":  ", ": "),
            hint="free space, or make the place readable and writable for the guard",
        ) from None


def incarnation(run: Path, request: RestoreRequest) -> Path:
    """A fresh directory (0700) under `run` for one incarnation's specification, logs and how it ended."""
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = request.job.name if request.scratch is None else f"{request.job.name}.rehearsal"
    number = _prune(run, stem) + 1
    while True:
        place = run / f"{stem}.{number}"
        try:
            place.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return place


def _prune(run: Path, stem: str) -> int:
    """Delete directories of dead incarnations but the newest few; the highest number in use."""
    found = {
        int(p.name[len(stem) + 1 :]): p for p in run.glob(f"{stem}.*") if p.name[len(stem) + 1 :].isdigit()
    }
    dead = [number for number, place in sorted(found.items()) if not _alive(place)]
    for number in dead[:-KEPT]:
        shutil.rmtree(found[number], ignore_errors=True)
    return max(found, default=0)


def _alive(place: Path) -> bool:
    known = _read(place / IDENTITY)
    pid = known.get("pid")
    return isinstance(pid, int) and start_ticks(pid) == known.get("start_ticks")


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def remember(place: Path, process: Process) -> None:
    """Write down whose directory this is, so that a guard that was started again finds how the job ended."""
    (place / IDENTITY).write_text(
        json.dumps({"pid": process.pid, "start_ticks": process.start_ticks}), "utf-8"
    )


def outcome(run: Path, process: Process) -> int | None:
    """Exit code of a job that was brought back and ended since; None while it runs or when nobody could see it."""
    wanted = {"pid": process.pid, "start_ticks": process.start_ticks}
    for place in run.glob(f"*/{IDENTITY}"):
        if _read(place) == wanted:
            code = _read(place.with_name(EXIT)).get("code")
            return code if isinstance(code, int) else None
    return None


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
