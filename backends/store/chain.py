"""When saves that refer to a full one have drifted so far from it that a new full one pays: pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MAX_SAVES = 64  # a full save at least this often, so that no page's only copy grows old


@dataclass(frozen=True)
class Chain:
    """The saves that refer to one full save, in pages.

    Each save stores what changed since the full one. How much of that is drift, and not what the job changes from one
    save to the next anyway, is told by how much more it is than in the first: `excess` sums it up. Once the drift has
    cost as much as the pages a full save would add, one is due; by then at most twice the least possible was stored.
    """

    saves: int = 0
    first: int = 0  # pages that the first of them stored
    excess: int = 0  # pages stored in all of them beyond what the first stored

    def then(self, stored: int) -> Chain:
        """After one more save that stored so many pages."""
        first = stored if not self.saves else min(self.first, stored)
        return Chain(self.saves + 1, first, self.excess + stored - first)

    def due(self, stored: int, pages: int) -> bool:
        """Whether a full save is due after the last one stored `stored` of `pages`."""
        return self.saves >= MAX_SAVES or (self.excess > 0 and self.excess >= pages - stored)

    def notes(self, stored: int, pages: int) -> dict[str, Any]:
        """What the manifest of the last save, which stored `stored` of `pages`, notes."""
        return {"chain": asdict(self), "full_due": self.due(stored, pages)}


def read_chain(notes: dict[str, Any]) -> Chain:
    """The chain that a manifest notes; a fresh one where it says nothing that can be used."""
    found = notes.get("chain")
    if not isinstance(found, dict):
        return Chain()
    figures = [found.get(name) for name in ("saves", "first", "excess")]
    if not all(type(figure) is int and figure >= 0 for figure in figures):
        return Chain()
    return Chain(*[int(figure) for figure in figures if figure is not None])
