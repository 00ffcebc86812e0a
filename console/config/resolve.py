"""Merging: flag > environment > context > user file > system file > default, each value with its origin."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from backends.clean import clean
from backends.errors import UsageError
from console.config.model import BUILT_IN, SETTINGS, Setting, Settings, Value
from console.config.places import system_file, user_file

if TYPE_CHECKING:
    from console.config.files import (
        Layer,  # tomllib and more, which a machine without a config.toml never loads
    )


def resolve(flags: Mapping[str, Value], environ: Mapping[str, str], config: str | None = None) -> Settings:
    """The settings in force.

    Args:
        flags: settings given as options, by name.
        environ: the environment; `REPRIEVE_<NAME>` counts when it is not empty.
        config: file of --config, instead of the user's; `REPRIEVE_CONFIG` does the same. It must exist.

    Raises:
        UsageError: an unreadable or wrong file, value or context name.
    """
    layers, files = _layers(environ, config)
    given = _given(flags, environ)
    contexts = tuple(dict.fromkeys((*BUILT_IN, *(name for layer in layers for name in layer.contexts))))
    name, origin = _pick(next(item for item in SETTINGS if item.name == "context"), given, layers, None)
    context = str(name)
    if context not in contexts:
        from backends.inventory.document import nearest

        raise UsageError(
            f"context {clean(context, limit=80)!r} ({origin}) is not known{nearest(context, contexts)}"
        )
    values: dict[str, Value | None] = {}
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        values[setting.name], origins[setting.name] = _pick(setting, given, layers, context)
    return Settings(values, origins, contexts, files)


def _layers(environ: Mapping[str, str], config: str | None) -> tuple[list[Layer], dict[str, bool]]:
    named = config or environ.get("REPRIEVE_CONFIG") or None
    user = os.path.abspath(os.path.expanduser(named)) if named else user_file()
    files = {path: os.path.isfile(path) for path in (user, system_file(environ))}
    if named and not files[user]:
        missing = "is no regular file" if os.path.exists(user) else "does not exist"
        raise UsageError(f"configuration file {user} {missing}")
    if not any(files.values()):
        return [], files
    from pathlib import Path

    from console.config.files import read_layer

    return [read_layer(Path(path)) for path, there in files.items() if there], files


def _given(flags: Mapping[str, Value], environ: Mapping[str, str]) -> dict[str, tuple[Value, str]]:
    given: dict[str, tuple[Value, str]] = {}
    for setting in SETTINGS:
        text = environ.get(setting.variable, "")
        if setting.name in flags:
            given[setting.name] = (flags[setting.name], f"--{setting.name.replace('_', '-')}")
        elif text:
            from console.config.files import from_text

            given[setting.name] = (from_text(setting, text, setting.variable), setting.variable)
    return given


def _pick(
    setting: Setting, given: Mapping[str, tuple[Value, str]], layers: list[Layer], context: str | None
) -> tuple[Value | None, str]:
    if setting.name in given:
        return given[setting.name]
    name = setting.name
    for layer in layers:
        if context is not None and name in layer.contexts.get(context, {}):
            return layer.contexts[context][
                name
            ], f"context {context} in {layer.where('contexts', context, name)}"
    for layer in layers:
        if name in layer.values:
            return layer.values[name], layer.where(name)
    return setting.default, "default" if setting.default is not None else "not set"
