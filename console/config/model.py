"""What can be set, where, and with which values; and settings as resolved."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Value = str | bool
COLOURS = ("auto", "always", "never")
OUTPUTS = ("table", "wide", "json", "ndjson", "csv", "yaml", "name")
BUILT_IN = ("default", "practice")  # contexts that need no entry in a file


class Setting(NamedTuple):
    """One setting: a flag's namesake, `REPRIEVE_<NAME>`, a key of a context or of config.toml's top level."""

    name: str
    kind: Literal["text", "path", "flag", "choice"]
    help: str
    default: Value | None = None
    choices: tuple[str, ...] = ()
    in_context: bool = True  # may stand in [contexts.NAME]

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"REPRIEVE_{self.name.upper()}"


SETTINGS: tuple[Setting, ...] = (
    Setting("context", "text", "which named settings to use", "default", in_context=False),
    Setting("fleet", "path", "TOML file or directory with nodes, jobs and pools"),
    Setting("store", "text", "default store URL of the fleet"),
    Setting("ledger", "text", "postgresql:// URL of a ledger that several controllers share"),
    Setting("state_directory", "path", "directory of ledger and keys (0700)"),
    Setting("cache_directory", "path", "directory of feeds and unpacked tools"),
    Setting(
        "news_webhook_file", "path", "file (0600) with the https:// address that gets the controller's news"
    ),
    Setting("news_command", "path", "program that gets each of the controller's news as JSON on stdin"),
    Setting("metrics_file", "path", "file that `watch` keeps in Prometheus' text format"),
    Setting("production", "flag", "every confirmation one tier up", False),
    Setting("read_only", "flag", "refuse everything that changes something", False),
    Setting("color", "choice", "colour on a terminal", "auto", choices=COLOURS),
    Setting("output", "choice", "output format", "table", choices=OUTPUTS),
    Setting("quiet", "flag", "no narration on stderr", False),
    Setting("no_input", "flag", "never ask: what would ask exits 9", False),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}
CONTEXT_KEYS = tuple(setting.name for setting in SETTINGS if setting.in_context)


class Settings(NamedTuple):
    """Every setting with the value in force (None: not set anywhere) and where it comes from."""

    values: dict[str, Value | None]
    origins: dict[
        str, str
    ]  # `--color`, `REPRIEVE_COLOR`, `context prod in FILE:LINE`, `FILE:LINE`, `default`
    contexts: tuple[str, ...] = BUILT_IN  # every context there is
    files: Mapping[str, bool] = MappingProxyType({})  # files looked at, and whether they exist

    def text(self, name: str) -> str | None:
        """A setting as text, None when not set."""
        value = self.values[name]
        return None if value is None else str(value)

    def flag(self, name: str) -> bool:
        """A setting that is on or off."""
        return self.values[name] is True
