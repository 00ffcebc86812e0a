"""`file://`: an object store in a directory, durable and private from the first byte.

An object is written to a temporary name in its directory, synced, and linked to its final name: the link is the
atomic create-if-absent. Then the directory is synced, and once per process every directory above it. ExistsError is
raised only after the existing object's name has been synced too, so "it exists" may be built upon. Directories are
never removed: a writer may be about to use them.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from backends.clean import clean
from backends.errors import (
    CredentialsError,
    DamagedError,
    ExistsError,
    FullError,
    NotFoundError,
    ReprieveError,
    StoreError,
    UnreachableError,
    UsageError,
)
from backends.ids import new_nonce
from backends.store.fileops import BLOCK, FileOps, RealOps, Stat, opened, read_all, write_synced
from backends.store.layout import check_key
from backends.store.port import ObjectInfo

TEMPORARY = ".tmp-"
_FULL = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG, errno.EMFILE, errno.ENFILE}
)
_SILENT = frozenset({errno.ETIMEDOUT, errno.ESTALE, errno.EHOSTDOWN, errno.ENOTCONN, errno.EINTR})
_REFUSED = frozenset({errno.EACCES, errno.EPERM})


class FileStore:
    """Objects as files below a root directory."""

    def __init__(self, root: Path, ops: FileOps | None = None, nonce: Callable[[], str] = new_nonce) -> None:
        self._root = root
        self._ops = ops if ops is not None else RealOps(root)
        self._nonce = nonce
        self._durable: set[str] = set()  # directories whose own names this process has synced

    @property
    def url(self) -> str:
        """file:// and the root."""
        return f"file://{self._root}"

    def create(self, key: str, data: bytes | Iterable[bytes]) -> int:
        """Write a new object, durable once this returns; ExistsError when the key is taken (durably)."""
        directory = check_key(key).rpartition("/")[0]
        with self._errors(key):
            temporary = f"{directory}/{TEMPORARY}{self._nonce()}".lstrip("/")
            try:
                size = self._write(directory, temporary, data)
                try:
                    self._ops.link(temporary, key)
                except FileExistsError:
                    self._ops.sync_dir(directory)
                    raise ExistsError(
                        f"{self.url}/{key}: exists already; objects are never overwritten"
                    ) from None
                self._ops.sync_dir(directory)
            finally:
                with contextlib.suppress(OSError):
                    self._ops.unlink(temporary)
        return size

    def replace(self, key: str, data: bytes) -> None:
        """Write or overwrite a hint."""
        directory = check_key(key).rpartition("/")[0]
        temporary = f"{directory}/{TEMPORARY}{self._nonce()}".lstrip("/")
        with self._errors(key):
            try:
                self._write(directory, temporary, data)
                self._ops.rename(temporary, key)
                self._ops.sync_dir(directory)
            except OSError:
                with contextlib.suppress(OSError):
                    self._ops.unlink(temporary)
                raise

    def read(self, key: str) -> bytes:
        """The whole object."""
        with self._errors(check_key(key), reading=True):
            return read_all(self._ops, key)

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; DamagedError when the object is shorter."""
        if offset < 0 or length < 0:
            raise DamagedError(f"{self.url}/{key}: range {offset}+{length} is not one")
        with self._errors(check_key(key), reading=True), opened(self._ops, key) as handle:
            found = self._ops.read(handle, length, offset)
        if len(found) != length:
            raise DamagedError(
                f"{self.url}/{key}: {len(found)} bytes at offset {offset}, expected {length}: the object was cut short"
            )
        return found

    def info(self, key: str) -> ObjectInfo | None:
        """Size and time; None when absent or no plain file."""
        with self._errors(check_key(key), reading=True):
            found = self._ops.stat(key)
        if found is None or found.kind != "file":
            return None
        return ObjectInfo(key, found.size, found.modified)

    def list(self, prefix: str) -> list[ObjectInfo]:
        """All objects below `prefix`, ordered by key; foreign files too, temporary ones and links not."""
        directory = prefix.rpartition("/")[0]
        if directory:
            check_key(directory)
        with self._errors(prefix, reading=True):
            found = [
                ObjectInfo(path, info.size, info.modified)
                for path, info in self._walk(directory)
                if path.startswith(prefix) and info.kind == "file" and TEMPORARY not in path
            ]
        return sorted(found, key=lambda item: item.key)

    def delete(self, key: str) -> None:
        """Remove an object durably; an absent one is no error."""
        directory = check_key(key).rpartition("/")[0]
        with self._errors(key):
            try:
                self._ops.unlink(key)
            except FileNotFoundError:
                return
            self._ops.sync_dir(directory)

    def sweep(self, older_than: float) -> int:
        """Remove temporary files of crashed writers last written before `older_than` (seconds since 1970)."""
        removed = 0
        with self._errors(""):
            for path, info in list(self._walk("")):
                name = path.rpartition("/")[2]
                if name.startswith(TEMPORARY) and info.kind == "file" and info.modified < older_than:
                    with contextlib.suppress(FileNotFoundError):
                        self._ops.unlink(path)
                        removed += 1
        return removed

    def _write(self, directory: str, temporary: str, data: bytes | Iterable[bytes]) -> int:
        if isinstance(data, bytes):
            view = memoryview(data)
            data = (bytes(view[at : at + BLOCK]) for at in range(0, len(view), BLOCK))
        self._ensure(directory)
        try:
            return write_synced(self._ops, temporary, data)
        except FileNotFoundError:
            self._durable.clear()  # someone removed a directory meanwhile
            raise OSError(errno.ESTALE, "the directory vanished while writing", directory) from None

    def _ensure(self, directory: str) -> None:
        """Make a directory and those above it, and sync each one's name unless this process did already."""
        if directory in self._durable:
            return
        above = directory.rpartition("/")[0]
        if directory:
            self._ensure(above)
        with contextlib.suppress(FileExistsError):
            self._ops.mkdir(directory)
        self._ops.sync_dir(above)
        self._durable.add(directory)

    def _walk(self, directory: str) -> Iterator[tuple[str, Stat]]:
        try:
            entries = self._ops.list(directory)
        except (FileNotFoundError, NotADirectoryError):
            return
        for name, info in entries:
            path = f"{directory}/{name}" if directory else name
            if info.kind == "directory":
                yield from self._walk(path)
            else:
                yield path, info

    @contextlib.contextmanager
    def _errors(self, key: str, *, reading: bool = False) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _translate(f"{self.url}/{clean(key, limit=120)}", error, reading=reading) from None


def _translate(what: str, error: OSError, *, reading: bool) -> ReprieveError:
    """The store's error for one of the operating system's."""
    text = f"{what}: {error.strerror or 'I/O error'}"
    if error.errno in _SILENT:
        return UnreachableError(f"{text}; the file system did not answer, the object may or may not be there")
    if error.errno in _REFUSED:
        return CredentialsError(f"{text}; the store's directory belongs to someone else")
    if reading and error.errno == errno.ENOENT:
        return NotFoundError(f"{what}: not in the store")
    if reading and error.errno in (errno.EIO, errno.ELOOP, errno.ENOTDIR, errno.EINVAL, errno.EISDIR):
        return DamagedError(f"{text}; a readable plain file was expected")
    if error.errno in _FULL:
        return FullError(f"{text}; free space on the store or mend its disk")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return UsageError(f"{text}; a link or file stands where the store needs a directory")
    return StoreError(text)
