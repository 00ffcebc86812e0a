"""The application's style sheet: what was parsed once is kept until a variable of the theme changes.

Textual parses every sheet again whenever a screen is first shown (three times before the first picture, ~25 ms each).
"""

from __future__ import annotations

from textual.cache import LRUCache
from textual.css.stylesheet import Stylesheet

KEPT = 512  # sheets whose rules are kept; Textual's own 64 are fewer than one screen of the console has


class KeptSheet(Stylesheet):
    """A style sheet that parses each source once per set of variables."""

    def __init__(self, variables: dict[str, str]) -> None:
        super().__init__(variables=variables)
        self._parse_cache = LRUCache(KEPT)

    def set_variables(self, variables: dict[str, str]) -> None:
        """Take a theme's variables; the same ones again change nothing."""
        if variables != self._variables:
            super().set_variables(variables)

    def reparse(self) -> None:
        """Make the rules anew from the sources: those known are not read again."""
        self.parse()
