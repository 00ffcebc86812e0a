"""Reading a save's directory as streams: image files and captured files, cut into frames and extents."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from backends.clean import clean
from backends.errors import StoreError
from backends.records.manifest import check_stream_name
from backends.store.fileops import FileOps, opened, read_all
from backends.store.format.index import Area, Extent, Stream
from backends.store.format.packs import FRAME_BYTES
from backends.store.format.pagemap import Pagemap, PagemapError, read_pagemap
from backends.store.sealing import JobKey

PAGEMAP_LIMIT = 256 << 20  # bytes; a larger one is not read and its pages are stored as plain extents


@dataclass(frozen=True)
class SourceFile:
    """A captured file of a save, as the engine reported it."""

    path: str  # absolute, as the job sees it
    size: int  # bytes at the freeze
    mode: int
    uid: int
    gid: int
    copy: str  # file name under the save directory's `files/`
    origin: Literal["open", "declared"]


@dataclass(frozen=True)
class SaveSource:
    """One finished save on the node's disk: `images/` and `files/` under `directory`, and what is known of it."""

    directory: Path
    engine: str
    frozen_at: float  # wall clock of the freeze instant, seconds since 1970
    frozen_s: float
    dump_s: float
    files: tuple[SourceFile, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    runtime: dict[str, str] = field(default_factory=dict)
    fingerprint: dict[str, Any] = field(default_factory=dict)
    processes: tuple[dict[str, Any], ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    clock_offset_s: float | None = None


class StreamCutter:
    """Reads the streams of a source one frame at a time and notes their extents and digests."""

    def __init__(self, ops: FileOps, key: JobKey, frames: Callable[[], int]) -> None:
        """`frames` tells how many frames have been made so far: the number of the next piece's frame."""
        self.streams: list[Stream] = []
        self._ops = ops
        self._key = key
        self._frames = frames

    def images(self) -> Iterator[bytes]:
        """Pieces of every image file, in order of their names."""
        with _source_errors("images"):
            names = sorted(self._names("images"))
            maps = self._pagemaps(names)
        for name in names:
            yield from self._stream("images", name, maps.get(name))

    def files(self, entries: tuple[SourceFile, ...]) -> Iterator[bytes]:
        """Pieces of every captured file; StoreError when a copy has another size than was captured."""
        for entry in entries:
            yield from self._stream("files", entry.copy, None)
            if self.streams[-1].size != entry.size:
                raise StoreError(
                    f"captured copy {clean(entry.copy, limit=80)} of {clean(entry.path, limit=120)} holds "
                    f"{self.streams[-1].size} bytes, {entry.size} were captured; the save is given up"
                )

    def _names(self, directory: str) -> Iterator[str]:
        for name, info in self._ops.list(directory):
            path = f"{directory}/{name}"
            if info.kind == "directory":
                yield from self._names(path)
            elif info.kind == "file":
                yield check_stream_name(path.partition("/")[2])
            else:
                raise StoreError(f"image {clean(path, limit=120)} is a link or device; plain files are saved")

    def _pagemaps(self, names: list[str]) -> dict[str, tuple[str, Pagemap]]:
        """For each pages file the one pagemap that describes it; unreadable or doubtful ones are left out."""
        found: dict[str, tuple[str, Pagemap]] = {}
        doubtful = set()
        for name in names:
            if not (name.startswith("pagemap-") and name.endswith(".img")):
                continue
            with contextlib.suppress(PagemapError, OSError):
                pagemap = read_pagemap(read_all(self._ops, f"images/{name}", limit=PAGEMAP_LIMIT))
                pages = f"pages-{pagemap.pages_id}.img"
                if pages in found:
                    doubtful.add(pages)
                found[pages] = (name, pagemap)
        return {pages: entry for pages, entry in found.items() if pages not in doubtful}

    def _stream(self, area: Area, name: str, pagemap: tuple[str, Pagemap] | None) -> Iterator[bytes]:
        hasher = self._key.hasher()
        pieces: list[tuple[int, int]] = []  # frame, bytes
        offset = 0
        with _source_errors(f"{area}/{name}"), opened(self._ops, f"{area}/{name}") as handle:
            while piece := self._ops.read(handle, FRAME_BYTES, offset):
                hasher.update(piece)
                offset += len(piece)
                frame = self._frames()
                pieces.append((frame, len(piece)))
                yield piece
        self.streams.append(_make_stream(area, name, offset, hasher.hexdigest(), pieces, pagemap))


def _make_stream(
    area: Area,
    name: str,
    size: int,
    digest: str,
    pieces: list[tuple[int, int]],
    pagemap: tuple[str, Pagemap] | None,
) -> Stream:
    if pagemap is not None:
        with contextlib.suppress(PagemapError):
            page_size = pagemap[1].page_size(size)
            extents = tuple(_page_extents(pagemap[1], page_size, pieces))
            return Stream(area, name, size, digest, extents, pagemap[0], page_size)
    offset = 0
    plain = []
    for frame, length in pieces:
        plain.append(Extent(offset, length, 0, frame, 0))
        offset += length
    return Stream(area, name, size, digest, tuple(plain))


def _page_extents(pagemap: Pagemap, page_size: int, pieces: list[tuple[int, int]]) -> Iterator[Extent]:
    """Extents cut at both the runs of the map and the frames; pieces are whole pages but for nothing."""
    if any(length % page_size for _, length in pieces):
        raise PagemapError("frames do not hold whole pages")
    frames = iter(pieces)
    frame, left = next(frames)
    offset = at = 0
    for vaddr, count in pagemap.runs:
        address, rest = vaddr, count * page_size
        while rest:
            if not left:
                frame, left = next(frames)
                at = 0
            length = min(rest, left)
            yield Extent(offset, length, address, frame, at)
            offset += length
            at += length
            left -= length
            address += length
            rest -= length


@contextlib.contextmanager
def _source_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"save directory, {clean(what, limit=120)}: {error.strerror or 'I/O error'}; the save is given up"
        ) from None
    except ValueError as error:
        raise StoreError(f"save directory: {clean(error)}; the save is given up") from None
