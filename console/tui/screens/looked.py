"""A board whose rows are not in the snapshot: they are asked for while the screen is shown, and say how old they are."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from textual.binding import Binding, BindingType

from console.operations.view import FleetView
from console.tui.asked.looked import told
from console.tui.looks import Looked
from console.tui.screens.board import Board

R = TypeVar("R")


class LookedBoard(Board[R]):
    """Rows of type R from one look."""

    LOOK = ""
    EVERY_S = 30.0  # how often it is asked again while shown
    WIDE_EVENTS = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "ask_again", "ask again", show=False, id="view.ask"),
    ]

    def arguments(self) -> dict[str, Any]:
        """The look's arguments."""
        return {}

    def row(self, document: dict[str, Any]) -> tuple[str, R]:
        """A key and a row from one document of the answer."""
        raise NotImplementedError

    @property
    def question(self) -> Looked:
        """What is known now."""
        return self.desk.looks.known(self.LOOK, **self.arguments())

    def show(self) -> None:
        """Take the answer, ask when it is old."""
        if self.is_mounted and self.app.screen is self:
            self.desk.looks.want(self.LOOK, self.EVERY_S, **self.arguments())
        super().show()

    def load(self, view: FleetView) -> None:
        """The answer's rows, if it is another than the last."""
        del view
        document = self.question.document
        if document is not self._document:
            self._document = document
            self.table.load(self.row(item) for item in self.question.items())

    _document: dict[str, Any] | None = None

    def tick(self) -> None:
        """Ages go on, and the answer's own age is told at the table's edge."""
        super().tick()
        if not self.is_mounted:
            return
        word = told(self.question, self.desk.clock.monotonic(), self.EVERY_S)
        self.table.note(word.text)
        if self.app.screen is self:
            self.desk.looks.want(self.LOOK, self.EVERY_S, **self.arguments())

    def action_ask_again(self) -> None:
        """Ask now."""
        self.desk.looks.want(self.LOOK, 0.0, **self.arguments())
        self.desk.feed.refresh()
        self.tick()
