"""Commands as data: one description behind keys, the `:` line, the palette, the command line and batch files."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal[
    "text", "flag", "int", "float", "fraction", "duration", "hours", "seconds", "size", "rate", "path", "choice",
    "job", "node", "checkpoint", "pool", "url",
]  # fmt: skip


class Argument(NamedTuple):
    """One option or operand of a command."""

    name: str  # `hours` is typed as --hours; an operand keeps its name in upper case in help
    help: str  # one sentence, with unit and default
    kind: Kind = "text"
    operand: bool = False  # positional
    required: bool = False
    many: bool = False  # may be given several times, or takes all remaining words
    choices: tuple[str, ...] = ()
    default: str | None = None  # as typed
    short: str | None = None  # one letter
    allowed: str = ""  # the allowed range, for the message about a value that is no quantity


class Example(NamedTuple):
    """A line a user can type, and what it does."""

    line: str
    does: str


class Command(NamedTuple):
    """A named command.

    `tier`: 0 reads; 1 adds (save, change an interval); 2 disturbs (move, restore, drain, stop with a save);
    3 destroys (delete checkpoints, stop without a save).
    """

    noun: str  # `jobs`; equal to `verb` for one-word commands (`plan`)
    verb: str  # `save`; empty for one-word commands
    summary: str  # one line for the command list
    handler: str  # dotted path `module:function`; called with an Invocation, returns an exit code
    tier: Literal[0, 1, 2, 3] = 0
    arguments: tuple[Argument, ...] = ()
    examples: tuple[Example, ...] = ()
    details: str = ""  # paragraphs for --help
    listing: bool = False  # takes -o, -l, --watch
    formats: tuple[str, ...] = ("table", "wide", "json", "ndjson", "csv", "yaml", "name")

    @property
    def words(self) -> str:
        """As typed: `jobs save`, `plan`."""
        return f"{self.noun} {self.verb}".strip()
