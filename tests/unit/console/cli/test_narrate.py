"""Standard error: what is said, what -q drops, and errors for people and programs."""

from __future__ import annotations

import io
import json
import re

import pytest

from backends.clock import SystemClock
from backends.errors import NoProofError, UsageError
from console.cli.narrate import Narrator
from tests.support.cli import Terminal


def test_quiet_drops_narration_but_not_warnings_and_errors() -> None:
    stream = io.StringIO()
    narrator = Narrator(stream, SystemClock(), quiet=True)
    narrator.say("hello")
    narrator.progress("half way")
    narrator.warn("careful")
    narrator.error(UsageError("wrong", hint="do right"))
    assert stream.getvalue() == "warning: careful\nerror: wrong\nhint: do right\n"


def test_progress_off_a_terminal_is_a_line_with_its_time() -> None:
    stream = io.StringIO()
    Narrator(stream, SystemClock()).progress("restoring")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z restoring\n", stream.getvalue())


def test_progress_on_a_terminal_is_redrawn_and_wiped() -> None:
    stream = Terminal()
    narrator = Narrator(stream, SystemClock())
    narrator.progress("fetching 100 %")
    narrator.progress("done")
    narrator.say("next")
    assert stream.getvalue().startswith("\rfetching 100 %\rdone          ")
    assert stream.getvalue().endswith("\r    \rnext\n")


def test_a_result_follows_at_the_left_edge_and_progress_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    narrator = Narrator(stream, SystemClock())
    narrator.settle()
    assert stream.getvalue() == ""
    narrator.progress("x" * 200)
    drawn = len(stream.getvalue()) - 1
    assert drawn == 39
    narrator.settle()
    assert stream.getvalue().endswith("\r" + " " * drawn + "\r")


def test_an_error_for_programs_is_one_object_on_one_line() -> None:
    stream = io.StringIO()
    narrator = Narrator(stream, SystemClock(), machine=True, colour=True)
    narrator.error(NoProofError("nothing proves\nthat \x1b[31mgpu-a is gone", hint="wait"))
    assert stream.getvalue().count("\n") == 1
    assert json.loads(stream.getvalue()) == {
        "code": 10,
        "kind": "no_proof_of_death",
        "message": "nothing proves\nthat \x1b[31mgpu-a is gone",
        "hint": "wait",
    }
    assert "\x1b" not in stream.getvalue()


def test_foreign_text_cannot_draw() -> None:
    stream = io.StringIO()
    narrator = Narrator(stream, SystemClock())
    narrator.say("a\x1b[2J\rb\nc")
    narrator.warn("\x9b")
    narrator.raw("x\x1by\nz")
    assert stream.getvalue() == "a\\x1b[2J\\x0db\\x0ac\nwarning: \\x9b\nx\\x1by\nz\n"


def test_a_closed_stream_is_no_error() -> None:
    stream = io.StringIO()
    narrator = Narrator(stream, SystemClock())
    stream.close()
    narrator.say("into the void")
    assert stream.closed
