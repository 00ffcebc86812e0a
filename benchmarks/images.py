"""Images of processes for `benchmarks/checkpoint.py`: what lies in memory, and how it changes between two saves."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from backends.store.commit import SaveSource
from tests.support.store import pagemap_image

PAGE = 4096
LOW, HIGH = 0x400000, 0x7F0000000000
Pages = npt.NDArray[np.uint8]

DATA = ("random", "float32", "zero-heavy")
CHANGES = ("aligned", "unaligned", "scattered", "mappings")


@dataclass
class Image:
    """Pages by mapping, as CRIU writes them: one pagemap, one pages file."""

    runs: list[tuple[int, Pages]]  # virtual address, pages as rows

    def write(self, where: Path) -> None:
        """A save's directory."""
        (where / "images").mkdir(parents=True)
        (where / "files").mkdir()
        runs = [(vaddr, len(pages), 4) for vaddr, pages in self.runs]
        (where / "images/pagemap-7.img").write_bytes(pagemap_image(1, runs))
        with (where / "images/pages-1.img").open("wb") as out:
            for _, pages in self.runs:
                out.write(pages.data)


def content(kind: str, pages: int, rng: np.random.Generator) -> Pages:
    """So many pages of one kind of data; zero-heavy: nineteen in twenty are zeros."""
    if kind == "float32":
        weights = rng.standard_normal(pages * PAGE // 4, dtype=np.float32) * np.float32(0.02)
        return weights.view(np.uint8).reshape(pages, PAGE)
    found = np.frombuffer(rng.bytes(pages * PAGE), dtype=np.uint8).reshape(pages, PAGE).copy()
    if kind == "zero-heavy":
        found[rng.random(pages) < 0.95] = 0
    return found


def first_image(kind: str, pages: int, rng: np.random.Generator) -> Image:
    """One small mapping and one large one."""
    small = pages // 16
    return Image([(LOW, content(kind, small, rng)), (HIGH, content(kind, pages - small, rng))])


def changed(image: Image, kind: str, change: str, rng: np.random.Generator) -> tuple[Image, int]:
    """The image with a tenth of its pages changed, and how many are not zeros and differ."""
    runs = [(vaddr, pages.copy()) for vaddr, pages in image.runs]
    big = runs[1][1]
    count = len(big) // 10
    if change == "scattered":
        where = rng.choice(len(big), count, replace=False)
    else:
        starts = rng.choice(len(big) // 64 - 1, max(1, count // 64), replace=False) * 64
        shift = 0 if change == "aligned" else 13
        where = (starts[:, None] + shift + np.arange(64)).ravel()
    if change == "mappings":  # one comes before the others, a piece of the large one is unmapped
        where = where[: len(where) // 2]
        fresh = content(kind, count // 2, rng)
        hole = len(big) // 2
        runs = [(LOW // 2, fresh), runs[0], (HIGH, big[:hole]), (HIGH + (hole + 7) * PAGE, big[hole + 7 :])]
    big[where] = content(kind, len(where), rng)
    new = Image(runs)
    before = dict(_by_address(image))
    differ = [page for vaddr, page in _by_address(new) if page.any() and not _same(before.get(vaddr), page)]
    return new, len(differ)


def _by_address(image: Image) -> Iterator[tuple[int, Pages]]:
    for vaddr, pages in image.runs:
        for number, page in enumerate(pages):
            yield vaddr + number * PAGE, page


def _same(old: Pages | None, new: Pages) -> bool:
    return old is not None and bool((old == new).all())


def source(where: Path) -> SaveSource:
    """What the guard hands to the committer."""
    return SaveSource(where, "criu", time.time(), 0.1, 0.1)


def remove(path: Path) -> None:
    """A file or a tree, if it is there."""
    shutil.rmtree(path, ignore_errors=True)
