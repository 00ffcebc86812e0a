"""Log and Settings: what was done from this machine, and how this console is set."""

from __future__ import annotations

from console.tui.asked.looked import told
from console.tui.desk import Desk
from console.tui.model import text
from console.tui.model.cells import Cell
from console.tui.model.detail import Line, Section
from console.tui.model.words import Tone
from console.tui.screens.live import Live
from console.tui.screens.overlays import Panel
from console.tui.widgets.facts import Facts

EVERY_S = 5.0
_TONES: dict[str, Tone] = {"done": "ok", "failed": "bad", "started": "muted", "cancelled": "warn"}


class Log(Live, Panel):
    """The audit log: who, when, by which command line, and what came of it."""

    TITLE_TEXT = "Log"

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk

    def on_mount(self) -> None:
        """The answer may have come before the panel stood."""
        self.call_after_refresh(self.show)

    def show(self) -> None:
        """Draw again."""
        if self.is_mounted:
            self.query_one(Facts).show(self.sections())

    def sections(self) -> list[Section]:
        """Newest first, failures with their reason."""
        asked = self._desk.looks.want("log", EVERY_S, limit=200)
        lines: list[Line] = []
        for entry in asked.items():
            state = str(entry.get("state"))
            at = text.time_of_day(text.seconds_of(str(entry.get("at"))), self._desk.clock.wall())
            code = "" if entry.get("exit") in (None, 0) else f"  exit {entry.get('exit')}"
            head = Cell(f"{state:<9} ", _TONES.get(state, "plain"))
            lines.append(
                (
                    at,
                    (
                        head,
                        Cell(f"$ {entry.get('command')}", "strong"),
                        Cell(f"  {entry.get('who')}{code}", "muted"),
                    ),
                )
            )
            if entry.get("result"):
                lines.append(
                    (
                        "",
                        (
                            Cell(" " * 24),
                            Cell(str(entry.get("result")), "bad" if state == "failed" else "muted"),
                        ),
                    )
                )
        state_of = told(asked, self._desk.clock.monotonic(), EVERY_S)
        return [
            Section(
                "",
                (
                    (
                        "",
                        (
                            Cell("everything that was done from here, by keys or by commands  ", "muted"),
                            state_of,
                        ),
                    ),
                ),
            ),
            Section("", tuple(lines) or (("", (Cell("nothing was done yet", "muted"),)),)),
        ]


class Settings(Panel):
    """What is set, and by what; what can be changed here."""

    TITLE_TEXT = "Settings"

    def __init__(self, facts: list[Section]) -> None:
        super().__init__()
        self._facts = facts

    def sections(self) -> list[Section]:
        """Context, looks, keys, views."""
        return self._facts
