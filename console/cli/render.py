"""Owns standard output: documents and listings in the format that was asked for. Nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from console.cli.cells import Column

Document = dict[str, Any]
MACHINE = ("json", "ndjson", "csv", "yaml", "name")
TABLES = ("table", "wide")
_PLAIN = str.maketrans({"–": "-", "−": "-", "·": "-", "→": ">", "…": "~"})  # for terminals that are not UTF-8

_GOOD = ("ok", "protected", "done", "restored", "verified", "finished")
_WARNING = (
    "unrehearsed",
    "overdue",
    "late",
    "noticed",
    "trial",
    "paused",
    "waiting_proof",
    "waiting_capacity",
    "cordoned",
)
_BAD = ("lost", "unreachable", "zombie", "failed", "ended_unknown", "not_ready", "isolated", "refused")
_CODES = dict.fromkeys(_GOOD, "34") | dict.fromkeys(_WARNING, "33") | dict.fromkeys(_BAD, "1;31")


class Renderer:
    """Writes data to standard output in one format.

    Raises ValueError for a document that holds NaN or an infinity: unknown is None here, never a number.
    """

    def __init__(self, stream: TextIO, output: str = "table", *, colour: bool = False) -> None:
        self.stream = stream
        self.output = output
        self._colour = colour and output in TABLES

    @property
    def colour(self) -> bool:
        """Whether text for people may hold colour."""
        return self._colour

    def document(self, document: Document, table: Callable[[Document], str] | None = None) -> None:
        """One result. `table` makes the text for people; without it keys and values are shown in two columns."""
        if self.output in TABLES:
            self.text(table(document) if table is not None else pairs(document))
        elif self.output == "json":
            self._write(self._json(document, indent=2))
        elif self.output == "ndjson":
            self._write(self._json(document))
        elif self.output == "yaml":
            from console.cli.plaindata import to_yaml

            self.text(to_yaml(document))
        elif self.output == "csv":
            self._csv(_rows(document))
        else:
            self._names(_rows(document))

    def listing(self, noun: str, items: Sequence[Document], columns: Sequence[str | Column]) -> None:
        """A listing as `{"schema": "reprieve/<noun>-list/v1", "items": […]}`, or a line an item (ndjson)."""
        if self.output in TABLES:
            self._table(items, columns)
        elif self.output == "ndjson":
            for item in items:
                self._write(self._json({"schema": f"reprieve/{noun}/v1", **item}))
        elif self.output == "csv":
            self._csv(list(items))
        elif self.output == "name":
            self._names(items)
        else:
            self.document({"schema": f"reprieve/{noun}-list/v1", "items": list(items)})

    def line(self, document: Document, text: str) -> None:
        """One line of a stream as it comes: JSON under ndjson, `text` under table; other formats wait for the end."""
        if self.output == "ndjson":
            self._write(self._json(document))
        elif self.output in TABLES:
            self.text(text)

    def text(self, text: str) -> None:
        """Finished text, with one line end."""
        self._write(text.rstrip("\n"))

    def _table(self, items: Sequence[Document], columns: Sequence[str | Column]) -> None:
        from console.cli.cells import Column, cell, grid, look_up  # no table, no cells

        every = [Column(item) if isinstance(item, str) else item for item in columns]
        shown = [column for column in every if self.output == "wide" or not column.wide]
        values = [[look_up(item, column.key) for column in shown] for item in items]
        rows = [
            [_marked(item, column, cell(column.key, value)) for column, value in zip(shown, row, strict=True)]
            for item, row in zip(items, values, strict=True)
        ]
        right = [
            any(isinstance(row[index], (int, float)) and not isinstance(row[index], bool) for row in values)
            for index in range(len(shown))
        ]
        lines = grid(
            [column.title for column in shown], rows, right=right, paint=_paint if self._colour else str
        )
        if self._colour:
            lines[0] = f"\x1b[1m{lines[0]}\x1b[0m"
        self._write("\n".join(lines))

    def _csv(self, rows: list[Document]) -> None:
        from console.cli.plaindata import to_csv

        text = to_csv(rows)
        if text:
            self.text(text)

    def _names(self, items: Sequence[Document]) -> None:
        from console.cli.cells import cell

        for item in items:
            name = item.get("name") or item.get("id") or next(iter(item.values()), None)
            self._write(cell("", name))

    def _json(self, value: object, indent: int | None = None) -> str:
        import json  # not for tables

        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        try:
            text.encode(self.stream.encoding or "utf-8")
        except UnicodeEncodeError:
            text = json.dumps(value, ensure_ascii=True, allow_nan=False, indent=indent)
        return text

    def _write(self, text: str) -> None:
        encoding = self.stream.encoding or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            text = text.translate(_PLAIN)  # as wide as before, so that columns stay in line
        self.stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        self.stream.flush()


def _marked(item: Document, column: Column, text: str) -> str:
    """`~` before the last known value of a silent source; unknown stays `–`."""
    return f"~{text}" if column.doubt and item.get(column.doubt) and text != "–" else text


def _paint(text: str) -> str:
    """Colour a state word; the word itself says the state without colour too."""
    code = _CODES.get(text)
    return text if code is None else f"\x1b[{code}m{text}\x1b[0m"


def _rows(document: Document) -> list[Document]:
    items = document.get("items")
    if isinstance(items, list):
        return [item for item in items if isinstance(item, dict)]
    return [document]


def pairs(document: Document, indent: str = "") -> str:
    """A document as aligned `key  value` lines; nested objects and lists of objects are indented."""
    from console.cli.cells import cell

    lines: list[str] = []
    keys = [key for key in document if key != "schema"]
    space = max((len(key) for key in keys), default=0)
    for key in keys:
        value = document[key]
        if isinstance(value, dict) and value:
            lines += [f"{indent}{key}", pairs(value, indent + "  ")]
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            lines += [f"{indent}{key}", *(pairs(item, indent + "  ") + "\n" for item in value)]
        else:
            lines.append(f"{indent}{key.ljust(space)}  {cell(key, value)}")
    return "\n".join(lines)
