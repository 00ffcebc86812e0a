"""A view as a file: what the table shows, row by row, as CSV or JSON, with values rather than drawn cells."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from console.tui.model.cells import Column, Value
from console.tui.model.rows import Rows

R = TypeVar("R")
FORMATS = ("csv", "json")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def text(rows: Rows[R], screen: str, now: float, form: str) -> str:
    """The rows shown, in their order, with every column's value; unknown is empty (CSV) or null (JSON)."""
    records = [record for key in rows.order if rows.alive(key) and (record := rows.get(key)) is not None]
    table = [[column.value(record, now) for column in rows.columns] for record in records]
    return _json(rows.columns, table, screen) if form == "json" else _csv(rows.columns, table)


def _csv(columns: Sequence[Column[Any]], table: list[list[Value]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.id for column in columns])
    writer.writerows([[_harmless(value) for value in row] for row in table])
    return out.getvalue()


def _harmless(value: Value) -> Value:
    """A text that a spreadsheet would take for a formula gets a quote in front."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return "" if value is None else value


def _json(columns: Sequence[Column[Any]], table: list[list[Value]], screen: str) -> str:
    items = [dict(zip((column.id for column in columns), row, strict=True)) for row in table]
    document = {"schema": "reprieve/view/v1", "screen": screen, "items": items}
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def file_name(screen: str, moment: str, form: str) -> str:
    """`reprieve-jobs-20261201T140000Z.csv`; `moment` is an RFC 3339 time."""
    digits = moment.partition(".")[0].replace("-", "").replace(":", "").rstrip("Z")
    return f"reprieve-{screen}-{digits}Z.{form}"
