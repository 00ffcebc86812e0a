"""Trying a store's promises with small objects that are removed again; `store init`, `store check` and doctor ask."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from backends.errors import ExistsError, ReprieveError
from backends.ids import new_nonce
from backends.store.port import ObjectStore

WRITERS = 16
UNPROVEN = (
    "that what the store acknowledges outlives its own failures: that is its operator's promise",
    "what a node's credentials cannot do: with those of the example policy this very check is refused at its first line",
)

Row = Callable[[str, bool, str], None]


def probe(store: ObjectStore) -> list[dict[str, Any]]:
    """Try each promise: `{check, ok, message}` each, in the order tried; stops where the store cannot be used.

    A store that accepts a condition and ignores it fails `create if absent`: epochs would not be safe there.
    """
    top = f"probes/probe-{new_nonce()}"  # no folder of its own: a directory store keeps empty ones
    rows: list[dict[str, Any]] = []

    def row(check: str, good: bool, message: str) -> None:
        rows.append({"check": check, "ok": good, "message": message})

    written: list[str] = []
    try:
        _one(store, f"{top}.one", row, written)
        _race(store, f"{top}.race", row, written)
        _listing(store, top, row, written)
        for key in written:
            store.delete(key)
        left = store.list(f"{top}.")
        row(
            "delete",
            not left,
            "the probes are gone again" if not left else f"{len(left)} probes are still listed",
        )
    except ReprieveError as error:
        row("reach", False, error.message)
        for key in written:
            with contextlib.suppress(ReprieveError):
                store.delete(key)
    return rows


def _one(store: ObjectStore, key: str, row: Row, written: list[str]) -> None:
    store.create(key, b"one")
    written.append(key)
    row("create", True, "a new object can be written")
    try:
        store.create(key, b"two")
        row("create if absent", False, "a second create replaced the first: epochs would not be safe here")
    except ExistsError:
        good = store.read(key) == b"one"
        message = (
            "a second create is refused" if good else "a second create was refused and changed the object"
        )
        row("create if absent", good, message)


def _race(store: ObjectStore, key: str, row: Row, written: list[str]) -> None:
    """Sixteen writers at once: one wins, and what is read is the winner's."""
    bodies = [b"writer %d" % number for number in range(WRITERS)]
    written.append(key)

    def take(body: bytes) -> bytes | None:
        try:
            store.create(key, body)
        except ExistsError:
            return None
        return body

    with ThreadPoolExecutor(WRITERS) as pool:
        won = [body for body in pool.map(take, bodies) if body is not None]
    good = len(won) == 1 and store.read(key) == won[0]
    words = f"{len(won)} of {WRITERS} simultaneous creates won"
    row("sixteen at once", good, words if good else f"{words}; exactly one, whose bytes stay, is needed")


def _listing(store: ObjectStore, top: str, row: Row, written: list[str]) -> None:
    """What is written is read and listed at once, eight times over."""
    read = listed = True
    for number in range(8):
        key = f"{top}.after.{number}"
        store.create(key, b"%d" % number * 1000)
        written.append(key)
        listed = listed and key in [info.key for info in store.list(f"{top}.after.")]
        read = read and store.read(key) == b"%d" % number * 1000
    row("read after write", read, "objects read back at once" if read else "an object read back altered")
    row(
        "list after write",
        listed,
        "listings are complete at once" if listed else "a listing misses a new object",
    )
