"""The ledger and the locks of a fleet: in its state directory, or in the database that its URL names."""

from __future__ import annotations

from pathlib import Path

from backends.ledger.history import SqlLedger
from backends.ledger.locks import FileLocks, Locks

FILE = "ledger.db"


def open_ledger(state: Path, url: str | None) -> SqlLedger:
    """Open the ledger, made new when there is none.

    Raises:
        UsageError: the URL is none of a database, or its driver is missing. UnreachableError: no answer.
        ReprieveError: the ledger cannot be read.
    """
    if url is not None:
        from backends.ledger.postgres import PostgresLedger

        return PostgresLedger(url)
    from backends.ledger.sqlite import SqliteLedger

    return SqliteLedger(state / FILE)


def open_locks(state: Path, url: str | None) -> Locks:
    """The locks beside that ledger; nothing is contacted before the first one is taken."""
    if url is not None:
        from backends.ledger.postgres import PostgresLocks

        return PostgresLocks(url)
    return FileLocks(state / "locks")
