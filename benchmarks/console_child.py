"""The applications that `benchmarks.console` measures in a pseudo-terminal: `python -m benchmarks.console_child KIND ROWS FD`.

Each shows ROWS rows of 14 columns, changes 5 % of all cells every second, and draws a mark for each key: `#n#` for
the row the cursor is on, `=n=` for the rows that a filter leaves.
"""

from __future__ import annotations

import functools
import importlib
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

COLUMNS = 14
SHARE = 0.05  # of all cells, each second
FILTER = "777"
FLEET = "REPRIEVE_BENCH_FLEET"  # folder of a fleet of SSH nodes, for the console; else it is made up
BATCH_S = (
    0.25  # between the batches that our table is given, as the poller does; the peers change once a second
)


def stamp() -> None:
    """Tell the parent that imports are done."""
    os.write(int(sys.argv[3]), f"{time.monotonic()}\n".encode())


def name_of(row: int) -> str:
    """The first cell of a row."""
    return f"node-{row:05d}"


def cells(rows: int, seed: int = 1) -> list[list[str]]:
    """The other cells, as text."""
    dice = random.Random(seed)
    return [[name_of(row), *(str(dice.randrange(10_000)) for _ in range(COLUMNS - 1))] for row in range(rows)]


def changes(rows: int, seconds: float = 1.0) -> list[tuple[int, int, str]]:
    """Which cells change in that time."""
    dice, count = random.random, int(rows * COLUMNS * SHARE * seconds)
    return [
        (int(dice() * rows), 1 + int(dice() * (COLUMNS - 1)), str(int(dice() * 10_000))) for _ in range(count)
    ]


def lines(rows: int) -> Any:
    """Our table in a plain application."""
    from rich.text import Text
    from textual.app import App
    from textual.widgets import Static

    from console.tui import themes
    from console.tui.model import filters
    from console.tui.model.cells import Cell, Column
    from console.tui.widgets.table import RowTable

    def value_of(place: int, record: list[str], _now: float) -> str:
        return record[place]

    def cell_of(place: int, record: list[str], _now: float) -> Cell:
        return Cell(record[place])

    class Lines(App[None]):
        CSS = "#mark { dock: bottom; }"
        BINDINGS = [("f", "narrow", "filter")]  # noqa: RUF012 - Textual declares it so

        def get_theme_variable_defaults(self) -> dict[str, str]:
            return themes.defaults()

        def compose(self) -> Any:
            columns: list[Column[list[str]]] = [
                Column(
                    f"c{n}",
                    f"C{n}",
                    functools.partial(cell_of, n),
                    functools.partial(value_of, n),
                    10,
                    priority=n,
                )
                for n in range(COLUMNS)
            ]
            self.data = cells(rows)
            self.table: RowTable[list[str]] = RowTable(Text, columns, "c0", lambda: 0.0)
            yield self.table
            yield Static("", id="mark")

        def on_mount(self) -> None:
            self.table.load((row[0], row) for row in self.data)
            self.table.focus()
            self.set_interval(BATCH_S, self.change)

        def change(self) -> None:
            fresh: dict[int, list[str]] = {}
            for row, column, text in changes(rows, BATCH_S):
                fresh.setdefault(row, list(self.data[row]))[column] = text
            for row, record in fresh.items():
                self.data[row] = record
            self.table.load((row[0], row) for row in self.data)

        def on_row_table_moved(self) -> None:
            self.query_one("#mark", Static).update(
                f"#{self.table.rows.index(self.table.rows.cursor)}# ={len(self.table.rows)}="
            )

        def action_narrow(self) -> None:
            self.table.set_filter(filters.parse(FILTER, ()))

    return Lines()


def stock(rows: int, fast: bool = False) -> Any:
    """Textual's DataTable, or textual-fastdatatable, in the same application."""
    from textual.app import App
    from textual.coordinate import Coordinate
    from textual.widgets import DataTable, Static

    class Stock(App[None]):
        CSS = "#mark { dock: bottom; } DataTable { height: 1fr; }"
        BINDINGS = [("f", "narrow", "filter")]  # noqa: RUF012 - Textual declares it so

        def compose(self) -> Any:
            self.data = cells(rows)
            if fast:
                module = importlib.import_module("textual_fastdatatable")
                backend = module.ArrowBackend.from_pydict(
                    {f"C{n}": [row[n] for row in self.data] for n in range(COLUMNS)}
                )
                self.table: Any = module.DataTable(backend=backend, cursor_type="row")
            else:
                self.table = DataTable(cursor_type="row")
            yield self.table
            yield Static("", id="mark")

        def on_mount(self) -> None:
            if not fast:
                self.table.add_columns(*(f"C{n}" for n in range(COLUMNS)))
                self.table.add_rows(self.data)
            self.table.focus()
            self.set_interval(1.0, self.change)

        def change(self) -> None:
            # Each update of the Arrow table makes a column anew: 40 of them are all it can take.
            for row, column, text in changes(rows)[: 40 if fast else None]:
                if row < self.table.row_count:
                    place = Coordinate(row, column)
                    self.table.update_cell(row, column, text) if fast else self.table.update_cell_at(
                        place, text
                    )

        def on_data_table_row_highlighted(self, event: Any) -> None:
            self.query_one("#mark", Static).update(f"#{event.cursor_row}# ={self.table.row_count}=")

        def action_narrow(self) -> None:
            found = [row for row in self.data if any(FILTER in cell for cell in row)]
            self.table.clear()
            self.table.add_rows(found)
            self.query_one("#mark", Static).update(f"={len(found)}=")

    return Stock()


def bare() -> Any:
    """The least Textual application."""
    from textual.app import App
    from textual.widgets import Static

    class Bare(App[None]):
        def compose(self) -> Any:
            yield Static("node-00000")

    return Bare()


def console(rows: int) -> Any:
    """The whole console on its poller's process; its marks are the detail's title and the table's count."""
    from backends.clock import SystemClock
    from benchmarks.console_poller import Idle
    from benchmarks.ssh_nodes import context_of
    from console.poller.process import POLLER
    from console.tui import pace
    from console.tui.polled import PolledSource

    pace.before_textual()
    clock = SystemClock()
    folder = os.environ.get(FLEET)
    argv = POLLER if folder else (sys.executable, "-m", "benchmarks.console_fleet")
    document = context_of(Path(folder)) if folder else {"rows": rows}
    source = PolledSource(document, Idle(), clock, argv)  # first, as `console.tui.start` does
    app = importlib.import_module("console.tui.app").ConsoleApp(source, clock, start="fleet")
    importlib.import_module("console.tui.screens.fleet")
    app.source = source
    return app


def follow_parent() -> None:
    """End with the parent, whatever becomes of the terminal: an application left alone would spin."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main() -> None:
    """Build the application named on the command line, tell the parent, run it."""
    threading.Thread(target=follow_parent, daemon=True).start()
    kind, rows = sys.argv[1], int(sys.argv[2])
    makers = {
        "lines": lambda: lines(rows), "datatable": lambda: stock(rows), "fastdatatable": lambda: stock(rows, fast=True),
        "console": lambda: console(rows), "bare": bare,
    }  # fmt: skip
    app = makers[kind]()
    if kind in ("datatable", "fastdatatable", "lines"):
        importlib.import_module("textual.widgets")
    stamp()
    if kind == "console":  # as `reprieve` starts it
        from console.tui import wiring

        wiring.run(app, app.source)
    else:
        app.run()


if __name__ == "__main__":
    main()
