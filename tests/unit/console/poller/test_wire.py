"""What the poller tells: the whole fleet once, afterwards only what changed, and the same snapshot on the other side."""

from __future__ import annotations

import dataclasses
import json

import pytest

from backends.errors import DamagedError, UnreachableError
from console.operations.view import FleetView, NodeRow
from console.poller.wire import ROWS, Listener, Teller, Told, failed
from tests.support.tui_fleet import rich_view

STRINGS = (
    "\x1b[2J",
    "two\nlines",
    "\r\u2028\x85",
    "\u202egnp.exe",
    "\ud800",
    "\x00",
    "日本",
    '"}\n{"',
    "a" * 5000,
)


def node(name: str, **changes: object) -> NodeRow:
    row = NodeRow(
        name, "ok", "", "p", "aws", 1.0, "none", None, ("a",), "g", "u@h", {"criu": "4.2"}, as_of=100.0
    )
    return dataclasses.replace(row, **changes)  # type: ignore[arg-type]  # names of fields


def heard(listener: Listener, lines: list[bytes]) -> Told:
    told = [listener.take(line) for line in lines]
    assert all(each is None for each in told[:-1])
    assert told[-1] is not None
    return told[-1]


def dated(view: FleetView) -> FleetView:
    return dataclasses.replace(
        view, nodes=tuple(dataclasses.replace(row, as_of=view.taken_at) for row in view.nodes)
    )


def test_a_snapshot_arrives_as_it_was_told() -> None:
    view = rich_view()
    told = heard(Listener(), list(Teller().lines(view, 7)))
    assert told == Told(dated(view), 7)


def test_only_changes_are_told_and_rows_that_stayed_are_the_same_objects() -> None:
    teller, listener = Teller(), Listener()
    rows = [node(f"n{number:03}") for number in range(3 * ROWS)]
    first = heard(listener, list(teller.lines(FleetView("c", 100.0, tuple(rows)), 0))).view
    rows[5] = node("n005", state="late")
    del rows[7]
    rows.append(node("new"))
    lines = list(teller.lines(FleetView("c", 101.0, tuple(rows)), 0))
    assert sum(len(json.loads(line).get("of", ())) for line in lines) == 2
    second = heard(listener, lines).view
    assert first is not None
    assert second is not None
    assert second.nodes == tuple(rows)
    assert second.nodes[0] is first.nodes[0]
    assert second.taken_at == 101.0


def test_a_node_that_was_not_heard_again_only_ages_and_is_not_told() -> None:
    teller = Teller()
    undated = node("n", as_of=None, notice="notice", notice_left_s=90.0)
    list(teller.lines(FleetView("c", 100.0, (undated,)), 0))
    aged = dataclasses.replace(undated, age_s=4.0, notice_left_s=87.1)
    assert len(list(teller.lines(FleetView("c", 103.0, (aged,)), 0))) == 2
    fresh = dataclasses.replace(undated, age_s=0.1, notice_left_s=86.0)
    assert len(list(teller.lines(FleetView("c", 104.0, (fresh,)), 0))) == 3


def test_another_order_is_told() -> None:
    teller, listener = Teller(), Listener()
    one, two, three = node("1"), node("2"), node("3")
    heard(listener, list(teller.lines(FleetView("c", 1.0, (one, two)), 0)))
    told = heard(listener, list(teller.lines(FleetView("c", 1.0, (three, two, one)), 0)))
    assert told.view is not None
    assert [row.name for row in told.view.nodes] == ["3", "2", "1"]


@pytest.mark.parametrize("text", STRINGS)
def test_foreign_text_travels_in_one_line(text: str) -> None:
    view = FleetView("c", 1.0, (node(text, reason=text, facts={text: text}),))
    lines = list(Teller().lines(view, 0))
    assert all(line.count(b"\n") == 1 and line.isascii() for line in lines)
    told = heard(Listener(), lines)
    assert told.view is not None
    assert told.view.nodes[0].facts == {text: text}


def test_a_failure_is_told_with_its_advice() -> None:
    told = Listener().take(failed(UnreachableError("the ledger is locked", hint="wait"), 3))
    assert told == Told(None, 3, "the ledger is locked", "wait")


@pytest.mark.parametrize(
    "line", [b"\n", b"[]\n", b"{\n", b'{"rows":"nodes","of":[[1]]}\n', b'{"gone":"x","keys":[]}\n']
)
def test_a_damaged_line_is_refused(line: bytes) -> None:
    with pytest.raises(DamagedError):
        Listener().take(line)
