"""Owns standard error: narration, warnings, progress, questions and errors. Never data."""

from __future__ import annotations

from typing import TextIO

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.errors import ReprieveError

LINE_LIMIT = 2000  # characters of one narrated line


class Narrator:
    """Writes to standard error.

    `quiet` drops narration and progress, never warnings and errors. With `machine` an error is one JSON
    object on one line, the last thing written.
    """

    def __init__(
        self,
        stream: TextIO,
        clock: Clock,
        *,
        quiet: bool = False,
        machine: bool = False,
        colour: bool = False,
    ) -> None:
        self.stream = stream
        self._clock = clock
        self._quiet = quiet
        self._machine = machine
        self._colour = colour and not machine
        self._live = not machine and stream.isatty()
        self._drawn = 0  # width of the progress line on the terminal, 0 when there is none

    def say(self, text: str) -> None:
        """One line of narration; nothing under -q."""
        if not self._quiet:
            self._line(clean(text, limit=LINE_LIMIT))

    def warn(self, text: str) -> None:
        """One warning, also under -q."""
        self._line(f"{self._paint('warning:', '33')} {clean(text, limit=LINE_LIMIT)}")

    def progress(self, text: str) -> None:
        """What is under way: one line redrawn on a terminal, else a line with its time; nothing under -q."""
        if self._quiet:
            return
        if not self._live:
            self._line(f"{format_utc(self._clock.wall())} {clean(text, limit=LINE_LIMIT)}")
            return
        import shutil  # a terminal's progress only

        line = clean(text, limit=max(20, shutil.get_terminal_size().columns - 1))
        self._write("\r" + line.ljust(self._drawn))
        self._drawn = len(line)

    def settle(self) -> None:
        """Take a progress line off the terminal, so that a result on stdout begins at the left edge."""
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")
            self._drawn = 0

    def ask(self, lines: tuple[str, ...], prompt: str) -> None:
        """Show a question: its lines, then the prompt without a line end."""
        for line in lines:
            self._line(clean(line, limit=LINE_LIMIT))
        self._write(prompt)

    def error(self, error: ReprieveError) -> None:
        """The last word: one line (and a hint) for people, one JSON object for machines."""
        if self._machine:
            import json  # errors only

            self._line(json.dumps(error.document(), ensure_ascii=True))
            return
        self._line(f"{self._paint('error:', '31')} {clean(error.message, limit=LINE_LIMIT)}")
        if error.hint:
            self._line(f"hint: {clean(error.hint, limit=LINE_LIMIT)}")

    def raw(self, text: str) -> None:
        """Lines as they are (a traceback under -vv, help on standard error), each made safe to draw."""
        self._line(clean(text.rstrip("\n"), limit=64 * 1024, lines=True))

    def _paint(self, word: str, code: str) -> str:
        return f"\x1b[{code}m{word}\x1b[0m" if self._colour else word

    def _line(self, text: str) -> None:
        self.settle()
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        encoding = self.stream.encoding or "utf-8"
        safe = text.encode(encoding, "backslashreplace").decode(encoding)
        try:
            self.stream.write(safe)
            self.stream.flush()
        except (OSError, ValueError):
            return  # nobody reads standard error any more: there is no better place to say so
