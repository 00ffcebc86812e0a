"""Reading config.toml: where it lies, and what may stand in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.errors import UsageError
from backends.ids import check_name
from backends.inventory.document import Document, read_document
from console.config.model import BUILT_IN, BY_NAME, CONTEXT_KEYS, Setting, Value

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off", "")


@dataclass(frozen=True)
class Layer:
    """One file's settings, checked; paths are absolute."""

    path: Path
    values: dict[str, Value] = field(default_factory=dict)
    contexts: dict[str, dict[str, Value]] = field(default_factory=dict)
    document: Document | None = None

    def where(self, *keys: str) -> str:
        """`file:line` of a key."""
        return str(self.path) if self.document is None else self.document.where(*keys)


def read_layer(path: Path) -> Layer:
    """One config.toml; UsageError naming file and line for unknown keys and wrong values."""
    document = read_document(path)
    values: dict[str, Value] = {}
    contexts: dict[str, dict[str, Value]] = {}
    for key, value in document.data.items():
        if key == "contexts":
            for name in document.table("contexts"):
                contexts[name] = _context(document, name)
        elif key not in BY_NAME:
            raise document.unknown((key,), (*BY_NAME, "contexts"))
        else:
            values[key] = _checked(document, BY_NAME[key], value, key)
    return Layer(path, values, contexts, document)


def _context(document: Document, name: str) -> dict[str, Value]:
    at = ("contexts", name)
    try:
        check_name("context", name)
    except UsageError as error:
        raise document.error(str(error), *at) from None
    if name in BUILT_IN and name != "default":
        raise document.error(f"context {name!r} is built in and cannot be changed: choose another name", *at)
    values: dict[str, Value] = {}
    for key, value in document.table(*at).items():
        if key not in CONTEXT_KEYS:
            raise document.unknown((*at, key), CONTEXT_KEYS)
        values[key] = _checked(document, BY_NAME[key], value, *at, key)
    return values


def _checked(document: Document, setting: Setting, value: Any, *at: str) -> Value:
    if setting.kind == "flag":
        if not isinstance(value, bool):
            raise document.error(f"{setting.name} is {value!r}; true or false expected", *at)
        return value
    if not isinstance(value, str) or not value:
        found = "a table" if isinstance(value, dict) else repr(value)
        raise document.error(f"{setting.name} is {found}; text expected", *at)
    if setting.choices and value not in setting.choices:
        raise document.error(
            f"{setting.name} is {value!r}; one of {', '.join(setting.choices)} expected", *at
        )
    if setting.kind == "path":
        return str(document.path.parent.absolute() / Path(value).expanduser())
    return value


def from_text(setting: Setting, value: str, source: str) -> Value:
    """A setting's value as typed in the environment or as an option; UsageError naming `source` otherwise."""
    if setting.kind == "flag":
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        raise UsageError(f"{source} is {clean(value, limit=80)!r}; 1 or 0 expected")
    if setting.choices and value not in setting.choices:
        raise UsageError(
            f"{source} is {clean(value, limit=80)!r}; one of {', '.join(setting.choices)} expected"
        )
    if setting.kind == "path":
        return str(Path(value).expanduser().absolute())
    return value
