"""A terminal of tmux on a server of its own: keys go in, lines come out; no mouse."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from backends.clock import SystemClock

CLOCK = SystemClock()
LOOK_S = 0.15
DIALOG_S = 0.7  # no key counts in a dialog's first half second


class Terminal:
    """Windows by name, each 80 or more columns wide."""

    def __init__(self, socket: Path, environment: Mapping[str, str], size: tuple[int, int]) -> None:
        found = shutil.which("tmux")
        if found is None:
            pytest.skip("tmux is not installed")
        self._tmux = [found, "-S", str(socket), "-f", "/dev/null"]
        self._environment, self._size = dict(environment), size
        self._begun = False

    def window(self, name: str, *argv: str) -> None:
        """Open a window that runs `argv`; it stays when that has ended."""
        if not self._begun:
            width, height = self._size
            self._call("new-session", "-d", "-s", "t", "-n", name, "-x", str(width), "-y", str(height), *argv)
            self._call("set-option", "-g", "remain-on-exit", "on")
            self._begun = True
        else:
            self._call("new-window", "-d", "-t", "t", "-n", name, *argv)

    def press(self, window: str, *keys: str) -> None:
        """Press keys by tmux's names: `S`, `Enter`, `Escape`."""
        for key in keys:
            self._call("send-keys", "-t", f"t:{window}", key)

    def type(self, window: str, line: str) -> None:
        """Type a line and press Enter."""
        self._call("send-keys", "-t", f"t:{window}", "-l", line)
        self.press(window, "Enter")

    def text(self, window: str) -> str:
        """What the window shows now."""
        return self._call("capture-pane", "-p", "-t", f"t:{window}")

    def expect(
        self, window: str, what: str | Callable[[str], object], seconds: float = 150.0, *, again: str = ""
    ) -> str:
        """Wait for words (wherever a line ends), or a condition, on a window; returns its text then.

        `again` is a key pressed once a second meanwhile, for what is asked for anew.
        """
        ends = CLOCK.monotonic() + seconds
        next_press = CLOCK.monotonic() + 1.0
        while True:
            shown = self.text(window)
            running = " ".join(shown.replace("│", " ").split())
            if what in running if isinstance(what, str) else what(shown):
                return shown
            assert CLOCK.monotonic() < ends, f"waited {seconds:.0f} s for {what!r} on:\n{shown}"
            if again and CLOCK.monotonic() >= next_press:
                self.press(window, again)
                next_press += 1.0
            CLOCK.sleep(LOOK_S)

    def agree(self, window: str, title: str) -> None:
        """Wait for the dialog of this title, and confirm it."""
        self.expect(window, title)
        CLOCK.sleep(DIALOG_S)
        self.press(window, "y")

    def end(self) -> None:
        """End the server and everything in its windows."""
        if self._begun:
            subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)

    def _call(self, *words: str) -> str:
        done = subprocess.run(
            [*self._tmux, *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert done.returncode == 0, f"tmux {' '.join(words)}: {done.stderr}"
        return done.stdout
