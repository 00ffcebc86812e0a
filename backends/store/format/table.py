"""The hash table of a job's last full save: a file on the node's own disk that may be lost at any time.

One keyed BLAKE3-128 for each page of each pages file, in stream order, then a description of what they belong to
and a digest over it all. It is read by windows, never as a whole, and trusted only if digest, job and content fit; a
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
from backends.store.sealing import JobKey

HASH_BYTES = 16
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
    first: int  # place of its first hash in the table


@dataclass(frozen=True)
class _Described:
    job_uid: str
    checkpoint: str
    content: str
    streams: tuple[tuple[Any, ...], ...]


class TableWriter:
    """Collects hashes while a save is packed. A disk that does not take them costs the table, never the save."""

    def __init__(self, ops: FileOps, uid: str, key: JobKey) -> None:
        self._ops = ops
        self._uid = check_uid(uid)
        self._hasher = key.hasher()
        self._streams: list[list[Any]] = []
        self._handle: int | None = None
        with contextlib.suppress(OSError):
            self._unlink()
            self._handle = ops.create(self._name)

    @property
    def _name(self) -> str:
        return f"{self._uid}.new"

    def stream(self, name: str, map_name: str, page_size: int) -> None:
        """The hashes that follow are of this pages file."""
        self._streams.append([name, map_name, page_size, 0])

    def add(self, hashes: bytes) -> None:
        """Hashes of the next pages."""
        self._streams[-1][3] += len(hashes) // HASH_BYTES
        self._hasher.update(hashes)
        self._write(hashes)

    def keep(self, checkpoint: CheckpointId, content: str, *, aside: bool = False) -> None:
        """The save is committed: this is the job's table from now on, or lies aside until `promote_table`."""
        described = strict.canonical(
            {
                "job_uid": self._uid,
                "checkpoint": str(checkpoint),
                "content": content,
                "streams": self._streams,
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

    def __init__(self, ops: FileOps, handle: int, described: _Described) -> None:
        self._ops = ops
        self._handle = handle
        self.checkpoint = CheckpointId.parse(described.checkpoint)
        self.content = described.content  # content digest of the save it belongs to
        self.streams: dict[str, TableStream] = {}  # by the name of the memory map
        first = 0
        for name, map_name, page_size, pages in described.streams:
            self.streams[map_name] = TableStream(name, map_name, page_size, pages, first)
            first += pages

    def hashes(self, place: int, count: int) -> bytes:
        """The hashes of `count` pages from `place`; DamagedError when the file no longer has them."""
        try:
            found = self._ops.read(self._handle, count * HASH_BYTES, place * HASH_BYTES)
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
        yield None if described is None else PageTable(ops, handle, described)
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
    except (OSError, DamagedError):
        return None
    pages = sum(row[3] for row in described.streams)
    return described if described.job_uid == uid and pages * HASH_BYTES == hashes else None
