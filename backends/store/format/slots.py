"""The table of frames of an index while it is written: this save's own frames, and those of the parent it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backends.store.format.index import Frame, Index, PackRef


class Slots:
    """Places in the table, given out in the order of first use."""

    def __init__(self, upcoming: Callable[[], int]) -> None:
        """`upcoming` tells the number of the next frame that will be sealed."""
        self._upcoming = upcoming
        self._numbers: list[int] = []  # this save's frame n as n, the parent's frame f as -1 - f
        self._parents: dict[int, int] = {}

    @property
    def refers(self) -> bool:
        """Whether any frame of the parent is used."""
        return bool(self._parents)

    def own(self) -> int:
        """A place for a frame of this save that is being filled."""
        self._numbers.append(0)
        return len(self._numbers) - 1

    def fill(self, slot: int) -> None:
        """The frame of this place is the next one to be sealed."""
        self._numbers[slot] = self._upcoming()

    def parent(self, frame: int) -> int:
        """The place of a frame of the parent's table."""
        slot = self._parents.get(frame)
        if slot is None:
            slot = self._parents[frame] = len(self._numbers)
            self._numbers.append(-1 - frame)
        return slot

    def tables(
        self, packs: Sequence[PackRef], frames: Sequence[Frame], parent: Index | None
    ) -> tuple[tuple[PackRef, ...], tuple[Frame, ...]]:
        """The index's packs and frames: own ones as given, then what is used of the parent's."""
        all_packs = list(packs)
        moved: dict[int, int] = {}
        table = []
        for number in self._numbers:
            if number >= 0 or parent is None:
                table.append(frames[number])
                continue
            frame = parent.frames[-1 - number]
            if frame.pack not in moved:
                moved[frame.pack] = len(all_packs)
                all_packs.append(parent.packs[frame.pack])
            table.append(frame._replace(pack=moved[frame.pack]))
        return tuple(all_packs), tuple(table)
