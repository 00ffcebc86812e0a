"""From settings to a Context: named ones from the configuration, and the built-in `practice`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.errors import DamagedError, UsageError
from backends.records import strict
from backends.xdg import base
from console.config.model import Settings
from console.operations.context import Context

PRACTICE_FILE = "context.json"  # written by the practice fleet: fleet, state, store, socket


def practice_directory() -> Path:
    """Where the practice fleet keeps its files."""
    return base("STATE") / "practice"


def build_context(settings: Settings) -> Context:
    """The Context that `settings` name; UsageError when it is `practice` and no practice fleet was started.

    A context of its own name keeps its state apart, so that two fleets never share ledger or keys.
    """
    name = settings.text("context") or "default"
    if name == "practice":
        return _practice(settings)
    default_state = base("STATE") if name == "default" else base("STATE") / "contexts" / name
    default_fleet = (
        base("CONFIG") / "fleet" if name == "default" else base("CONFIG") / "contexts" / name / "fleet"
    )
    return Context(
        name=name,
        fleet=_path(settings, "fleet") or default_fleet,
        state=_path(settings, "state_directory") or default_state,
        cache=_path(settings, "cache_directory") or base("CACHE"),
        production=settings.flag("production"),
        read_only=settings.flag("read_only"),
        store=settings.text("store"),
        ledger=settings.text("ledger"),
        practice_socket=_practice_socket(),
    )


def _practice_socket() -> Path | None:
    """The fake cloud of this machine's practice fleet, for its hosts in a fleet of your own; None without one."""
    try:
        document = strict.loads((practice_directory() / PRACTICE_FILE).read_bytes(), what=PRACTICE_FILE)
    except (OSError, DamagedError):
        return None
    socket = document.get("socket")
    return Path(socket) if isinstance(socket, str) and socket else None


def _practice(settings: Settings) -> Context:
    path = practice_directory() / PRACTICE_FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"context 'practice': no practice fleet was started ({path} is not there): reprieve practice up"
        ) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {clean(error.strerror or error)}") from None
    try:
        document = strict.loads(data, what=str(path))
    except DamagedError as error:
        raise UsageError(
            f"{error.message}: start the practice fleet anew with reprieve practice up"
        ) from None
    return Context(
        name="practice",
        fleet=Path(_text(document, "fleet", path)),
        state=Path(_text(document, "state", path)),
        cache=_path(settings, "cache_directory") or base("CACHE"),
        read_only=settings.flag("read_only"),
        store=_text(document, "store", path),
        ledger=settings.text("ledger"),
        practice_socket=Path(_text(document, "socket", path)),
    )


def _text(document: dict[str, Any], key: str, path: Path) -> str:
    value = document.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(
            f"{path}: {key!r} is missing: start the practice fleet anew with reprieve practice up"
        )
    return value


def _path(settings: Settings, name: str) -> Path | None:
    value = settings.text(name)
    return None if value is None else Path(value)
