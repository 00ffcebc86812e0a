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
from backends.store.beside import Beside, DigestBeside
from backends.store.fileops import FileOps, opened, read_all
from backends.store.format import unchanged
from backends.store.format.base import Base
from backends.store.format.extents import Extent, PackedExtents, pack_extents
from backends.store.format.index import Area, Stream
from backends.store.format.packs import FRAME_BYTES
from backends.store.format.pagehash import PageHash
from backends.store.format.pagemap import SMALLEST_PAGE, Pagemap, PagemapError, read_pagemap
from backends.store.format.pages import PageCutter
from backends.store.format.slots import Slots
from backends.store.format.table import TableWriter
from backends.store.sealing import Buffer, JobKey

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

    def __init__(
        self,
        ops: FileOps,
        key: JobKey,
        frames: Callable[[], int],
        digesting: Beside,
        *,
        page_hash: PageHash | None = None,
        base: Base | None = None,
        table: TableWriter | None = None,
    ) -> None:
        """`frames` tells how many frames have been made so far: the number of the next piece's frame.

        Streams' digests are computed by `digesting`. Pages that `base` holds are not read out again but referred to;
        `page_hash` is that of `base`, where there is one. `table` takes the hashes of all pages.
        """
        self.streams: list[Stream] = []
        self.slots = Slots(frames)
        self.pages = self.changed = (
            0  # pages that might be the base's, large files' too; those that are stored
        )
        self._ops = ops
        self._key = key
        self._digesting = digesting
        self._hash = page_hash or PageHash(key)
        self._base = base
        self._table = table

    def images(self) -> Iterator[Buffer]:
        """Pieces of every image file, in order of their names."""
        with _source_errors("images"):
            names = sorted(self._names("images"))
            maps = self._pagemaps(names)
        for name in names:
            yield from self._stream("images", name, maps.get(name))

    def files(self, entries: tuple[SourceFile, ...]) -> Iterator[Buffer]:
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

    def _stream(self, area: Area, name: str, pagemap: tuple[str, Pagemap] | None) -> Iterator[Buffer]:
        with _source_errors(f"{area}/{name}"), opened(self._ops, f"{area}/{name}") as handle:
            if pagemap is not None:
                found = self._ops.stat(f"{area}/{name}")
                page_size = _page_size(pagemap[1], 0 if found is None else found.size)
                if page_size is not None:
                    yield from self._paged(name, handle, *pagemap, page_size)
                    return
            yield from self._plain(area, name, handle)

    def _plain(self, area: Area, name: str, handle: int) -> Iterator[Buffer]:
        """A file without pages: all of it, or a reference where the base holds the same bytes."""
        found = self._ops.stat(f"{area}/{name}")
        size = 0 if found is None else found.size
        large = size >= unchanged.REFER_BYTES
        known = (
            unchanged.find(self._base, self._ops, handle, size, self._key)
            if large and self._base is not None
            else None
        )
        if known is None:
            yield from self._whole(area, name, handle)
        else:
            extents = unchanged.referring(known, self.slots.parent)
            self.streams.append(Stream(area, name, size, known.digest, extents))
        stream = self.streams[-1]
        if large:
            self.pages += stream.size // SMALLEST_PAGE
            self.changed += 0 if known is not None else stream.size // SMALLEST_PAGE
            if self._table is not None:
                self._table.sample(stream.digest, unchanged.sample(self._ops, handle, stream.size, self._key))

    def _whole(self, area: Area, name: str, handle: int) -> Iterator[Buffer]:
        digest = self._digest()
        extents = []
        offset = 0
        while piece := self._ops.read(handle, FRAME_BYTES, offset):
            digest.update(piece)
            slot = self.slots.own()
            self.slots.fill(slot)
            extents.append(Extent(offset, len(piece), 0, slot, 0))
            offset += len(piece)
            yield piece
        packed = PackedExtents(pack_extents(extents))
        self.streams.append(Stream(area, name, offset, digest.hexdigest(), packed))

    def _paged(
        self, name: str, handle: int, map_name: str, pagemap: Pagemap, page_size: int
    ) -> Iterator[Buffer]:
        """A pages file: only what is neither zeros nor held by the base."""
        digest = self._digest()
        base = None if self._base is None else self._base.stream(map_name, page_size)
        cutter = PageCutter(pagemap, page_size, self._hash, self.slots, base, FRAME_BYTES)
        if self._table is not None:
            self._table.stream(name, map_name, page_size, FRAME_BYTES // page_size)
        yield from cutter.pieces(
            lambda length, offset: self._ops.read(handle, length, offset), digest, self._table
        )
        self.pages += pagemap.pages
        self.changed += cutter.changed
        size = pagemap.pages * page_size
        self.streams.append(
            Stream("images", name, size, digest.hexdigest(), cutter.done(), map_name, page_size, cutter.zero)
        )

    def _digest(self) -> DigestBeside:
        return DigestBeside(self._key.hasher(), self._digesting)


def _page_size(pagemap: Pagemap, file_bytes: int) -> int | None:
    """Bytes of a page; None when map and file do not fit together, or frames would not hold whole pages."""
    with contextlib.suppress(PagemapError):
        size = pagemap.page_size(file_bytes)
        return size if FRAME_BYTES % size == 0 else None
    return None


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
