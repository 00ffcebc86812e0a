"""`store`: make one ready, and probe what it promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.errors import ExistsError, ReprieveError, UsageError
from backends.ids import new_nonce
from backends.store.open import open_store
from backends.store.port import ObjectStore
from console.operations.context import KEYS
from console.operations.real.keys import FileKeys
from console.operations.real.toml_records import TomlRecords

if TYPE_CHECKING:
    from console.cli.invocation import Invocation

POLICY = (
    "controllers (consoles, `reprieve watch`): read, list, create, replace, delete",
    "nodes: read and list; create under jobs/<uid>/packs, files and checkpoints; never delete, never epochs/",
)


def _url(invocation: Invocation) -> str:
    url = invocation.arguments.get("url") or invocation.context.store
    url = url or TomlRecords(invocation.context.fleet).inventory().store
    if not url:
        raise UsageError(
            "no store is named and the fleet has no default", hint="reprieve store init file:///srv/reprieve"
        )
    return str(url)


def probe(store: ObjectStore) -> list[dict[str, Any]]:
    """Try each promise with small objects that are removed again: `{check, ok, message}` each."""
    key = f"probes/{new_nonce()}"
    rows: list[dict[str, Any]] = []

    def row(check: str, good: bool, message: str) -> None:
        rows.append({"check": check, "ok": good, "message": message})

    try:
        store.create(key, b"one")
        row("create", True, "a new object can be written")
        try:
            store.create(key, b"two")
            row(
                "create if absent", False, "a second create replaced the first: epochs would not be safe here"
            )
        except ExistsError:
            row("create if absent", True, "a second create is refused")
        good = store.read(key) == b"one"
        row("read after write", good, "the object reads back" if good else "the object reads back altered")
        good = key in [info.key for info in store.list("probes/")]
        row("list after write", good, "the listing holds it" if good else "the listing misses it")
        store.delete(key)
        row("delete", store.info(key) is None, "the probe is gone again")
    except ReprieveError as error:
        row("reach", False, error.message)
    return rows


def check(invocation: Invocation) -> int:
    """`store check [URL]`: exit 0 when every promise holds, 1 otherwise."""
    url = _url(invocation)
    invocation.confirm(1, (f"write and delete a few small probe objects in {url}",), "store")
    return _report(invocation, "reprieve/store-check/v1", open_store(url))


def init(invocation: Invocation) -> int:
    """`store init [URL]`: probe it, make the fleet's key, print who needs which permission."""
    url = _url(invocation)
    state = invocation.context.state
    lines = (
        f"make {url} ready: a few probe objects",
        f"make the fleet's signing key in {state} unless it is there",
    )
    invocation.confirm(1, lines, "store")
    keys = FileKeys(state)
    keys.verify_key()
    code = _report(invocation, "reprieve/store/v1", open_store(url), policy=list(POLICY))
    invocation.say(
        f"job keys are kept in {state / KEYS}: back that directory up, checkpoints cannot be read without it"
    )
    for line in POLICY:
        invocation.say(line)
    return code


def _report(invocation: Invocation, schema: str, store: ObjectStore, **more: Any) -> int:
    rows = probe(store)
    good = all(row["ok"] for row in rows)
    document = {"schema": schema, "url": store.url, "ok": good, "checks": rows, **more}
    text = "\n".join(
        f"{'ok  ' if row['ok'] else 'FAIL'}  {row['check']:<18} {row['message']}" for row in rows
    )
    invocation.emit(document, lambda _document: f"{store.url}\n{text}")
    return 0 if good else 1
