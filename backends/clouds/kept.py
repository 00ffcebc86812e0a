"""What was pulled and is kept: SQLite files in the cache directory that can always be pulled again."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from backends.clean import clean
from backends.errors import ReprieveError


@contextlib.contextmanager
def opened(path: Path, what: str) -> Iterator[sqlite3.Connection]:
    """A connection whose changes are committed at the end of the block, and undone when it fails.

    Raises:
        ReprieveError: the file cannot be read or written; `what` names its content in the message.
    """
    try:
        connection = sqlite3.connect(path)
        try:
            with connection:
                yield connection
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise ReprieveError(
            f"{path}: {what} cannot be read ({clean(error)}); delete the file and pull again"
        ) from None
