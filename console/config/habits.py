"""Habits of the console in `console.toml`, beside config.toml: theme, keys by id, saved views, recording."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from backends.inventory.document import Document, nearest, read_document
from console.config.places import user_file

FILE = "console.toml"
_TOP_KEYS = ("theme", "record", "keys", "views")
_VIEW_KEYS = ("screen", "filter", "sort", "descending")


@dataclass(frozen=True)
class View:
    """A saved filter and sort of one screen."""

    screen: str
    filter: str = ""
    sort: str = ""
    descending: bool = False


@dataclass(frozen=True)
class Habits:
    """What the user's file says; empty without one."""

    theme: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)  # binding id → keys, comma separated
    views: Mapping[str, View] = field(default_factory=dict)
    record: bool = False  # keep what the screens were fed, for `reprieve replay`
    document: Document | None = None  # for `file:line` of what is wrong

    def where(self, *keys: str) -> str:
        """`file:line` of a key, for messages."""
        return FILE if self.document is None else self.document.where(*keys)


def path() -> Path:
    """The user's console.toml, whether it exists or not."""
    return Path(os.path.dirname(user_file())) / FILE  # noqa: PTH120 - places keeps texts


def read(file: Path, themes: Iterable[str], screens: Iterable[str]) -> Habits:
    """The habits in a file; none when it does not exist.

    Raises UsageError naming file and line for an unknown key, theme or screen, or a value of another kind.
    """
    if not file.exists():
        return Habits()
    document = read_document(file)
    for name in document.data:
        if name not in _TOP_KEYS:
            raise document.unknown((name,), _TOP_KEYS)
    theme = document.data.get("theme")
    known = list(themes)
    if theme is not None and theme not in known:
        raise document.error(f"theme is {theme!r}{nearest(str(theme), known)}", "theme")
    record = document.data.get("record", False)
    if not isinstance(record, bool):
        raise document.error(f"record is {record!r}; true or false expected", "record")
    keys = document.table("keys")
    for name, value in keys.items():
        if not isinstance(value, str) or not value:
            raise document.error(
                f'key of {name!r} is {value!r}; a text such as "S" or "ctrl+s,f5" expected', "keys", name
            )
    views = {name: _view(document, name, list(screens)) for name in document.table("views")}
    return Habits(theme, {str(name): str(value) for name, value in keys.items()}, views, record, document)


def _view(document: Document, name: str, screens: list[str]) -> View:
    table = document.table("views", name)
    for key in table:
        if key not in _VIEW_KEYS:
            raise document.unknown(("views", name, key), _VIEW_KEYS)
    screen = table.get("screen")
    if screen not in screens:
        raise document.error(
            f"view {name!r}: screen is {screen!r}{nearest(str(screen), screens)}", "views", name, "screen"
        )
    texts = {key: table.get(key, "") for key in ("filter", "sort")}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise document.error(f"view {name!r}: {key} is {value!r}; a text expected", "views", name, key)
    descending = table.get("descending", False)
    if not isinstance(descending, bool):
        raise document.error(
            f"view {name!r}: descending is {descending!r}; true or false expected",
            "views",
            name,
            "descending",
        )
    return View(str(screen), texts["filter"], texts["sort"], descending)
