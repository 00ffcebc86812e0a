"""Batch files: strict reading of TOML, JSON, NDJSON and CSV into items, and the order in which they run.

Names and numbers are never altered: `0123` stays `0123`, `no` stays `no`, and a key given twice is an error.
"""

from __future__ import annotations

import csv
import io
import tomllib
from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.errors import DamagedError, UsageError
from backends.ids import CheckpointId, check_name
from backends.records import strict

KEYS = ("job", "checkpoint", "to", "force")
LIMIT_BYTES = 16 << 20


@dataclass(frozen=True)
class BatchItem:
    """One job to bring back."""

    job: str
    checkpoint: str | None = None  # None: the newest usable (`latest`)
    to: str | None = None  # node or pool; None: any
    force: tuple[str, ...] = ()  # gate properties to set aside, each alone or as property=reason


def read_items(data: bytes, name: str) -> list[BatchItem]:
    """The items of a batch file; its form is told by the end of `name`, or by its first character.

    Raises:
        UsageError: naming file, item and what is wrong.
    """
    if len(data) > LIMIT_BYTES:
        raise UsageError(f"{name}: {len(data)} bytes, at most {LIMIT_BYTES} are read")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8 at byte {error.start}") from None
    form = _form(name, text)
    reader = {"toml": _toml, "json": _json, "ndjson": _ndjson, "csv": _csv}[form]
    rows = reader(text, name)
    if not rows:
        raise UsageError(f"{name}: no items; each has at least `job`")
    items = [_item(row, f"{name}, item {number}") for number, row in enumerate(rows, 1)]
    names = [item.job for item in items]
    twice = sorted({job for job in names if names.count(job) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise UsageError(f"{name}: job {twice[0]} occurs twice")
    return items


def _form(name: str, text: str) -> str:
    ending = name.rpartition(".")[2].lower()
    if ending in ("toml", "json", "csv"):
        return ending
    if ending in ("ndjson", "jsonl"):
        return "ndjson"
    first = text.lstrip()[:1]
    if first == "{":
        lines = [line for line in text.splitlines() if line.strip()]
        return (
            "ndjson"
            if lines
            and all(line.strip().endswith("}") and line.strip().startswith("{") for line in lines)
            and '"items"' not in lines[0]
            else "json"
        )
    if first == "[":
        return "toml" if text.lstrip().startswith("[[") and "=" in text else "json"
    return "csv"


def _toml(text: str, name: str) -> list[dict[str, Any]]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: {clean(error)}") from None
    return _list(document, name)


def _json(text: str, name: str) -> list[dict[str, Any]]:
    wrapped = f'{{"items":{text}}}' if text.lstrip().startswith("[") else text
    return _list(_loads(wrapped, name), name)


def _ndjson(text: str, name: str) -> list[dict[str, Any]]:
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    return [_loads(line, f"{name}, line {number}") for number, line in lines]


def _csv(text: str, name: str) -> list[dict[str, Any]]:
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise UsageError(f"{name}: {clean(error)}") from None
    rows = [row for row in rows if row]
    if not rows:
        return []
    head = [cell.strip() for cell in rows[0]]
    if len(set(head)) != len(head):
        raise UsageError(f"{name}: a column occurs twice in the first line")
    result: list[dict[str, Any]] = []
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(head):
            raise UsageError(f"{name}, line {number}: {len(row)} columns, {len(head)} expected")
        item: dict[str, Any] = {key: value for key, value in zip(head, row, strict=True) if value != ""}
        if "force" in item:
            item["force"] = item["force"].split()
        result.append(item)
    return result


def _loads(text: str, what: str) -> dict[str, Any]:
    try:
        return strict.loads(text, what=what, limit=LIMIT_BYTES)
    except DamagedError as error:
        raise UsageError(error.message) from None


def _list(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    items = document.get("items")
    if (
        set(document) != {"items"}
        or not isinstance(items, list)
        or not all(isinstance(i, dict) for i in items)
    ):
        raise UsageError(f"{name}: a list `items` of tables is expected and nothing else")
    return items


def _item(row: dict[str, Any], where: str) -> BatchItem:
    for key in row:
        if key not in KEYS:
            raise UsageError(f"{where}: unknown key {clean(key, limit=40)!r}; known: {', '.join(KEYS)}")
    for key in ("job", "checkpoint", "to"):
        if key in row and not isinstance(row[key], str):
            raise UsageError(f"{where}: {key} must be text, found {clean(row[key], limit=40)!r}")
    if "job" not in row:
        raise UsageError(f"{where}: `job` is missing")
    force = row.get("force", [])
    if not isinstance(force, list) or not all(isinstance(each, str) for each in force):
        raise UsageError(f"{where}: force must be a list of gate properties")
    checkpoint = row.get("checkpoint", "latest")
    if checkpoint != "latest":
        CheckpointId.parse(checkpoint)
    to = row.get("to", "any")
    return BatchItem(
        check_name("job", row["job"]),
        None if checkpoint == "latest" else checkpoint,
        None if to == "any" else to,
        tuple(force),
    )


def order(jobs: list[tuple[str, int]]) -> list[int]:
    """Positions of (job, priority) pairs in the order to run: higher priority first, then as given."""
    return sorted(range(len(jobs)), key=lambda index: (-jobs[index][1], index))


def exit_code(states: list[str]) -> int:
    """0 all done, 3 some failed, 10 refused for want of proof and nothing else, 1 nothing done."""
    good = sum(state in ("restored", "already_restored") for state in states)
    if good == len(states):
        return 0
    if good:
        return 3
    return 10 if states and all(state == "refused" for state in states) else 1
