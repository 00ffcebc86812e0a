"""The hash table of a job's last full save: a file on the node's own disk that may be lost at any time.

For each pages file window after window: the hash of each page, then one for each four pages (`hashing`); then a
description of what they belong to and what hash it is, and a digest over it all. It is read by windows, never as a whole, and trusted only if digest, job and content fit; a
table that does not is thrown away, and the next save is a full one. Nothing here is needed to restore.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backends.errors import DamagedError
from backends.ids import CheckpointId, check_uid
from backends.records import strict
from backends.store.fileops import BLOCK, FileOps
from backends.store.format.pagehash import BLAKE3, PageHash
from backends.store.sealing import JobKey

HASH_BYTES = 16
BLOCK_PAGES = 4
_MAGIC = b"RPVTBL1\n"
_TAIL = 4 + len(_MAGIC)  # length of the description, magic
_LIMIT = 64 << 20


@dataclass(frozen=True)
class TableStream:
    """The hashes of one pages file."""

    name: str
    map: str
    page_size: int  # bytes
    pages: int
    window: int  # pages of a window; the last one may be shorter
    first: int  # bytes before its first window

    @property
    def size(self) -> int:
        """Bytes that all its windows take."""
        windows, rest = divmod(self.pages, self.window)
        return windows * window_bytes(self.window) + window_bytes(rest)


def window_bytes(pages: int) -> int:
    """Bytes that a window of so many pages takes in the table."""
    return HASH_BYTES * (pages + -(-pages // BLOCK_PAGES))


@dataclass(frozen=True)
class _Described:
    job_uid: str
    checkpoint: str
    content: str
    streams: tuple[tuple[Any, ...], ...]
    hash: str = BLAKE3
    seed: str = ""
    samples: tuple[tuple[str, str], ...] = ()


class TableWriter:
    """Collects hashes while a save is packed. A disk that does not take them costs the table, never the save."""

    def __init__(self, ops: FileOps, uid: str, key: JobKey, page_hash: PageHash | None = None) -> None:
        self._hash = page_hash or PageHash(key)
        self._ops = ops
        self._uid = check_uid(uid)
        self._hasher = key.hasher()
        self._streams: list[list[Any]] = []
        self._samples: list[list[str]] = []
        self._handle: int | None = None
        with contextlib.suppress(OSError):
            self._unlink()
            self._handle = ops.create(self._name)

    @property
    def _name(self) -> str:
        return f"{self._uid}.new"

    def stream(self, name: str, map_name: str, page_size: int, window: int) -> None:
        """The windows that follow are of this pages file, `window` pages each."""
        self._streams.append([name, map_name, page_size, 0, window])

    def sample(self, digest: str, sample: str) -> None:
        """What a file without pages looks like (`unchanged`)."""
        self._samples.append([digest, sample])

    def add(self, hashes: bytes, blocks: bytes) -> None:
        """The next window: hashes of its pages, and of its blocks by their first page divided by four (zeros: none)."""
        self._streams[-1][3] += len(hashes) // HASH_BYTES
        for part in (hashes, blocks):
            self._hasher.update(part)
            self._write(part)

    def keep(self, checkpoint: CheckpointId, content: str, *, aside: bool = False) -> None:
        """The save is committed: this is the job's table from now on, or lies aside until `promote_table`."""
        described = strict.canonical(
            {
                "job_uid": self._uid,
                "checkpoint": str(checkpoint),
                "content": content,
                "streams": self._streams,
                "hash": self._hash.name,
                "seed": self._hash.seed,
                "samples": self._samples,
            }
        )
        self._hasher.update(described)
        self._write(described + self._hasher.digest() + len(described).to_bytes(4, "little") + _MAGIC)
        whole = self._handle is not None
        self._close()
        with contextlib.suppress(OSError):
            if whole:
                self._ops.rename(self._name, f"{self._uid}.{'next' if aside else 'table'}")
            else:
                drop_table(self._ops, self._uid)

    def discard(self) -> None:
        """The save came to nothing, or another table stays."""
        self._close()
        with contextlib.suppress(OSError):
            self._unlink()

    def _write(self, data: bytes) -> None:
        if self._handle is not None:
            try:
                self._ops.write(self._handle, data)
            except OSError:
                self._close()

    def _close(self) -> None:
        if self._handle is not None:
            self._ops.close(self._handle)
            self._handle = None

    def _unlink(self) -> None:
        if self._ops.stat(self._name) is not None:
            self._ops.unlink(self._name)


