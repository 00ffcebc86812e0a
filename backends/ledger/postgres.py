"""The ledger in PostgreSQL, so that several controllers share one fleet (the extra `reprieve[postgres]`).

A password never stands in the URL: libpq takes it from ~/.pgpass or PGPASSFILE.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, LiteralString
from urllib.parse import urlsplit

from backends.clean import clean
from backends.errors import ReprieveError, StillRunningError, UnreachableError, UsageError
from backends.ids import check_name
from backends.ledger import schema
from backends.ledger.history import SqlLedger

if TYPE_CHECKING:
    import psycopg

SCHEMES = ("postgresql", "postgres")
# A controller whose machine vanished frees its locks when the server gives up on it: 2 + 2 x 1 s.
_OPTIONS: dict[str, Any] = {
    "connect_timeout": 5, "application_name": "reprieve", "keepalives": 1, "keepalives_idle": 2,
    "keepalives_interval": 1, "keepalives_count": 2, "tcp_user_timeout": 4000,
}  # fmt: skip
_SERVER = (
    "SET tcp_keepalives_idle = 2",
    "SET tcp_keepalives_interval = 1",
    "SET tcp_keepalives_count = 2",
    "SET tcp_user_timeout = 4000",
    "SET synchronous_commit = on",
)


def check_url(url: str) -> str:
    """`url` when it can name a database; UsageError otherwise, and when a password stands in it."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.path.strip("/"):
        raise UsageError(f"ledger {clean(url)!r}: postgresql://USER@HOST/DATABASE is expected")
    if parts.password is not None or "password" in parts.query:
        raise UsageError(
            f"ledger at {clean(parts.hostname or '')}: a password stands in its URL",
            hint="put it in ~/.pgpass (0600)",
        )
    return url


def place_of(url: str) -> str:
    """Host and database of a URL, fit to be shown."""
    parts = urlsplit(url)
    return clean(f"{parts.hostname or 'local'}{parts.path}")


def _connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    try:
        import psycopg  # 0.1 s: only where a fleet has its ledger there
    except ImportError:
        raise UsageError(
            "a ledger on PostgreSQL needs the package psycopg", hint="pip install 'reprieve[postgres]'"
        ) from None
    try:
        connection = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor, **_OPTIONS)
        for statement in _SERVER:
            with suppress(psycopg.Error):  # a server without the setting, a socket without keepalives
                connection.execute(statement)
    except psycopg.Error as error:
        raise _silent(url, error) from None
    return connection


def _silent(url: str, error: Exception) -> UnreachableError:
    return UnreachableError(
        f"ledger {place_of(url)} does not answer: {clean(error)}",
        hint="checkpoints live in the store and are not affected; try again when the database is back",
    )


class PostgresDatabase:
    """One connection, opened again after it was lost; a statement is never repeated."""

    def __init__(self, url: str) -> None:
        self.url = check_url(url)
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._prepare()

    def _prepare(self) -> None:
        """Make the tables in a new database; of two controllers that begin at once, one does."""
        statements = schema.statements("postgres")
        with self.writing() as writer:
            writer.execute("SELECT pg_advisory_xact_lock(?)", (lock_number("schema"),))
            if self._query("SELECT to_regclass('reprieve_ledger')", ())[0][0] is None:
                for statement in statements:
                    writer.execute(statement)
                writer.execute("INSERT INTO reprieve_ledger (version) VALUES (?)", (schema.VERSION,))
            for statement in schema.added("postgres"):
                writer.execute(statement)
            versions = self._query("SELECT version FROM reprieve_ledger", ())
            if versions != [(schema.VERSION,)]:
                raise UsageError(
                    f"ledger {place_of(self.url)} has version {clean(versions)}, this program reads {schema.VERSION}",
                    hint="use the reprieve that wrote it",
                )

    def _live(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed:
            self._connection = _connect(self.url)
        return self._connection

    def _query(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        return self._live().execute(_placed(query), values).fetchall()

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> int:
        """Run a statement of the transaction under way; returns how many rows it changed."""
        return self._live().execute(_placed(statement), values).rowcount

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[PostgresDatabase]:
        """See `Database`; here every transaction is durable."""
        with self._lock, self._told(), self._live().transaction():
            yield self

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """See `Database`."""
        with self._lock, self._told():
            return self._query(query, values)

    def stamp(self) -> object | None:
        """See `Database`: not told here."""
        return None

    @contextmanager
    def _told(self) -> Iterator[None]:
        """The database's errors in our words."""
        try:
            yield
        except ReprieveError:
            raise
        except Exception as error:
            import psycopg

            if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                raise _silent(self.url, error) from None
            if isinstance(error, psycopg.Error):
                raise ReprieveError(f"ledger {place_of(self.url)} refused: {clean(error)}") from None
            raise

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()


def _placed(statement: str) -> LiteralString:
    """Our `?` as psycopg's `%s`; no statement of the ledger holds either in its text."""
    return statement.replace("?", "%s")


def lock_number(name: str) -> int:
    """A name as the signed 64-bit number of an advisory lock."""
    return int.from_bytes(hashlib.sha256(f"reprieve {name}".encode()).digest()[:8], "big", signed=True)


class PostgresLocks:
    """Advisory locks of one session: the server frees them when this process dies."""

    def __init__(self, url: str) -> None:
        self.url = check_url(url)
        self._lock = threading.Lock()
        self._held: set[str] = set()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    @contextmanager
    def only_runner(self, name: str, what: str) -> Iterator[None]:
        """See `Locks`."""
        check_name("lock", name)
        number = lock_number(name)
        with self._lock:
            if name in self._held or not self._ask("SELECT pg_try_advisory_lock(%s)", number):
                raise StillRunningError(
                    f"{what} is being worked on by another reprieve of this fleet",
                    hint="see `reprieve operations list`; wait for it to end",
                )
            self._held.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._held.discard(name)
                with suppress(UnreachableError):  # a lost session has freed it already
                    self._ask("SELECT pg_advisory_unlock(%s)", number)

    def _ask(self, query: LiteralString, number: int) -> bool:
        import psycopg

        if self._connection is None or self._connection.closed:
            self._connection = _connect(self.url)
        try:
            row = self._connection.execute(query, (number,)).fetchone()
        except psycopg.Error as error:
            self._connection.close()
            raise _silent(self.url, error) from None
        return row is not None and row[0] is True

    def close(self) -> None:
        """End the session and with it every lock."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()


class PostgresLedger(SqlLedger):
    """History and current state of one fleet in a PostgreSQL database."""

    def __init__(self, url: str) -> None:
        super().__init__(PostgresDatabase(url))
