"""The user's keys: every binding has an id; the file names other keys for it; clashes are found before the start."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from textual.binding import Binding, BindingError

from backends.errors import UsageError
from backends.inventory.document import nearest
from console.config.habits import Habits
from console.tui.modes import IDS

Scope = dict[str, str]  # binding id → its keys, of everything that is live together


def _bindings(owner: type) -> Iterator[Binding]:
    """The bindings of a class and of our classes that it is made from."""
    for base in owner.__mro__:
        if base.__module__.startswith("console."):
            yield from Binding.make_bindings(base.__dict__.get("BINDINGS", []))


def scopes(application: type) -> dict[str, Scope]:
    """Each screen and panel with the keys that are live on it under this application."""
    from console.tui.screens.choose import Choose
    from console.tui.screens.dialog import Confirm
    from console.tui.screens.operations import Operations
    from console.tui.screens.overlays import Panel
    from console.tui.widgets.detail import DetailPane
    from console.tui.widgets.table import RowTable

    found: dict[str, Scope] = {}
    for mode in IDS:
        screen: Any = getattr(importlib.import_module(f"console.tui.screens.{mode}"), mode.capitalize())
        found[mode] = _scope(application, screen, *(() if mode == "planner" else (RowTable,)))
        found[f"{mode}, detail"] = _scope(application, screen, DetailPane)
    found |= {
        "confirmation": _scope(Confirm),
        "choice": _scope(Choose),
        "panel": _scope(Panel),
        "operations": _scope(Operations, RowTable),
    }
    return found


def _scope(*owners: type) -> Scope:
    scope: Scope = {}
    for owner in owners:
        for binding in _bindings(owner):
            if binding.id:
                scope[binding.id] = ",".join(filter(None, (scope.get(binding.id), binding.key)))
    return scope


def checked(habits: Habits, application: type) -> dict[str, str]:
    """The keymap for Textual.

    Raises UsageError, one line with file and line, for an unknown id, a key that is none, or a key that would mean two
    things on one screen.
    """
    if not habits.keys:
        return {}
    everywhere = scopes(application)
    known = {name for scope in everywhere.values() for name in scope}
    for name, keys in habits.keys.items():
        where = habits.where("keys", name)
        if name not in known:
            raise UsageError(f"{where}: no binding has the id {name!r}{nearest(name, known)}")
        try:
            list(Binding.make_bindings([Binding(keys, "none")]))
        except BindingError as error:
            raise UsageError(f"{where}: {keys!r} is no key: {error}") from None
    for title, scope in everywhere.items():
        _check(title, scope, habits)
    return dict(habits.keys)


def _check(title: str, scope: Scope, habits: Habits) -> None:
    after: Mapping[str, str] = {
        **scope,
        **{name: keys for name, keys in habits.keys.items() if name in scope},
    }
    owner: dict[str, list[str]] = {}
    for name, keys in after.items():
        for binding in Binding.make_bindings([Binding(keys, "none")]):
            owner.setdefault(binding.key, []).append(name)
    for key, names in owner.items():
        moved = [name for name in names if name in habits.keys]
        if moved and len(set(names)) > 1:
            other = next(name for name in names if name != moved[0])
            raise UsageError(
                f"{habits.where('keys', moved[0])}: {key!r} for {moved[0]!r} means {other!r} already on {title}; "
                f"give {other!r} another key, too"
            )
