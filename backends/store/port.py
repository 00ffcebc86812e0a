"""What Reprieve asks of an object store: a few operations, one of them conditional.

Promises a store must keep (probed by `reprieve store check`): put-if-absent, read-after-write and
list-after-write. Keys are relative, `/`-separated, without `.` or `..` parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class ObjectInfo:
    """An object as listed or looked up."""

    key: str
    size: int  # bytes
    modified: float  # seconds since 1970 by the store's clock; for display and grace times only


class ObjectStore(Protocol):
    """A place for immutable objects.

    Every method raises StoreError or a subclass, UnreachableError (no answer in time) or CredentialsError (not
    allowed); UsageError for a key that may not name an object.
    """

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        ...

    def create(self, key: str, data: bytes | Iterable[bytes]) -> int:
        """Write a new object durably and return its size; raise ExistsError when `key` exists durably.

        After an UnreachableError the object may or may not exist: create it again, and on ExistsError read it and
        compare the nonce. After a FullError too, but then it may exist and not be durable: never build upon it.
        """
        ...

    def read(self, key: str) -> bytes:
        """The whole object as stored; NotFoundError when absent."""
        ...

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; DamagedError when the object is shorter.

        The first read of a large object after its `create` comes from the store itself, not from a cache.
        """
        ...

    def info(self, key: str) -> ObjectInfo | None:
        """Size and time of an object, None when absent."""
        ...

    def list(self, prefix: str) -> list[ObjectInfo]:
        """All objects whose key starts with `prefix`, ordered by key; complete after every acknowledged write."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object durably; removing an absent one is no error. Only retention calls this."""
        ...

    def replace(self, key: str, data: bytes) -> None:
        """Write or overwrite a small hint (`latest`, a controller's heartbeat); never a checkpoint's part."""
        ...


@runtime_checkable
class Sweeper(Protocol):
    """A store whose crashed writers may leave temporary files behind."""

    def sweep(self, older_than: float) -> int:
        """Remove leftovers last written before `older_than` (seconds since 1970); return how many."""
        ...