class PageTable:
    """An open table whose digest was checked; close it by leaving `open_table`."""

    def __init__(self, ops: FileOps, handle: int, described: _Described, page_hash: PageHash) -> None:
        self.page_hash = page_hash  # what its hashes are
        self._ops = ops
        self._handle = handle
        self.checkpoint = CheckpointId.parse(described.checkpoint)
        self.content = described.content  # content digest of the save it belongs to
        self.samples = dict(described.samples)  # of files without pages, by their digests
        self.streams: dict[str, TableStream] = {}  # by the name of the memory map
        first = 0
        for name, map_name, page_size, pages, window in described.streams:
            self.streams[map_name] = found = TableStream(name, map_name, page_size, pages, window, first)
            first += found.size

    def hashes(self, stream: TableStream, page: int, count: int) -> bytes:
        """The hashes of `count` pages from `page`; DamagedError when the file no longer has them."""
        parts = []
        while count:
            window, at = divmod(page, stream.window)
            many = min(count, stream.window - at)
            parts.append(self._read(stream, window, at, many))
            page += many
            count -= many
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def blocks(self, stream: TableStream, page: int, count: int) -> list[bytes]:
        """The hashes of `count` blocks that begin at `page` and each four pages further; zeros: not known."""
        found: list[bytes] = []
        while count:
            window, at = divmod(page, stream.window)
            many = min(count, -(-(stream.window - at) // BLOCK_PAGES))
            pages = min(stream.window, stream.pages - window * stream.window)
            part = self._read(stream, window, pages + at // BLOCK_PAGES, many)
            found += [part[n : n + HASH_BYTES] for n in range(0, len(part), HASH_BYTES)]
            page += many * BLOCK_PAGES
            count -= many
        return found

    def _read(self, stream: TableStream, window: int, place: int, count: int) -> bytes:
        """`count` hashes from the one at `place` of a window."""
        offset = stream.first + window * window_bytes(stream.window) + place * HASH_BYTES
        try:
            found = self._ops.read(self._handle, count * HASH_BYTES, offset)
        except OSError:
            found = b""
        if len(found) != count * HASH_BYTES:
            raise DamagedError(
                "the page table on this disk cannot be read any more; the next save is a full one"
            )
        return found


@contextlib.contextmanager
def open_table(ops: FileOps, uid: str, key: JobKey) -> Iterator[PageTable | None]:
    """The job's table; None when there is none that may be trusted (a bad one is removed)."""
    name = f"{check_uid(uid)}.table"
    try:
        handle = ops.open(name)
    except OSError:
        yield None
        return
    try:
        described = _read(ops, handle, name, uid, key)
        if described is None:
            drop_table(ops, uid)
        page_hash = None if described is None else PageHash(key, described.hash, described.seed)
        yield None if described is None or page_hash is None else PageTable(ops, handle, described, page_hash)
    finally:
        ops.close(handle)


def promote_table(ops: FileOps, uid: str) -> None:
    """The table that lies aside becomes the job's: its save needs no parent any more."""
    with contextlib.suppress(OSError):
        ops.rename(f"{check_uid(uid)}.next", f"{uid}.table")


def drop_table(ops: FileOps, uid: str) -> None:
    """Forget the job's table, finished or not; the next save is a full one."""
    for name in (f"{check_uid(uid)}.table", f"{uid}.new", f"{uid}.next"):
        with contextlib.suppress(OSError):
            ops.unlink(name)


def _read(ops: FileOps, handle: int, name: str, uid: str, key: JobKey) -> _Described | None:
    """What the table says of itself, once its digest fits; None for whatever is wrong with it."""
    try:
        found = ops.stat(name)
        size = 0 if found is None else found.size
        tail = ops.read(handle, _TAIL, max(0, size - _TAIL))
        length = int.from_bytes(tail[:4], "little")
        hashes = size - _TAIL - key.hasher().digest_size - length
        if tail[4:] != _MAGIC or length > _LIMIT or hashes < 0:
            return None
        hasher = key.hasher()
        for at in range(0, hashes + length, BLOCK):
            hasher.update(ops.read(handle, min(BLOCK, hashes + length - at), at))
        if hasher.digest() != ops.read(handle, hasher.digest_size, hashes + length):
            return None
        document = strict.loads(ops.read(handle, length, hashes), what=name, limit=_LIMIT)
        described = strict.read(_Described, document, what=name)
        PageHash(key, described.hash, described.seed)
    except (OSError, DamagedError, ValueError):
        return None
    if described.job_uid != uid or any(len(row) != 5 or row[4] < 1 for row in described.streams):
        return None
    sizes = [TableStream(row[0], row[1], row[2], row[3], row[4], 0).size for row in described.streams]
    return described if sum(sizes) == hashes else None
