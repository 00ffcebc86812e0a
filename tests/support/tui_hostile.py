"""Hostile text: the strings of real-world cases RC-23 and RC-24, and more of the kind."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from pathlib import Path
from typing import Any, TypeVar

from console.operations.view import FleetView
from tests.support.tui_fleet import NOON, rich_view
from tests.support.tui_looks import answer

CASES = Path(__file__).resolve().parents[3] / "shared" / "data" / "cases" / "cases.jsonl"
T = TypeVar("T")

# What must never reach a terminal out of data: C0 but newline, DEL, C1, bidirectional and zero-width characters.
FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

MARKUP = [
    "[/b] x", "[TODO] x", "[type=x, v={'a[0]'}]", "train [b", "[@click=app.quit]boom[/]", "[red]OK[/red]", "path\\[x]",
    "[Errno 28] No space left on device", "[[]]", "$accent", "[$error]x[/]", "[link=https://evil.example]x[/link]",
]  # fmt: skip
CONTROL = [
    "job\x1b]52;c;ZXZpbA==\x07", "host\x1b]0;PWNED\x07", "x\x1b[2Jy", "a\x9b31mb", "q\x1b[6n",
    "link\x1b]8;;https://evil.example\x07text\x1b]8;;\x07", "dcs\x1bP1$tx\x1b\\", "unterminated\x1b]", "cr\rover", "bs\b\b\b",
    "\u202egpj.exe", "zero\u200bwidth", "nul\x00", "del\x7f", "lone\ud800surrogate", "tab\tand\nnewline",
]  # fmt: skip
WIDE = [
    "日本語のジョブ名",
    "e\u0301\u0301\u0301combining",
    "👩\u200d🚀 launch",
    "ｆｕｌｌ",
    "x" * 5000,
    " ",
    "",
]


def strings() -> list[str]:
    """All strings; those of the case files where they are present."""
    found = [*MARKUP, *CONTROL, *WIDE]
    if CASES.exists():
        for line in CASES.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            if case["id"] in ("RC-23", "RC-24"):
                found += case["input"]["strings"]
    return list(dict.fromkeys(found))


def poison(record: T, text: str, keep: tuple[str, ...] = ()) -> T:
    """The record with `text` in every field that holds text, but for `keep`."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(record):  # type: ignore[arg-type]  # T is a dataclass
        value = getattr(record, field.name)
        if field.name in keep:
            continue
        if isinstance(value, str) or (value is None and "str" in str(field.type)):
            changes[field.name] = text
        elif isinstance(value, tuple) and field.name == "jobs":
            changes[field.name] = (text, text + "2")
        elif isinstance(value, dict):
            changes[field.name] = {text: text, "gpus": text, "checkpoint": text, "lost_work_s": text}
    return dataclasses.replace(record, **changes)  # type: ignore[type-var]  # as above


def hostile_view() -> FleetView:
    """A fleet in which every text of every record is hostile, one string a row."""
    base = rich_view()
    every = strings()
    jobs = [
        dataclasses.replace(poison(base.jobs[0], text), name=f"{text}{n}", uid=f"u{n}")
        for n, text in enumerate(every)
    ]
    nodes = [
        dataclasses.replace(poison(base.nodes[0], text), name=f"{text}{n}") for n, text in enumerate(every)
    ]
    events = [dataclasses.replace(poison(base.events[0], text), id=f"e{n}") for n, text in enumerate(every)]
    operations = [
        dataclasses.replace(poison(base.operations[0], text), id=f"o{n}") for n, text in enumerate(every)
    ]
    return dataclasses.replace(
        base, context=every[1] + CONTROL[0], controller=CONTROL[1] + MARKUP[0], no_controller_since=None,
        nodes=tuple(nodes), jobs=tuple(jobs), events=tuple(events), operations=tuple(operations),
        source_ages_s=dict.fromkeys(every[:20], 1.0),
    )  # fmt: skip


def hostile_answers() -> dict[str, dict[str, Any]]:
    """The scripted fleet's answers to looks with a hostile string in every text, `kind` of a place excepted."""
    every = itertools.cycle(strings())

    def poisoned(value: Any) -> Any:
        if isinstance(value, str):
            return next(every)
        if isinstance(value, list):
            return [poisoned(item) for item in value]
        if isinstance(value, dict):
            return {
                (next(every) if key in ("kernel", "libc") else key): item if key == "kind" else poisoned(item)
                for key, item in value.items()
            }
        return value

    view = rich_view()
    looks = ("checkpoints", "places", "pools", "batches", "log", "operation", "plan")
    found = {look: poisoned(answer(look, {"name": "fold-9", "id": "op-31"}, view, NOON)) for look in looks}
    for number, item in enumerate(found["checkpoints"]["items"]):
        item |= {
            "uid": f"u{number}",
            "checkpoint": f"1.{number}",
            "state": "saved",
            "job": f"{strings()[number]}{number}",
        }
    return found
