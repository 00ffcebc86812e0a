"""An object store in memory with a script of faults: what tests and the practice of bad days use."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from backends.errors import DamagedError, ExistsError, FullError, NotFoundError, UnreachableError
from backends.store.layout import check_key
from backends.store.port import ObjectInfo

FaultKind = Literal["full", "silent", "silent_but_done", "short", "stale"]


@dataclass
class Fault:
    """One line of the script: from the `at`-th matching call on, `times` calls go wrong (0: all later ones)."""

    kind: FaultKind  # short: reads lose their last byte; stale: a listing misses the newest object
    operation: str = ""  # create, read, read_range, info, list, delete, replace; empty: any
    key: str = ""  # only keys containing this
    at: int = 1
    times: int = 1
    seen: int = field(default=0, init=False)

    def strikes(self, operation: str, key: str) -> bool:
        """Count a matching call and say whether it goes wrong."""
        if self.operation not in ("", operation) or self.key not in key:
            return False
        self.seen += 1
        return self.seen >= self.at and (self.times == 0 or self.seen < self.at + self.times)


class MemoryStore:
    """Objects in a dictionary; thread-safe; `calls` counts every operation."""

    def __init__(self, name: str = "memory") -> None:
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.script: list[Fault] = []
        self.calls: list[tuple[str, str]] = []
        self.now = 0.0  # the store's own clock, seconds since 1970
        self._name = name
        self._lock = threading.RLock()

    @property
    def url(self) -> str:
        """memory:// and the name."""
        return f"memory://{self._name}"

    def create(self, key: str, data: bytes | Iterable[bytes]) -> int:
        """Write a new object; ExistsError when the key is taken."""
        check_key(key)
        kind = self._strike("create", key)
        content = data if isinstance(data, bytes) else b"".join(data)
        with self._lock:
            if kind in (None, "silent_but_done"):
                if key in self.objects:
                    raise ExistsError(f"{self.url}/{key}: exists already; objects are never overwritten")
                self.objects[key] = (content, self.now)
        self._raise(kind, key)
        return len(content)

    def replace(self, key: str, data: bytes) -> None:
        """Write or overwrite a hint."""
        check_key(key)
        kind = self._strike("replace", key)
        with self._lock:
            if kind in (None, "silent_but_done"):
                self.objects[key] = (data, self.now)
        self._raise(kind, key)

    def read(self, key: str) -> bytes:
        """The whole object."""
        check_key(key)
        kind = self._strike("read", key)
        self._raise(kind, key)
        with self._lock:
            if key not in self.objects:
                raise NotFoundError(f"{self.url}/{key}: not in the store")
            content = self.objects[key][0]
        return content[:-1] if kind == "short" else content

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; DamagedError when the object is shorter."""
        check_key(key)
        kind = self._strike("read_range", key)
        self._raise(kind, key)
        with self._lock:
            if key not in self.objects:
                raise NotFoundError(f"{self.url}/{key}: not in the store")
            content = self.objects[key][0]
        if offset < 0 or length < 0 or offset + length > len(content) or kind == "short":
            raise DamagedError(
                f"{self.url}/{key}: shorter than {offset}+{length} bytes: the object was cut short"
            )
        return content[offset : offset + length]

    def info(self, key: str) -> ObjectInfo | None:
        """Size and time; None when absent."""
        check_key(key)
        self._raise(self._strike("info", key), key)
        with self._lock:
            found = self.objects.get(key)
        return None if found is None else ObjectInfo(key, len(found[0]), found[1])

    def list(self, prefix: str) -> list[ObjectInfo]:
        """All objects whose key starts with `prefix`, ordered by key."""
        kind = self._strike("list", prefix)
        self._raise(kind, prefix)
        with self._lock:
            found = [
                ObjectInfo(key, len(content), modified)
                for key, (content, modified) in self.objects.items()
                if key.startswith(prefix)
            ]
        if kind == "stale":
            found = found[:-1]
        return sorted(found, key=lambda item: item.key)

    def delete(self, key: str) -> None:
        """Remove an object."""
        check_key(key)
        kind = self._strike("delete", key)
        with self._lock:
            if kind in (None, "silent_but_done"):
                self.objects.pop(key, None)
        self._raise(kind, key)

    def flip(self, key: str, offset: int, mask: int = 1) -> None:
        """Damage one byte of an object, as a bad disk would."""
        content, modified = self.objects[key]
        damaged = bytearray(content)
        damaged[offset] ^= mask
        self.objects[key] = (bytes(damaged), modified)

    def cut(self, key: str, length: int) -> None:
        """Cut an object to `length` bytes."""
        content, modified = self.objects[key]
        self.objects[key] = (content[:length], modified)

    def _strike(self, operation: str, key: str) -> FaultKind | None:
        with self._lock:
            self.calls.append((operation, key))
            struck = [fault.kind for fault in self.script if fault.strikes(operation, key)]
        return struck[0] if struck else None

    def _raise(self, kind: FaultKind | None, key: str) -> None:
        if kind == "full":
            raise FullError(f"{self.url}/{key}: no space left; free space on the store")
        if kind in ("silent", "silent_but_done"):
            raise UnreachableError(f"{self.url}/{key}: no answer in time; the object may or may not be there")
