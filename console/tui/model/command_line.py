"""The `:` line: the same words as the command line, completed from the registry."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from console.registry.model import Command
from console.tui.modes import ALIASES, IDS, MODES

_ALIASES = {**ALIASES, "ops": "operations", "q": "quit", "h": "help", "config": "settings", "audit": "log"}
LOCAL = {
    **{mode.id: mode.question for mode in MODES},
    "operations": "what runs, what ran", "log": "what was done from this machine", "settings": "how this console is set",
    "help": "keys and words", "theme": "theme NAME", "filter": "filter this table", "sort": "sort COLUMN",
    "view": "view NAME: a filter and sort kept in console.toml",
    "export": "export csv|json: this view into a file", "refresh": "look again now", "quit": "leave; jobs run on",
}  # fmt: skip
ACTIONS = {
    "save": "JOB…", "restore": "JOB [--to NODE]", "move": "JOB --to NODE", "pause": "JOB…", "resume": "JOB…", "stop": "JOB…",
    "kill": "JOB…: end without a save", "rehearse": "JOB", "interval": "JOB DURATION", "drain": "NODE", "uncordon": "NODE",
}  # fmt: skip
ONE = ("restore", "move", "rehearse", "drain", "uncordon")  # take one name
ON_NODES = ("drain", "uncordon")


@dataclass(frozen=True)
class Typed:
    """What a line asks for. Exactly one of `mode`, `action`, `local`, `error` says what to do."""

    mode: str = ""  # go to this screen, with `text` as its filter
    action: str = ""  # one of ACTIONS
    local: str = ""  # a word of the console itself, with `text`
    error: str = ""
    text: str = ""
    names: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)


def read(line: str, commands: Sequence[Command] = ()) -> Typed:
    """Understand one line; never raises, what is wrong becomes `error`."""
    try:
        parts = shlex.split(line.strip().lstrip(":"))
    except ValueError as error:
        return Typed(error=f"cannot read the line: {error}".lower())
    if parts and parts[0] == "reprieve":
        parts = parts[1:]
    if not parts:
        return Typed(error="nothing typed")
    head = _ALIASES.get(parts[0], parts[0])
    rest = parts[1:]
    return _act(head, rest) or _go(head, rest, commands)


def _act(head: str, rest: list[str]) -> Typed | None:
    """Words that act on jobs and nodes; None when these are none."""
    if head in ACTIONS:
        return _action(head, rest)
    if head == "jobs" and rest and rest[0] in ACTIONS:
        return _action(rest[0], rest[1:])
    return _setting(rest[1:]) if head == "jobs" and rest and rest[0] == "set" else None


def _go(head: str, rest: list[str], commands: Sequence[Command]) -> Typed:
    """Screens and the console's own words."""
    if rest and f"{head} {rest[0]}" in {command.words for command in commands}:
        if rest[0] == "list" and head in IDS:
            return Typed(mode=head, text=" ".join(rest[1:]))
        if head == "operations" and rest[0] == "list":
            return Typed(local="operations")
        return Typed(error=f"`reprieve {head} {rest[0]}` has no place in the console yet: run it in a shell")
    if head in IDS:
        return Typed(mode=head, text=" ".join(rest))
    if head in LOCAL:
        return Typed(local=head, text=" ".join(rest))
    return Typed(error=_unknown(head, commands))


def _action(action: str, words: list[str]) -> Typed:
    names: list[str] = []
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word == "--to" or word.startswith("--to="):
            value = word[5:] if "=" in word else next(rest, "")
            if not value or action not in ("restore", "move"):
                return Typed(error=f"{action}: --to names a node, for restore and move")
            options["to"] = value
        elif word.startswith("-"):
            return Typed(error=f"{action}: option {word} is not known here; use the command line in a shell")
        else:
            names.append(word)
    if action == "interval":
        if len(names) != 2:
            return Typed(error="interval JOB DURATION: such as interval llama-ft 10m, or auto")
        options["interval"] = names.pop()
    if action in ONE and len(names) > 1:
        more = "; for several: reprieve batch restore FILE" if action == "restore" else ""
        return Typed(error=f"{action} takes one {'node' if action in ON_NODES else 'job'}{more}")
    return Typed(action=action, names=tuple(names), options=options)


def _setting(words: list[str]) -> Typed:
    """`jobs set JOB interval=…`; other settings have no dialog here."""
    if len(words) == 2 and words[1].startswith("interval="):
        return _action("interval", [words[0], words[1].removeprefix("interval=")])
    return Typed(
        error="jobs set: only `interval=DURATION` has a place in the console: run the rest in a shell"
    )


def _unknown(word: str, commands: Sequence[Command]) -> str:
    known = sorted({*LOCAL, *ACTIONS, *(command.noun for command in commands)})
    if word in known:
        return f"`reprieve {word}` has no place in the console yet: run it in a shell"
    near = difflib.get_close_matches(word, known, n=1)
    return f"no word {word!r}" + (f": did you mean {near[0]!r}?" if near else "; ? lists them")


def complete(line: str, commands: Sequence[Command], jobs: Sequence[str], nodes: Sequence[str]) -> list[str]:
    """Whole lines that continue `line`, best first; names come from the snapshot only."""
    head, blank, last = line.rpartition(" ")
    before = head.split()
    if not before:
        words = sorted({*LOCAL, *ACTIONS, *(command.noun for command in commands)})
    elif before[-1] == "--to":
        words = list(nodes)
    elif before[0] in ON_NODES:
        words = [node for node in nodes if node not in before]
    elif before[0] in ACTIONS or (len(before) > 1 and before[0] == "jobs" and before[1] in ACTIONS):
        movable = "restore" in before or "move" in before
        words = [*(job for job in jobs if job not in before), *(["--to"] if movable else [])]
    elif len(before) == 1:
        verbs = {command.verb for command in commands if command.noun == before[0] and command.verb}
        words = sorted(verbs | (set(ACTIONS) if before[0] == "jobs" else set()))
    else:
        words = []
    return [f"{head}{blank}{word}" for word in words if word.startswith(last) and word != last]
