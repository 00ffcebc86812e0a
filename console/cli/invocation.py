"""What a handler is given: its arguments, the context, and the ways to speak, print and ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from backends.errors import ConfirmationError, UsageError
from console.cli.exits import DryRunEnd
from console.cli.render import MACHINE

if TYPE_CHECKING:
    from backends.clock import Clock
    from console.cli.cells import Column
    from console.cli.narrate import Narrator
    from console.cli.render import Document, Renderer
    from console.config.model import Settings
    from console.operations.context import Context

__all__ = ["Column", "Invocation"]


def __getattr__(name: str) -> Any:
    """`Column`, for handlers of listings; other commands never load the table cells."""
    if name != "Column":
        raise AttributeError(f"module 'console.cli.invocation' has no attribute {name!r}")
    from console.cli import cells

    return cells.Column


class Given(NamedTuple):
    """What an Invocation is made of."""

    words: str  # `jobs save`
    arguments: dict[str, Any]
    clock: Clock
    renderer: Renderer
    narrator: Narrator
    settings: Settings
    open_context: Callable[[], Context]  # called once, at the first use of `context`
    stdin: TextIO
    yes: bool = False
    confirmation: str | None = None  # what --confirm named
    no_input: bool = False  # also set without a terminal and under a machine format
    dry_run: bool = False
    verbose: int = 0
    read_only: bool = False
    production: bool = False
    labels: Mapping[str, str] = MappingProxyType({})  # -l key=value
    watch: bool = False  # the command is repeated


class Invocation(Given):
    """One command as typed, parsed and placed.

    `arguments` holds every argument of the command by name with `-` as `_`: seconds for durations and
    `seconds`, hours, bytes, bytes per second, fractions as numbers; a list for `many`, a bool for flags,
    None when absent. A literal word that an option allows (`--interval auto`) stays text.
    """

    _context: Context | None = None

    @property
    def context(self) -> Context:
        """Where the command works; raises UsageError when the context is not there."""
        if self._context is None:
            self._context = self.open_context()
        return self._context

    @property
    def output(self) -> str:
        """The output format: table, wide, json, ndjson, csv, yaml or name."""
        return self.renderer.output

    @property
    def machine(self) -> bool:
        """Whether the output is read by a program: no prompt, no colour, nothing but data on stdout."""
        return self.output in MACHINE

    def emit(self, document: Document, table: Callable[[Document], str] | None = None) -> None:
        """Print one result on stdout; `table` makes the text for people (default: aligned keys and values)."""
        self.narrator.settle()
        self.renderer.document(document, table)

    def emit_listing(self, noun: str, items: Sequence[Document], columns: Sequence[str | Column]) -> None:
        """Print a listing on stdout: `items` are documents, `columns` their keys as the table shows them.

        `noun` is singular (`job`): the schema is `reprieve/<noun>-list/v1`. `-l key=value` keeps only items
        whose `labels` hold it.
        """
        kept = [item for item in items if self._labelled(item)]
        self.narrator.settle()
        self.renderer.listing(noun, kept, columns)

    def emit_line(self, document: Document, text: str) -> None:
        """Print one line of a stream as it comes: JSON under ndjson, `text` under table.

        Other formats print nothing here: they get one document at the end, by `emit`.
        """
        self.narrator.settle()
        self.renderer.line(document, text)

    def say(self, text: str) -> None:
        """Narrate on stderr; nothing under -q."""
        self.narrator.say(text)

    def warn(self, text: str) -> None:
        """Warn on stderr, also under -q."""
        self.narrator.warn(text)

    def progress(self, text: str) -> None:
        """Tell on stderr what is under way."""
        self.narrator.progress(text)

    def confirm(self, tier: int, question_lines: Sequence[str], name: str) -> None:
        """Return when the user agrees to a change of this tier; raise otherwise.

        Tiers 1 and 2 take `y` or --yes; tier 3 takes `name` (a record's name, or a count for many) typed in
        full, or --yes --confirm NAME. Production contexts lift every tier by one.

        Raises:
            UsageError: the context is read-only.
            DryRunEnd: under --dry-run, after the lines were shown; nothing may be done after it.
            ConfirmationError: refused, or it cannot be asked here.
        """
        lines = tuple(question_lines)
        if self.dry_run:
            self.narrator.ask((*lines, "dry run: nothing was changed"), "")
            raise DryRunEnd
        self.refuse_if_read_only()
        lifted = min(3, tier + 1) if self.production and tier >= 1 else tier
        if lifted >= 3:
            self._confirm_by_name(lines, name)
        elif lifted >= 1 and not self.yes:
            if self.no_input:
                raise ConfirmationError(
                    f"{self.words}: a confirmation is needed and cannot be asked here: add --yes"
                )
            if self._answer(lines, "Go on? [y/N] ").lower() not in ("y", "yes"):
                raise ConfirmationError(f"{self.words}: not confirmed, nothing was changed")

    def refuse_if_read_only(self) -> None:
        """Raise UsageError in a read-only context."""
        if self.read_only:
            raise UsageError(
                f"{self.words} changes something, and this context is read-only "
                "(read_only, REPRIEVE_READ_ONLY or --read-only): reprieve config show --origin tells which"
            )

    def _confirm_by_name(self, lines: tuple[str, ...], name: str) -> None:
        if self.yes and self.confirmation is not None:
            if self.confirmation != name:
                raise ConfirmationError(
                    f"{self.words}: --confirm names {self.confirmation!r}, but this concerns {name!r}: nothing was changed"
                )
            return
        if self.yes or self.no_input:
            raise ConfirmationError(f"{self.words}: this cannot be undone: add --yes --confirm {name}")
        if self._answer(lines, f"This cannot be undone. Type {name} to go on: ") != name:
            raise ConfirmationError(f"{self.words}: not confirmed, nothing was changed")

    def _answer(self, lines: tuple[str, ...], prompt: str) -> str:
        self.narrator.ask(lines, prompt)
        return self.stdin.readline().strip()

    def _labelled(self, item: Document) -> bool:
        labels = item.get("labels") or {}
        return all(labels.get(key) == value for key, value in self.labels.items())
