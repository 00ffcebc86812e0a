"""Contexts: where the default one lies, that named ones keep apart, and the practice fleet's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backends.errors import UsageError
from console.config.resolve import resolve
from console.operations.context import Context
from console.operations.contexts import build_context


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    return tmp_path


def build(home: Path, **environ: str) -> Context:
    return build_context(resolve({}, {"XDG_CONFIG_DIRS": str(home / "etc"), **environ}))


def test_the_default_context(home: Path) -> None:
    assert build(home, REPRIEVE_STORE="file:///s", REPRIEVE_PRODUCTION="1") == Context(
        name="default",
        fleet=home / "config" / "reprieve" / "fleet",
        state=home / "state" / "reprieve",
        cache=home / "cache" / "reprieve",
        production=True,
        store="file:///s",
    )


def test_named_contexts_share_neither_ledger_nor_keys(home: Path) -> None:
    path = home / "config" / "reprieve" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[contexts.a]\nfleet = "/f"\n[contexts.b]\n', "utf-8")
    first, second = build(home, REPRIEVE_CONTEXT="a"), build(home, REPRIEVE_CONTEXT="b")
    assert first.fleet == Path("/f")
    assert len({first.state, second.state, build(home).state}) == 3
    assert second.fleet != build(home).fleet


def test_the_practice_context_is_read_from_the_fleets_file(home: Path) -> None:
    with pytest.raises(UsageError, match="no practice fleet was started"):
        build(home, REPRIEVE_CONTEXT="practice")
    path = home / "state" / "reprieve" / "practice" / "context.json"
    path.parent.mkdir(parents=True)
    written = {
        "fleet": "/p/fleet",
        "state": "/p/state",
        "store": "file:///p/store",
        "socket": "/p/s",
        "mode": "x",
    }
    path.write_text(json.dumps(written), "utf-8")
    assert build(home).practice_socket == Path("/p/s")  # its hosts in a fleet of one's own
    context = build(home, REPRIEVE_CONTEXT="practice", REPRIEVE_READ_ONLY="1")
    assert (context.fleet, context.state, context.store) == (
        Path("/p/fleet"),
        Path("/p/state"),
        "file:///p/store",
    )
    assert context.practice_socket == Path("/p/s")
    assert context.read_only
    path.write_text('{"fleet": "/p"}', "utf-8")
    with pytest.raises(UsageError, match="'state' is missing"):
        build(home, REPRIEVE_CONTEXT="practice")
    path.write_text("{", "utf-8")
    with pytest.raises(UsageError, match="start the practice fleet anew"):
        build(home, REPRIEVE_CONTEXT="practice")
