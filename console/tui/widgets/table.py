"""The node, job and event table: one line a row, only visible rows are formatted, the cursor is a key.

A Line-API widget (docs: architecture decision 7): at 10,000 rows it paints 30 times sooner than a DataTable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.tui.model.cells import Column
from console.tui.model.filters import Filter
from console.tui.model.rows import Rows
from console.tui.widgets.painter import Painter
from console.tui.widgets.tones import crop, fill, tone

R = TypeVar("R")
PREPARE_S = 0.005
REPAINT_S = 0.1  # snapshots are taken in at most ten times a second


class RowTable(ScrollView, Generic[R], can_focus=True):
    """A table of records of type R drawn from a `Rows` model."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"row--cursor", "row--head", "row--dim", "row--mark"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "step(1)", "down", show=False, id="nav.down"),
        Binding("up,k", "step(-1)", "up", show=False, id="nav.up"),
        Binding("pagedown", "page(1)", "page down", show=False, id="nav.page-down"),
        Binding("pageup", "page(-1)", "page up", show=False, id="nav.page-up"),
        Binding("g,home", "top", "first row", show=False, id="nav.top"),
        Binding("G,end", "bottom", "last row", show=False, id="nav.bottom"),
        Binding("enter", "open", "open", key_display="↵", id="row.open"),
        Binding("space", "mark", "mark", show=False, id="row.mark"),
        Binding("asterisk", "mark_shown", "mark all shown", show=False, id="row.mark-all"),
        Binding("backslash", "clear_marks", "clear marks", show=False, id="row.clear"),
    ]
    DEFAULT_CSS = """
    RowTable {
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        border: round $line;
        border-title-color: $tone-strong;
        border-title-style: bold;
        border-subtitle-color: $tone-muted;
        &:focus { border: round $line-focus; }
        & > .row--cursor { background: $cursor-back; text-style: bold; }
        &:blur > .row--cursor { background: $cursor-back-blurred; text-style: none; }
        & > .row--head { color: $tone-muted; text-style: bold; }
        & > .row--dim { text-style: dim; }
        & > .row--mark { color: $tone-accent; text-style: bold; }
    }
    """

    class Moved(Message):
        """The cursor is on another key, or its row changed."""

    class Opened(Message):
        """Enter or a double click on the row under the cursor."""

    def __init__(
        self,
        title: Callable[[str], Text],
        columns: Sequence[Column[R]],
        sort: str,
        now: Callable[[], float],
        *,
        descending: bool = False,
        empty: str = "nothing here",
        dim: Callable[[R], bool] = lambda _record: False,
        id: str | None = None,  # noqa: A002 - Textual's own name
    ) -> None:
        super().__init__(id=id)
        self.rows: Rows[R] = Rows(columns, sort, descending=descending)
        self._note: str | None = None
        self._base: Style | None = None
        self._second: int | None = None  # that was drawn last
        self.follow = False  # keep the cursor on the first row as new ones arrive
        self._title = title
        self._empty = empty
        self._now = now
        self._painter = Painter(self, self.rows, dim)
        self._pending: tuple[list[tuple[str, R]], Sequence[Column[R]]] | None = None

    def on_mount(self) -> None:
        """Draw the title."""
        self.retitle()

    # -- what it shows

    def load(self, records: Iterable[tuple[str, R]], columns: Sequence[Column[R]] | None = None) -> None:
        """Take a snapshot; drawn at most ten times a second, the newest wins."""
        waiting = self._pending is not None
        self._pending = (list(records), columns or self.rows.columns)
        if not waiting:
            if not self.rows.order:
                self._take()
            else:
                self.set_timer(REPAINT_S, self._take)

    def _take(self) -> None:
        if self._pending is None:
            return
        records, columns = self._pending
        if not self.rows.foresee(records, self._now()):
            self.set_timer(PREPARE_S, self._take)
            return
        self._pending = None
        before = self.rows.index(self.rows.cursor)
        same, record = self.rows.columns is columns, self.record
        self.rows.columns = tuple(columns)
        calm = self.rows.load(records, self._now())
        if calm and same:
            self._refresh_changed()
            if self.record is not record:
                self.post_message(self.Moved())
            return
        if self.follow and self.rows.order:
            self.rows.move_to(0, self._now())
        after = self.rows.index(self.rows.cursor)
        if before is not None and after is not None and not self.follow:
            self.scroll_y = max(0.0, self.scroll_y + after - before) if self.scroll_y else 0.0
        self._changed()

    def _refresh_changed(self) -> None:
        """The same rows in the same order: draw only those in sight whose record is another."""
        top = int(self.scroll_y)
        for place in range(top, min(top + self.size.height - 1, len(self.rows))):
            if self._painter.changed(place):
                self.refresh_line(place + 1)

    def prepare(self) -> None:
        """A filter is about to be typed: make the search texts, a few at a time."""
        if self.is_attached and not self.rows.prepare(self._now()):
            self.set_timer(PREPARE_S, self.prepare)

    def set_filter(self, wanted: Filter) -> None:
        """Show only rows that match."""
        self.rows.set_filter(wanted, self._now())
        self._changed()

    def sort_by(self, column: str) -> None:
        """Sort by a column id; the same again turns the order round."""
        self.rows.set_sort(column, self._now())
        self._changed()

    def tick(self) -> None:
        """Time went on: once a second, countdowns and work at risk are drawn again."""
        second = int(self._now())
        if second != self._second:
            self._second = second
            self.refresh()

    def note(self, words: str) -> None:
        """Words at the right of the lower edge, such as how old the rows are."""
        if words != self._note:
            self._note = words
            self.retitle()

    @property
    def record(self) -> R | None:
        """The record under the cursor, the ghost's too."""
        return None if self.rows.cursor is None else self.rows.get(self.rows.cursor)

    def _changed(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.rows) + 1)
        self._show_cursor()
        self.retitle()
        self.refresh()
        self.post_message(self.Moved())

    def retitle(self) -> None:
        """Draw title and lower edge again."""
        rows = self.rows
        shown = len(rows) - (1 if rows.ghost is not None else 0)
        number = str(rows.total) if shown == rows.total else f"{shown}/{rows.total}"
        self.border_title = self._title(number)
        parts = []
        if rows.filter.source:
            parts.append(f"/{crop(rows.filter.source, min(len(rows.filter.source), 40))}")
        if rows.marks:
            hidden = rows.targets()[1]
            parts.append(f"{len(rows.marks)} marked" + (f" ({hidden} hidden)" if hidden else ""))
        if self.follow:
            parts.append("following")
        if self._note is not None:
            parts.append(self._note)
        self.border_subtitle = Content(" · ".join(parts)) if parts else None

    # -- moving

    def _moved(self) -> None:
        self._show_cursor()
        self.retitle()
        self.refresh()
        self.post_message(self.Moved())

    def _stepped(self, before: int | None) -> None:
        """Only the cursor moved: draw two lines, unless the table scrolled."""
        top = self.scroll_y
        self._show_cursor()
        after = self.rows.index(self.rows.cursor)
        if self.scroll_y != top or before is None or after is None:
            self.refresh()
        else:
            self.refresh_line(before + 1)
            self.refresh_line(after + 1)
        self.post_message(self.Moved())

    def _show_cursor(self) -> None:
        place = self.rows.index(self.rows.cursor)
        height = max(1, self.size.height - 1)
        if place is None:
            return
        top = int(self.scroll_y)
        if place < top:
            top = place
        elif place >= top + height:
            top = place - height + 1
        limit = max(0, len(self.rows) - height)
        self.scroll_to(y=min(top, limit), animate=False, immediate=True)

    def action_step(self, step: int) -> None:
        """Move the cursor by rows."""
        before = self.rows.index(self.rows.cursor)
        if self.follow or self.rows.ghost is not None:
            self.follow = False
            self.rows.move(step, self._now())
            self._moved()
        else:
            self.rows.move(step, self._now())
            self._stepped(before)

    def action_page(self, direction: int) -> None:
        """Move the cursor by a screenful."""
        self.action_step(direction * max(1, self.size.height - 2))

    def action_top(self) -> None:
        """First row."""
        self.rows.move_to(0, self._now())
        self._moved()

    def action_bottom(self) -> None:
        """Last row."""
        self.follow = False
        self.rows.move_to(len(self.rows) - 1, self._now())
        self._moved()

    def action_open(self) -> None:
        """Open the row under the cursor."""
        if self.record is not None:
            self.post_message(self.Opened())

    def action_mark(self) -> None:
        """Mark or unmark, then go to the next row."""
        self.rows.toggle_mark()
        self.rows.move(1, self._now())
        self._moved()

    def action_mark_shown(self) -> None:
        """Mark all rows shown, or unmark them."""
        self.rows.mark_shown()
        self._moved()

    def action_clear_marks(self) -> None:
        """Forget all marks."""
        self.rows.clear_marks()
        self._moved()

    def on_click(self, event: events.Click) -> None:
        """Click: the cursor goes there; twice: open; on a title: sort."""
        line = event.get_content_offset(self)
        if line is None:
            return
        if line.y == 0:
            column = self._painter.column_at(line.x)
            if column is not None:
                self.sort_by(column)
            return
        place = line.y - 1 + int(self.scroll_y)
        if place < len(self.rows):
            self.follow = False
            self.rows.move_to(place, self._now())
            self._moved()
            if event.chain == 2:
                self.action_open()

    # -- drawing

    def on_resize(self) -> None:
        """Fit the columns to the new width."""
        self.retitle()
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.rows) + 1)
        self._show_cursor()
        self.refresh()

    def notify_style_update(self) -> None:
        """Focus or theme changed: the base style is made again."""
        self._base = None
        self._painter.forget()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        """One line of the table; y counts from the top of the widget."""
        width = self.scrollable_content_region.width
        if self._base is None:
            self._base = self.rich_style
        base = self._base
        self._painter.fit(width)
        if y == 0:
            return self._painter.head(width, base)
        place = y - 1 + int(self.scroll_y)
        if place < len(self.rows.order):
            return self._painter.row(place, width, base, self._now())
        if not self.rows.order and y == max(1, min(3, self.size.height - 1)):
            words = f"no row matches /{self.rows.filter.source}" if self.rows.total else self._empty
            note = Segment("  " + words, base + tone(self, "muted"))
            return Strip(fill([note], width, base), width)
        return Strip.blank(width, base)
