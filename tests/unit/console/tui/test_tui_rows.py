"""The cursor is a key: refreshes, sorts, filters and removals never put another row under it."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from console.tui.model import filters
from console.tui.model.cells import Cell, Column
from console.tui.model.rows import Rows

Record = tuple[str, float | None]
COLUMNS: tuple[Column[Record], ...] = (
    Column("name", "NAME", lambda r, _: Cell(r[0]), lambda r, _: r[0], 5),
    Column("n", "N", lambda r, _: Cell(str(r[1])), lambda r, _: r[1], 5),
)
NAMES = ("name", "n")


def table(*records: Record, sort: str = "n") -> Rows[Record]:
    rows: Rows[Record] = Rows(COLUMNS, sort)
    rows.load(((record[0], record) for record in records), 0.0)
    return rows


def load(rows: Rows[Record], *records: Record, now: float = 1.0) -> None:
    rows.load(((record[0], record) for record in records), now)


def test_refresh_and_resort_keep_the_cursor_on_its_key() -> None:
    rows = table(("a", 1), ("b", 2), ("c", 3))
    rows.move(1, 0)
    assert rows.cursor == "b"
    load(rows, ("a", 9), ("b", 8), ("c", 1), ("d", 0))
    assert rows.order == ["d", "c", "b", "a"]
    assert rows.cursor == "b"
    rows.set_sort("name", 0)
    assert rows.cursor == "b"
    rows.set_sort("name", 0)
    assert rows.order == ["d", "c", "b", "a"]
    assert rows.cursor == "b"


def test_a_removed_row_stays_as_a_ghost_until_the_cursor_moves() -> None:
    rows = table(("a", 1), ("b", 2), ("c", 3))
    rows.move(1, 0)
    load(rows, ("a", 1), ("c", 3), now=5)
    assert rows.cursor == "b"
    assert rows.ghost is not None
    assert rows.ghost.gone
    assert rows.order == ["a", "b", "c"]
    assert rows.targets() == ([], 0), "a ghost is no target"
    load(rows, ("a", 1), ("c", 3), now=9)
    assert rows.ghost is not None
    assert rows.ghost.since == 5
    rows.move(1, 9)
    assert (rows.cursor, rows.order) == ("c", ["a", "c"])
    assert rows.targets() == (["c"], 0)


def test_a_ghost_that_returns_is_a_row_again() -> None:
    rows = table(("a", 1), ("b", 2))
    rows.move(1, 0)
    load(rows, ("a", 1))
    load(rows, ("a", 1), ("b", 7))
    assert rows.ghost is None
    assert rows.cursor == "b"
    assert rows.targets() == (["b"], 0)


def test_a_row_that_stops_matching_by_a_refresh_is_kept_under_the_cursor() -> None:
    rows = table(("a", 1), ("b", 2), ("c", 3))
    rows.set_filter(filters.parse("n<3", NAMES), 0)
    rows.move(1, 0)
    assert rows.cursor == "b"
    load(rows, ("a", 1), ("b", 30), ("c", 2))
    assert rows.cursor == "b"
    assert rows.ghost is not None
    assert not rows.ghost.gone


def test_the_operators_own_filter_moves_the_cursor_to_a_row_nearby() -> None:
    rows = table(("a", 1), ("b", 2), ("c", 3))
    rows.move(2, 0)
    rows.set_filter(filters.parse("!c", NAMES), 0)
    assert rows.cursor == "b"
    assert rows.ghost is None


def test_marks_stay_on_keys_and_hidden_ones_are_counted_not_acted_on() -> None:
    rows = table(("a", 1), ("b", 2), ("c", 3))
    rows.mark_shown()
    rows.set_filter(filters.parse("n>1", NAMES), 0)
    assert rows.targets() == (["b", "c"], 1)
    load(rows, ("a", 1), ("c", 3))
    assert rows.marks == {"a", "c"}
    rows.clear_marks()
    assert rows.targets()[0] == ([] if rows.ghost else [rows.cursor])


def test_unknown_sorts_last_either_way() -> None:
    rows = table(("a", None), ("b", 2), ("c", 3))
    assert rows.order == ["b", "c", "a"]
    rows.set_sort("n", 0)
    assert rows.order == ["c", "b", "a"]


def test_empty_and_filled_again() -> None:
    rows = table()
    rows.move(3, 0)
    assert rows.cursor is None
    load(rows, ("a", 1))
    assert rows.cursor == "a"


records = st.lists(
    st.tuples(st.sampled_from(string.ascii_lowercase), st.none() | st.floats(0, 10)),
    max_size=12, unique_by=lambda record: record[0],
)  # fmt: skip
actions = st.lists(
    st.one_of(
        st.tuples(st.just("load"), records),
        st.tuples(st.just("sort"), st.sampled_from(NAMES)),
        st.tuples(st.just("filter"), st.sampled_from(["", "a", "!b", "n>5", "n<5 !c", "name=d"])),
        st.tuples(st.just("move"), st.integers(-5, 5)),
        st.tuples(st.just("mark"), st.none()),
        st.tuples(st.just("mark all"), st.none()),
    ),
    max_size=25,
)


@given(records, actions)
def test_only_the_operator_moves_the_cursor(first: list[Record], steps: list[tuple[str, object]]) -> None:
    rows = table(*first)
    for time, (what, value) in enumerate(steps):
        before = rows.cursor
        if what == "load":
            load(rows, *value, now=time)  # type: ignore[misc]  # a list of records
            assert before is None or rows.cursor == before
        elif what == "sort":
            rows.set_sort(str(value), time)
            assert before is None or rows.cursor == before
        elif what == "filter":
            rows.set_filter(filters.parse(str(value), NAMES), time)
        elif what == "move":
            rows.move(int(str(value)), time)
        elif what == "mark":
            rows.toggle_mark()
        else:
            rows.mark_shown()
        assert (rows.cursor is None) == (not rows.order)
        assert len(set(rows.order)) == len(rows.order)
        if rows.cursor is not None:
            assert rows.order[rows.index(rows.cursor) or 0] == rows.cursor
            assert rows.get(rows.cursor) is not None
        assert all(rows.alive(key) for key in rows.targets()[0])
        assert all(rows.alive(key) for key in rows.marks)
        if rows.ghost is not None:
            assert rows.ghost.key == rows.cursor
