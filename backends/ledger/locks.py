"""One runner per item: advisory locks that are freed when their holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from backends.errors import StillRunningError
from backends.ids import check_name


class Locks(Protocol):
    """Locks save work; safety comes from the epochs in the store."""

    def only_runner(self, name: str, what: str) -> AbstractContextManager[None]:
        """Hold the lock `name` for the block; freed at once when this process is killed.

        Raises:
            StillRunningError: another process (or another operation here) works on `what`.
        """
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class FileLocks:
    """Locks among the processes of this machine, in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextmanager
    def only_runner(self, name: str, what: str) -> Iterator[None]:
        """See `Locks`."""
        check_name("lock", name)
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.directory / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StillRunningError(
                    f"{what} is being worked on by another reprieve on this machine",
                    hint="see `reprieve operations list`; wait for it to end",
                ) from None
            yield
        finally:
            os.close(handle)

    def close(self) -> None:
        """Nothing is held between blocks."""
