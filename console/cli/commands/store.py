"""`store`: make one ready, and probe what it promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.errors import UsageError
from backends.store.files import FileStore
from backends.store.open import open_store
from backends.store.policies import GENERAL, policies
from backends.store.port import ObjectStore
from backends.store.probe import UNPROVEN, probe
from console.operations.context import KEYS
from console.operations.real.keys import FileKeys
from console.operations.real.toml_records import TomlRecords

if TYPE_CHECKING:
    from console.cli.invocation import Invocation


def _url(invocation: Invocation) -> str:
    url = invocation.arguments.get("url") or invocation.context.store
    url = url or TomlRecords(invocation.context.fleet).inventory().store
    if not url:
        raise UsageError(
            "no store is named and the fleet has no default", hint="reprieve store init file:///srv/reprieve"
        )
    return str(url)


def check(invocation: Invocation) -> int:
    """`store check [URL]`: exit 0 when every promise holds, 1 otherwise."""
    url = _url(invocation)
    store = open_store(url)
    if isinstance(store, FileStore) and not store.root.is_dir():
        raise UsageError(
            f"store {url}: there is no directory {store.root} on this machine",
            hint=f"mount it, or make it: reprieve store init {url}",
        )
    invocation.confirm(1, (f"write and delete a few small probe objects in {url}",), "store")
    return _report(invocation, "reprieve/store-check/v1", store)


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
    examples = policies(url)
    code = _report(
        invocation,
        "reprieve/store/v1",
        open_store(url),
        policy=list(GENERAL),
        policies=[example.document() for example in examples],
    )
    invocation.say(
        f"job keys are kept in {state / KEYS}: back that directory up, checkpoints cannot be read without it"
    )
    for line in GENERAL:
        invocation.say(line)
    for example in examples:
        invocation.say(f"an example for a {example.role} ({example.note}):")
        for line in example.text.splitlines():
            invocation.say(f"    {line}")
    return code


def _report(invocation: Invocation, schema: str, store: ObjectStore, **more: Any) -> int:
    rows = probe(store)
    good = all(row["ok"] for row in rows)
    document = {
        "schema": schema, "url": store.url, "ok": good, "checks": rows, "unproven": list(UNPROVEN), **more
    }  # fmt: skip
    text = "\n".join(
        f"{'ok  ' if row['ok'] else 'FAIL'}  {row['check']:<18} {row['message']}" for row in rows
    )
    invocation.emit(document, lambda _document: f"{store.url}\n{text}")
    for line in UNPROVEN:
        invocation.say(f"not proven: {line}")
    if not good:
        invocation.warn(
            "a job's saves are not safe in this store: do not use it before every line above is ok"
        )
    return 0 if good else 1
