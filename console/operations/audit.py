"""The audit log of this machine: who asked for what, by which command line, and what came of it.

One JSON document a line in `<state>/audit.ndjson` (0600), only ever appended; written before an action begins and
after it ends, so that one cut short is seen too.
"""

from __future__ import annotations

import getpass
import json
import os
import shlex
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.errors import ReprieveError
from console.operations.context import Context

FILE = "audit.ndjson"
SCHEMA = "reprieve/audit/v1"
_TAIL = 256 * 1024  # bytes read back from the end
Document = dict[str, Any]


def command_line(context: str, words: str, arguments: dict[str, Any]) -> str:
    """The command line that does the same as `words` with these arguments.

    `name`, `checkpoint` of a verification and `changes` are operands, everything else is an option.
    """
    line = ["reprieve", *(["--context", context] if context != "default" else []), *words.split()]
    operands = ("name", "run", *(("checkpoint",) if words.startswith("checkpoints") else ()))
    line += [str(arguments[name]) for name in operands if arguments.get(name)]
    line += [str(value) for value in arguments.get("changes") or ()]
    for name, value in arguments.items():
        if name in (*operands, "changes") or value in (None, False):
            continue
        option = f"--{name.replace('_', '-')}"
        line += [option] if value is True else [option, str(value)]
    return shlex.join(line)


class Audit:
    """Appends to, and reads back, the log of one context."""

    def __init__(self, context: Context, clock: Clock, via: str) -> None:
        self._path = Path(context.state) / FILE
        self._context = context.name
        self._clock = clock
        self._via = via

    def write(
        self, words: str, arguments: dict[str, Any], state: str, result: str = "", code: int | None = None
    ) -> None:
        """Add a line; `state` is `started`, `done` or `failed`.

        Raises ReprieveError when the log cannot be written: what cannot be told afterwards is not begun.
        """
        document = {
            "schema": SCHEMA,
            "at": format_utc(self._clock.wall()),
            "who": clean(getpass.getuser(), limit=64),
            "via": self._via,
            "context": self._context,
            "command": clean(command_line(self._context, words, arguments), limit=2000),
            "state": state,
            "result": clean(result, limit=500),
            "exit": code,
        }
        data = (json.dumps(document, ensure_ascii=True) + "\n").encode()
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, data)
            finally:
                os.close(handle)
        except OSError as error:
            raise ReprieveError(
                f"audit log {self._path}: {clean(error.strerror or error)}",
                hint="nothing was done; free or mend it",
            ) from None

    def tail(self, limit: int = 200) -> list[Document]:
        """The newest entries, newest first; lines that are no entry are left out."""
        try:
            with self._path.open("rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - _TAIL))
                lines = stream.read().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ReprieveError(f"audit log {self._path}: {clean(error.strerror or error)}") from None
        entries = []
        for line in reversed(lines):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and entry.get("schema") == SCHEMA:
                entries.append({str(key): value for key, value in entry.items()})
            if len(entries) == limit:
                break
        return entries
