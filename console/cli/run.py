"""One command from its words to its exit code: parse, settle, hand over, and say what went wrong."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from backends.clock import Clock, SystemClock
from backends.errors import ReprieveError
from console.cli import exits
from console.cli.invocation import Invocation
from console.cli.narrate import Narrator
from console.cli.parser import Typed, parse, split
from console.cli.render import MACHINE, Renderer
from console.config.model import Settings
from console.config.resolve import resolve
from console.registry.index import find
from console.registry.model import Command

if TYPE_CHECKING:
    from console.operations.context import Context

WATCH_EVERY_S = 2.0
_CONSOLE = Command("", "", "the console", "console.tui.start:main")  # `reprieve` alone: common options only
_SETTING_OPTIONS = ("context", "color", "output", "quiet", "no_input", "read_only")


def run(argv: list[str]) -> int:
    """Run one command line (without the program's name) and return its exit code. Never raises."""
    clock = SystemClock()
    machine = _asked_format(argv, os.environ) in MACHINE
    narrator = Narrator(sys.stderr, clock, machine=machine, colour=_coloured("auto", sys.stderr))
    exits.terminate_cleanly()
    try:
        return _run(argv, clock)
    except exits.DryRunEnd:
        return exits.DONE
    except ReprieveError as error:
        narrator.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        exits.only_end()
        narrator.say("interrupted")
        return exits.INTERRUPTED
    except exits.Terminated:
        return exits.TERMINATED
    except BrokenPipeError:
        _silence(sys.stdout)
        return exits.DONE
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback reaches a user
        if "-vv" in argv or argv.count("-v") + argv.count("--verbose") > 1:
            import traceback

            narrator.raw("".join(traceback.format_exception(error)))
        fault = exits.unexpected(error, clock)
        narrator.error(fault)
        return fault.exit_code


def _run(argv: list[str], clock: Clock) -> int:
    typed = split(argv)
    if not typed.noun and not typed.help and sys.stdin.isatty() and sys.stdout.isatty():
        return _console(typed, clock)
    text = _help_for(typed)
    if text is not None:
        if typed.help:
            Renderer(sys.stdout).text(text)
            return exits.DONE
        Narrator(sys.stderr, clock).raw(text)
        return 2
    command = find(typed.noun, typed.verb or "")
    if command is None:
        raise exits.usage(f"reprieve {typed.noun} is not part of this build")
    values = parse(command, typed.rest, os.environ)
    settings = _settle(values)
    return _hand_over(command, _invocation(command, values, settings, clock))


def _help_for(typed: Typed) -> str | None:
    """The help text that the words ask for, or get because they are not enough; None when they name a command."""
    if typed.noun and not typed.help and typed.verb is not None and find(typed.noun, typed.verb) is not None:
        return None
    from console.cli import helptext

    if not typed.noun:
        return helptext.top() if typed.help else helptext.short()
    command = find(typed.noun, typed.verb) if typed.verb is not None else None
    if command is None:
        return helptext.of_noun(typed.noun)
    return helptext.of_command(command) if typed.help else None


def _settle(values: Mapping[str, Any]) -> Settings:
    flags = {name: values[name] for name in _SETTING_OPTIONS if values[name] not in (None, False)}
    return resolve(flags, os.environ, values["config"])


def _invocation(command: Command, values: dict[str, Any], settings: Settings, clock: Clock) -> Invocation:
    output = _format(command, settings)
    machine = output in MACHINE
    quiet, wish = settings.flag("quiet"), settings.text("color")
    return Invocation(
        words=command.words,
        arguments={
            argument.name.replace("-", "_"): values[argument.name.replace("-", "_")]
            for argument in command.arguments
        },
        clock=clock,
        renderer=Renderer(sys.stdout, output, colour=_coloured(wish, sys.stdout)),
        narrator=Narrator(
            sys.stderr, clock, quiet=quiet, machine=machine, colour=_coloured(wish, sys.stderr)
        ),
        settings=settings,
        open_context=lambda: _context(settings),
        stdin=sys.stdin,
        yes=bool(values["yes"]),
        confirmation=values["confirm"],
        no_input=settings.flag("no_input") or machine or not (sys.stdin.isatty() and sys.stderr.isatty()),
        dry_run=bool(values["dry_run"]),
        verbose=int(values["verbose"] or 0),
        read_only=settings.flag("read_only"),
        production=settings.flag("production"),
        labels=_labels(values.get("label") or []),
        watch=bool(values.get("watch")),
    )


def _format(command: Command, settings: Settings) -> str:
    """The output format; one that was typed must fit, one that stands in environment or file is a wish."""
    output = settings.text("output") or "table"
    if output in command.formats:
        return output
    if settings.origins["output"] == "--output":
        formats = ", ".join(command.formats)
        raise exits.usage(
            f"reprieve {command.words} has no output format {output!r}; one of {formats} expected"
        )
    return "ndjson" if output in MACHINE and "ndjson" in command.formats else command.formats[0]


def _hand_over(command: Command, invocation: Invocation) -> int:
    if command.tier and not invocation.dry_run:
        invocation.refuse_if_read_only()
    if invocation.watch and invocation.output not in ("table", "wide", "ndjson"):
        raise exits.usage(
            f"--watch repeats, and -o {invocation.output} is one document: table, wide or ndjson expected"
        )
    handler = _handler(command.handler)
    gc.freeze()
    gc.enable()
    while invocation.watch:
        handler(invocation)
        invocation.clock.sleep(WATCH_EVERY_S)
    return handler(invocation)


def _handler(path: str) -> Callable[[Invocation], int]:
    module, _, function = path.partition(":")
    handler: Callable[[Invocation], int] = getattr(importlib.import_module(module), function)
    return handler


def _console(typed: Typed, clock: Clock) -> int:
    settings = _settle(parse(_CONSOLE, typed.rest, os.environ))
    application = importlib.import_module(
        "console.tui.start"
    )  # it turns the collector on, once all is loaded
    code: int = application.main(_context(settings), clock)
    return code


def _context(settings: Settings) -> Context:
    from console.operations.contexts import build_context

    return build_context(settings)


def _labels(typed: list[str]) -> dict[str, str]:
    labels = {}
    for text in typed:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise exits.usage(f"--label is {text!r}; KEY=VALUE expected")
        labels[key] = value
    return labels


def _coloured(wish: str | None, stream: TextIO) -> bool:
    if wish != "auto":
        return wish == "always"
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _asked_format(argv: list[str], environ: Mapping[str, str]) -> str:
    """The format as far as it can be told before anything is parsed, so that even a usage error is in it."""
    asked = environ.get("REPRIEVE_OUTPUT", "")
    for position, token in enumerate(argv):
        if token == "--":
            break
        if token in ("-o", "--output"):
            asked = argv[position + 1] if position + 1 < len(argv) else asked
        elif token.startswith("--output="):
            asked = token.removeprefix("--output=")
        elif token.startswith("-o") and not token.startswith("--"):
            asked = token.removeprefix("-o")
    return asked


def _silence(stream: TextIO) -> None:
    """Point a closed pipe at /dev/null, so that the interpreter's last flush says nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
