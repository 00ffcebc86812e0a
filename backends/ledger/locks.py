"""One runner per item on this machine: advisory locks that the kernel frees when the holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.errors import StillRunningError
from backends.ids import check_name


@contextmanager
def only_runner(directory: Path, name: str, what: str) -> Iterator[None]:
    """Hold the lock `name` in `directory` for the block.

    Locks save work; safety comes from the epochs in the store.

    Raises:
        StillRunningError: another process (or another operation here) works on `what`.
    """
    check_name("lock", name)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(directory / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
