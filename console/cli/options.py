"""The options that every command takes, as data like those of the registry."""

from __future__ import annotations

from console.registry.model import Argument, Command

COMMON: tuple[Argument, ...] = (
    Argument(
        "output",
        "output format",
        kind="choice",
        choices=("table", "wide", "json", "ndjson", "csv", "yaml", "name"),
        short="o",
    ),
    Argument("context", "named settings to use; practice is built in"),
    Argument("config", "configuration file instead of the user's", kind="path"),
    Argument("color", "colour on a terminal", kind="choice", choices=("auto", "always", "never")),
    Argument("quiet", "no narration on stderr", kind="flag", short="q"),
    Argument("verbose", "more narration; -vv shows the traceback of a fault", kind="flag", short="v"),
    Argument("no-input", "never ask: what would ask exits 9", kind="flag"),
    Argument("read-only", "refuse everything that changes something", kind="flag"),
)
CHANGING: tuple[Argument, ...] = (
    Argument("dry-run", "show what would be done and change nothing", kind="flag"),
    Argument("yes", "agree without being asked", kind="flag", short="y"),
    Argument("confirm", "with --yes, what cannot be undone: the name, or a count"),
)
LISTING: tuple[Argument, ...] = (
    Argument("label", "only items with this label, KEY=VALUE; may be repeated", many=True, short="l"),
    Argument("watch", "repeat every 2 seconds until interrupted", kind="flag"),
)
# Consent is given where the command is typed, never left standing in an environment.
NOT_IN_ENVIRONMENT = ("yes", "confirm", "force", "i-know-it-is-dead")

# Read by `console.config`, which knows their origin: the parser leaves their variables alone.
SETTLED = ("config", "context", "color", "output", "quiet", "no-input", "read-only")


def options_of(command: Command) -> tuple[Argument, ...]:
    """Every option of a command: its own, those of listings, and the common ones."""
    own = tuple(argument for argument in command.arguments if not argument.operand)
    return own + (LISTING if command.listing else ()) + CHANGING + COMMON


def variable(argument: Argument) -> str | None:
    """The environment variable that stands for an option, None where there is none."""
    if argument.operand or argument.name in NOT_IN_ENVIRONMENT:
        return None
    return "REPRIEVE_" + argument.name.replace("-", "_").upper()


def takes_value(argument: Argument) -> bool:
    """Whether a word follows the option."""
    return argument.kind != "flag"
