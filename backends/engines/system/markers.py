"""Saves that a program writes by itself: which paths they are, and when one is complete.

A match with a temporary name, still growing, or held open for writing is not complete and never chosen.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

STABLE_POLLS = 3  # polls in a row that see the same sizes and times
TEMPORARY = (".tmp", ".temp", ".part", ".partial", ".incomplete", ".writing", ".swp", ".lock", "~")
# What programs put beside a save for as long as they write it.
UNFINISHED = frozenset({"checkpoint-is-incomplete.txt"})

Shape = tuple[tuple[str, int, int, int], ...]  # (path, inode, size, mtime in ns) of a match and all below it


def is_temporary(name: str) -> bool:
    """Whether a file name says that its content is not finished."""
    return name.startswith((".", "tmp")) or name.lower().endswith(TEMPORARY) or name in UNFINISHED


def shape(path: Path) -> Shape | None:
    """What a match looks like now; None when it is gone, a link, holds something unfinished, or holds no file."""
    if path.is_symlink() or is_temporary(path.name):
        return None
    names = [path]
    if path.is_dir():
        names = [Path(folder) / name for folder, _, files in os.walk(path) for name in files]
    rows = []
    for name in sorted(names):
        try:
            facts = name.lstat()
        except OSError:
            return None
        if is_temporary(name.name):
            return None
        rows.append((str(name), facts.st_ino, facts.st_size, facts.st_mtime_ns))
    return tuple(rows) or None


def written_ns(form: Shape) -> int:
    """When the youngest file of a save was last written, ns since 1970."""
    return max(row[3] for row in form)


def matching(marker: str, base: str, *, finished: bool = True) -> list[str]:
    """Paths of all saves that `marker` names under `base`, whether they are still written or not.

    A marker that ends in a plain name below a pattern (`ckpt/*/COMPLETE`) marks its whole directory as the save.
    Not `finished`: directories that lack that name yet are among them.
    """
    inside = not glob.has_magic(Path(marker).name) and glob.has_magic(str(Path(marker).parent))
    pattern = Path(glob.escape(base)) / (marker if finished or not inside else Path(marker).parent)
    found = glob.glob(str(pattern), recursive=True)  # noqa: PTH207 - absolute patterns are taken too
    if inside and finished:
        found = [str(Path(path).parent) for path in found]
    return sorted(set(found))


def matches(marker: str, base: str) -> dict[str, Shape]:
    """Everything that matches the marker now and could be a whole save, by path."""
    found = ((path, shape(Path(path))) for path in matching(marker, base))
    return {path: form for path, form in found if form is not None}


def is_written(form: Shape, busy: frozenset[str]) -> bool:
    """Whether something of a save is among the paths open for writing."""
    return any(row[0] in busy for row in form)


def newest(candidates: dict[str, Shape]) -> str | None:
    """The candidate that was written last; None when there is none."""
    return max(candidates, key=lambda path: (written_ns(candidates[path]), path), default=None)


@dataclass
class Watch:
    """Decides, poll by poll, whether a new complete save is there. Pure."""

    before: dict[str, Shape]  # what matched before the request
    last: dict[str, Shape]
    seen: dict[str, int]  # path → polls in a row without a change
    untouched: dict[str, float]  # path → time of the last look that still saw it as `before`
    looked: float  # time of the last look

    @classmethod
    def start(cls, before: dict[str, Shape], at: float = 0.0) -> Watch:
        """A watch, begun at the time `at`, for anything that differs from `before`."""
        return cls(before, {}, {}, {}, at)

    def see(self, now: dict[str, Shape], busy: frozenset[str], at: float = 0.0) -> str | None:
        """Take one look at the time `at`; the newest save that is complete, or None.

        `busy` are paths open for writing.
        """
        for path, form in now.items():
            written = is_written(form, busy)
            same = self.last.get(path) == form and not written
            self.seen[path] = self.seen.get(path, 0) + 1 if same else 0
            if self.before.get(path) == form and not written:
                self.untouched[path] = at
            elif path not in self.untouched:
                self.untouched[path] = self.looked
        self.last, self.looked = now, at
        fresh = {path: form for path, form in now.items() if self.before.get(path) != form}
        best = newest(fresh)
        return best if best is not None and self.seen[best] >= STABLE_POLLS else None


def begun_s(form: Shape, births: Iterable[int | None], floor_ns: int, seen_s: float) -> float:
    """The latest instant that the state in a save can be of, seconds since 1970: when its writing began.

    Args:
        form: the save.
        births: when its files were created, ns since 1970; None: unknown.
        floor_ns: when the save before it was complete: what is older tells nothing of this one.
        seen_s: the last look before anything of it was seen.
    """
    times = [*(born for born in births if born is not None), *(row[3] for row in form)]
    return min([seen_s, *(time / 1e9 for time in times if time > floor_ns)])
