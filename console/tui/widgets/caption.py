"""What the row under the cursor says in full, below a table that has no room for it."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class Caption(Static):
    """A line or two of plain text; hidden while there is nothing to say. Where it is shown is in the style sheet."""

    DEFAULT_CSS = """
    Caption { height: auto; max-height: 4; padding: 0 2; color: $tone-muted; display: none; }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False, id="caption")
        self._words = ""

    def say(self, words: str) -> None:
        """Show these words; none hide the line. The same again costs nothing: new ones lay out the whole screen."""
        if words == self._words:
            return
        self._words = words
        self.set_class(bool(words), "-shown")
        self.update(Content(words))
