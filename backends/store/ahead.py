"""Packs fetched before they are needed: still sealed, in a directory of their own, read there instead of from the store.

Whoever opens a frame authenticates it, wherever it came from; so a pack that lies here needs no trust of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from backends.errors import FullError
from backends.ids import CheckpointId
from backends.store import layout
from backends.store.fetch import CheckpointReader
from backends.store.port import ObjectInfo, ObjectStore
from backends.store.sealing import JobKey

READ_BYTES = 8 << 20


def fetch_ahead(store: ObjectStore, uid: str, checkpoint: CheckpointId, key: JobKey, into: Path) -> int:
    """Copy every pack that `checkpoint` needs into `into`, those that lie there already left alone; the bytes copied.

    Raises:
        NotFoundError, DamagedError: the checkpoint cannot be used.
        FullError: the disk cannot take it; what was copied is of use all the same.
    """
    reader = CheckpointReader(store, uid, checkpoint, key)
    copied = 0
    try:
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        sizes = {pack.name: pack.size for pack in reader.index.packs}
        sizes |= {pack.name: pack.size for pack in reader.manifest.packs}  # that of the index itself too
        for pack, size in sizes.items():
            name = layout.job(uid, *pack.split("/"))
            path = _path(into, name)
            if not path.exists():
                _copy(store, name, size, path)
                copied += size
    except OSError as error:
        raise FullError(f"{into}: packs cannot be kept there: {error.strerror or 'I/O error'}") from None
    return copied


def _copy(store: ObjectStore, name: str, size: int, path: Path) -> None:
    part = path.with_suffix(".part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        for offset in range(0, size, READ_BYTES):
            file.write(store.read_range(name, offset, min(READ_BYTES, size - offset)))
    part.rename(path)


def _path(directory: Path, name: str) -> Path:
    return directory / name.replace("/", "_")


@dataclass
class AheadStore:
    """A store whose packs are read from `directory` where they lie there; everything else goes to `store`."""

    store: ObjectStore
    directory: Path | None  # None: nothing lies here
    from_here: int = 0  # bytes read from the directory
    from_store: int = 0  # bytes of ranges read from the store

    @property
    def url(self) -> str:
        """The store's."""
        return self.store.url

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """From the directory where the whole pack lies there, else from the store."""
        data = self._here(key, offset, length)
        if len(data) == length:
            self.from_here += length
            return data
        self.from_store += length
        return self.store.read_range(key, offset, length)

    def _here(self, key: str, offset: int, length: int) -> bytes:
        if self.directory is None:
            return b""
        try:
            with _path(self.directory, key).open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except OSError:
            return b""

    def create(self, key: str, data: bytes | Iterable[bytes]) -> int:
        """As the store."""
        return self.store.create(key, data)

    def read(self, key: str) -> bytes:
        """As the store."""
        return self.store.read(key)

    def info(self, key: str) -> ObjectInfo | None:
        """As the store."""
        return self.store.info(key)

    def list(self, prefix: str) -> list[ObjectInfo]:
        """As the store."""
        return self.store.list(prefix)

    def delete(self, key: str) -> None:
        """As the store."""
        self.store.delete(key)

    def replace(self, key: str, data: bytes) -> None:
        """As the store."""
        self.store.replace(key, data)
