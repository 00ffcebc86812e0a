"""The node command: `reprieve-node VERB`, one JSON document on stdin, one on stdout.

`attend` answers a line with a line for as long as it is asked. Exit 0 with an answer or with `{"error": …}` for a refusal; any other exit: the call itself did not happen.
`serve` runs the guard, `serve --detach` starts it and returns once it answers.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backends.clock import SystemClock
from backends.errors import DamagedError, ReprieveError, UnreachableError, UsageError
from backends.guard.disk.layout import Layout, layout_here
from backends.guard.server import call
from backends.records.strict import STATUS_LIMIT, loads, read, to_document

VERBS = (
    "facts", "status", "clock", "events", "acknowledge", "examine", "protect", "start", "save", "hold", "release",
    "restore", "rehearse", "prefetch", "stop", "set", "pause", "resume", "forget", "thaw", "escrow", "decline", "shutdown",
)  # fmt: skip
ATTENDED = ("status", "clock", "events", "acknowledge")  # what `attend` answers, a line for a line
IDLE_S = 300.0  # after so long without a line, the console that asked is taken to be gone
MARGIN_S = 150.0  # beyond the wait that a document asks for
START_LIMIT_S = 30.0
ENGINES = "backends.guard.installed:engines"


@dataclass(frozen=True)
class FactsAsked:
    """The document of `facts`: files whose identity is wanted too."""

    paths: tuple[str, ...] = ()


def main(arguments: Sequence[str]) -> int:
    """Run one verb; the exit status."""
    if not arguments or arguments[0] not in (*VERBS, "attend", "serve"):
        _complain(f"reprieve-node: one of {', '.join(VERBS)}, attend, serve is expected")
        return 2
    layout = layout_here()
    try:
        if arguments[0] == "serve":
            return _serve(layout, detach="--detach" in arguments[1:])
        if arguments[0] == "attend":
            return _attend(layout)
        document = loads(sys.stdin.buffer.read(STATUS_LIMIT + 1) or b"{}", what="the document on stdin")
        answer = _answer(layout, arguments[0], document)
    except UnreachableError as error:
        _complain(f"reprieve-node: {error.message}")
        return error.exit_code
    except ReprieveError as error:
        answer = {"error": error.document()}
    sys.stdout.write(json.dumps(answer, ensure_ascii=True, allow_nan=False) + "\n")
    sys.stdout.flush()
    return 0


def _attend(layout: Layout) -> int:
    """Answer each line `{"verb", "document"}` on stdin with one on stdout, until there are no more."""
    while select.select([sys.stdin], [], [], IDLE_S)[0]:
        line = sys.stdin.buffer.readline(STATUS_LIMIT + 1)
        if not line:
            break
        try:
            asked = loads(line, what="the line on stdin")
            verb, document = asked.get("verb"), asked.get("document")
            if verb not in ATTENDED or not isinstance(document, dict):
                raise UsageError(
                    f"a line is an object with `verb`, one of {', '.join(ATTENDED)}, and `document`"
                )
            answer = call(layout.socket, verb, document, MARGIN_S)
        except ReprieveError as error:
            answer = {"error": error.document()}
        sys.stdout.write(json.dumps(answer, ensure_ascii=True, allow_nan=False) + "\n")
        sys.stdout.flush()
    return 0


def _complain(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _answer(layout: Layout, verb: str, document: dict[str, Any]) -> dict[str, Any]:
    if verb == "facts":  # works without a running guard
        from backends.guard import facts

        return to_document(facts.collect(read(FactsAsked, document, what="facts").paths))
    if isinstance(document.get("grant"), dict):
        document["grant"]["heard_at"] = _began_at()  # starting an interpreter takes a while on a busy node
    wait_s = document.get("wait_s", 0.0)
    if isinstance(wait_s, bool) or not isinstance(wait_s, (int, float)) or wait_s < 0:
        raise DamagedError("wait_s is not a number of seconds, 0 or more")
    return call(layout.socket, verb, document, min(float(wait_s), 3600.0) + MARGIN_S)


def _began_at() -> float | None:
    """When this process was started, by the boot clock: closest to the moment at which the call came."""
    from backends.engines.port import start_ticks

    ticks = start_ticks(os.getpid())
    return None if ticks is None else ticks / os.sysconf("SC_CLK_TCK")


def _serve(layout: Layout, *, detach: bool) -> int:
    layout.prepare()
    argv = [sys.executable, "-m", "backends.guard.entry", "serve"]
    if detach:
        return _detach(layout, argv)
    from backends.guard.wiring import guard_at

    try:
        guard = guard_at(layout, ENGINES, _respawn(layout, argv))
        guard.obey_signals()
        guard.run()
    except ReprieveError as error:
        _complain(f"reprieve-node: {error.message}")
        os._exit(error.exit_code)
    os._exit(0)  # uploads under way are abandoned, their threads need not be waited for


def _respawn(layout: Layout, argv: list[str]) -> list[str]:
    """How the watchdog starts the guard again: through the installed command, which follows upgrades.

    Nothing under systemd, which restarts its unit itself, or under another that does and says so.
    """
    if (os.environ.get("INVOCATION_ID") and os.getppid() == 1) or os.environ.get("REPRIEVE_SUPERVISOR"):
        return []
    command = layout.root / "bin" / "reprieve-node"
    return [str(command), "serve"] if command.exists() else argv


def _detach(layout: Layout, argv: list[str]) -> int:
    """Start the guard, or find it running; 0 once it answers, its status on stdout."""
    from backends.guard.spawn import detached, is_held

    clock = SystemClock()
    log = layout.run / "guard.log"
    running = is_held(layout.lock)
    child = None if running else detached(argv, log)
    give_up_at = clock.monotonic() + START_LIMIT_S
    while True:
        try:
            status = call(layout.socket, "status", {}, 5.0)
            break
        except UnreachableError:
            if child is not None and child.poll() is not None and not is_held(layout.lock):
                raise UsageError(f"the guard did not start (exit {child.returncode}); see {log}") from None
            if clock.monotonic() > give_up_at:
                raise
            clock.sleep(0.05)
    answer = {"guard": status["guard"], "node": status["node"], "already_running": running}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
