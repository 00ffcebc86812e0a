"""The ledger's tables in both dialects, and how its file is opened: versioned, never silently replaced."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Literal

from backends.clean import clean
from backends.errors import ReprieveError, UsageError

VERSION = 1

# {number}: a key that counts up by itself. {order}: the order of insertion, which SQLite keeps as rowid anyway.
_TABLES = """
CREATE TABLE events (number {number}, id TEXT NOT NULL UNIQUE, time TEXT NOT NULL,
    kind TEXT NOT NULL, node TEXT, job TEXT, text TEXT NOT NULL, data TEXT NOT NULL);
CREATE INDEX events_job ON events (job, number);
CREATE TABLE jobs (uid TEXT PRIMARY KEY, name TEXT NOT NULL, record TEXT NOT NULL);
CREATE TABLE nodes (name TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE reclaims (key TEXT PRIMARY KEY, at {real} NOT NULL, uid TEXT NOT NULL, record TEXT NOT NULL);
CREATE TABLE saves (uid TEXT NOT NULL, checkpoint TEXT NOT NULL, at {real} NOT NULL, freeze_s {real} NOT NULL,
    upload_s {real} NOT NULL, size_bytes {integer} NOT NULL, PRIMARY KEY (uid, checkpoint));
CREATE TABLE observed (node TEXT NOT NULL, pool TEXT NOT NULL, seconds {real} NOT NULL, PRIMARY KEY (node, pool));
CREATE TABLE words (number {number}, record TEXT NOT NULL);
CREATE TABLE runs (id TEXT PRIMARY KEY, kind TEXT NOT NULL, created_at {real} NOT NULL, arguments TEXT NOT NULL,
    state TEXT NOT NULL, finished_at {real}, detail TEXT NOT NULL{order});
CREATE TABLE items (run TEXT NOT NULL, item TEXT NOT NULL, job TEXT NOT NULL, arguments TEXT NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL, result TEXT NOT NULL{order}, PRIMARY KEY (run, item));
CREATE TABLE steps (run TEXT NOT NULL, item TEXT NOT NULL, number {integer} NOT NULL, step TEXT NOT NULL,
    phase TEXT NOT NULL, at {real} NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run, item, number))
"""
_WORDS = {
    "sqlite": {
        "number": "INTEGER PRIMARY KEY AUTOINCREMENT", "real": "REAL", "integer": "INTEGER", "order": "",
    },
    "postgres": {
        "number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "real": "DOUBLE PRECISION",
        "integer": "BIGINT", "order": ", rowid BIGINT GENERATED ALWAYS AS IDENTITY",
    },
}  # fmt: skip


def statements(dialect: Literal["sqlite", "postgres"]) -> list[str]:
    """What makes the tables in a new database; PostgreSQL's version gets a table of its own."""
    made = [each.strip() for each in _TABLES.format_map(_WORDS[dialect]).split(";")]
    if dialect == "postgres":
        made += [
            "CREATE TABLE reprieve_ledger (version INTEGER NOT NULL)",
        ]
    return made


# What came later: made where it is absent; a program that does not know it works on beside it.
_ADDED = """
CREATE INDEX IF NOT EXISTS events_kind ON events (kind, number);
CREATE TABLE IF NOT EXISTS work (uid TEXT NOT NULL, job TEXT NOT NULL, pool TEXT NOT NULL, market TEXT NOT NULL,
    month TEXT NOT NULL, seconds {real} NOT NULL, PRIMARY KEY (uid, pool, market, month))
"""


def added(dialect: Literal["sqlite", "postgres"]) -> list[str]:
    """Statements for what later versions added, harmless where it is there already."""
    return [each.strip() for each in _ADDED.format_map(_WORDS[dialect]).split(";")]


def connect(path: Path) -> sqlite3.Connection:
    """Open (or create, mode 0600) the ledger at `path` and return its connection.

    WAL lets readers work beside the one writer; `synchronous=FULL` makes a returned journal record durable.

    Raises:
        UsageError: the file was written by a newer version.
        ReprieveError: the file cannot be read; it is kept as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise unreadable(path, error) from None
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version == 0:
            _create(connection)
        elif version > VERSION:
            raise UsageError(
                f"ledger {path} has version {version}, this program reads up to {VERSION}",
                hint="use the newer reprieve that wrote it",
            )
        for statement in added("sqlite"):
            connection.execute(statement)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        connection.close()
        raise unreadable(path, error) from None
    except UsageError:
        connection.close()
        raise
    return connection


def _create(connection: sqlite3.Connection) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables:
        raise sqlite3.DatabaseError("it holds tables but no version: it is not a ledger of this program")
    for statement in statements("sqlite"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={VERSION}")


def unreadable(path: Path, error: Exception) -> ReprieveError:
    """The error for a ledger that cannot be used; nothing is repaired or replaced behind the user's back."""
    return ReprieveError(
        f"ledger {path} cannot be used: {clean(error)}; the file was left as it is",
        hint="move it away to start a new one: checkpoints live in the store and are not affected",
    )
