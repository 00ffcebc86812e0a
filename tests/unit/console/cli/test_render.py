"""Standard output in every format: what a program reads back is what was given."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.cli.cells import Column, cell, grid, width
from console.cli.plaindata import to_csv, to_yaml
from console.cli.render import Renderer

_ITEMS: list[dict[str, Any]] = [
    {
        "name": "llama-ft",
        "state": "protected",
        "size_bytes": 5 << 30,
        "age_s": 252.0,
        "epoch": 2,
        "node": None,
    },
    {
        "name": "x",
        "state": "lost",
        "size_bytes": None,
        "age_s": 0.0,
        "epoch": 11,
        "node": "gpu-a",
        "labels": {"a": "b"},
    },
]
_COLUMNS = (
    "name",
    "state",
    "size_bytes",
    "age_s",
    "epoch",
    Column("node", wide=True),
    Column("labels.a", "LABEL"),
)
_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 53), 1 << 53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def printed(output: str, *, colour: bool = False) -> str:
    stream = io.StringIO()
    Renderer(stream, output, colour=colour).listing("job", _ITEMS, _COLUMNS)
    return stream.getvalue()


def test_a_listing_as_json_is_one_document() -> None:
    assert json.loads(printed("json")) == {"schema": "reprieve/job-list/v1", "items": _ITEMS}


def test_a_listing_as_ndjson_is_a_document_a_line() -> None:
    lines = [json.loads(line) for line in printed("ndjson").splitlines()]
    assert lines == [{"schema": "reprieve/job/v1", **item} for item in _ITEMS]


def test_a_listing_as_csv_has_every_key_and_unknown_is_empty() -> None:
    rows = list(csv.DictReader(io.StringIO(printed("csv"))))
    assert [row["name"] for row in rows] == ["llama-ft", "x"]
    assert (rows[0]["node"], rows[1]["size_bytes"], rows[1]["labels"]) == ("", "", '{"a": "b"}')


def test_a_listing_as_names() -> None:
    assert printed("name") == "llama-ft\nx\n"


def test_a_table_shows_units_and_unknown_and_aligns_numbers() -> None:
    assert printed("table").splitlines() == [
        "NAME      STATE         SIZE     AGE  EPOCH  LABEL",
        "llama-ft  protected  5.0 GiB  4m 12s      2  –",
        "x         lost             –      0s     11  b",
    ]
    assert "NODE" in printed("wide").splitlines()[0]


def test_colour_is_only_added_and_only_in_tables() -> None:
    coloured = printed("table", colour=True)
    assert "\x1b[34mprotected\x1b[0m" in coloured
    for code in ("\x1b[34m", "\x1b[1;31m", "\x1b[1m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == printed("table")
    assert printed("json", colour=True) == printed("json")


def test_an_empty_listing_is_still_a_document() -> None:
    for output, expected in (
        ("json", '{\n  "schema": "reprieve/job-list/v1",\n  "items": []\n}\n'),
        ("ndjson", ""),
        ("name", ""),
        ("csv", ""),
        ("table", "NAME\n"),
        ("yaml", "schema: reprieve/job-list/v1\nitems: []\n"),
    ):
        stream = io.StringIO()
        Renderer(stream, output).listing("job", [], ("name",))
        assert stream.getvalue() == expected


def test_a_document_for_people_has_aligned_keys() -> None:
    stream = io.StringIO()
    Renderer(stream).document({"schema": "x", "a": None, "long_s": 3.0, "in": {"b": True}, "l": [{"c": 1}]})
    assert stream.getvalue().splitlines() == ["a       –", "long_s  3s", "in", "  b  yes", "l", "  c  1"]


def test_a_stream_prints_lines_only_where_lines_belong() -> None:
    for output, expected in (("ndjson", '{"a": 1}\n'), ("table", "one\n"), ("json", ""), ("yaml", "")):
        stream = io.StringIO()
        Renderer(stream, output).line({"a": 1}, "one")
        assert stream.getvalue() == expected


@pytest.mark.parametrize("output", ["json", "ndjson", "yaml"])
def test_no_number_that_is_none_reaches_a_document(output: str) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Renderer(io.StringIO(), output).document({"x": float("nan")})


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_every_terminal_can_take_every_text(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    Renderer(stream, "json").document({"name": "nœud-α \udcff"})
    Renderer(stream, "table").document({"name": "nœud-α"})
    lines = raw.getvalue().decode(encoding)
    assert json.loads(lines[: lines.index("}") + 1])["name"] == "nœud-α \udcff"


def test_cells_make_control_characters_visible() -> None:
    assert cell("x", "a\x1b[31m\nb") == "a\\x1b[31m\\x0ab"
    assert cell("x", ["a\x07"]) == "a\\x07"
    assert cell("x", {"k\x07": None}) == "k\\x07=–"


def test_wide_characters_keep_columns_straight() -> None:
    lines = grid(["A", "B"], [["日本", "1"], ["e\u0301", "2"]], right=[False, False])
    assert [width(line) for line in lines] == [7, 7, 7]
    assert lines[1].index("1") == len("日本  ")
    assert lines[2] == "e\u0301     2"


@given(_PLAIN)
def test_yaml_reads_back_equal(value: Any) -> None:
    text = to_yaml(value)
    assert read_yaml(text) == value


@given(st.lists(st.dictionaries(st.text(min_size=1), st.text(), min_size=1), max_size=4))
def test_csv_reads_back_equal(rows: list[dict[str, str]]) -> None:
    text = to_csv(rows)
    names = list(dict.fromkeys(key for row in rows for key in row))
    parsed = list(csv.reader(io.StringIO(text, newline="")))
    if not names:
        assert text == ""
        return
    assert parsed[0] == names
    assert parsed[1:] == [[row.get(name, "") for name in names] for row in rows]


def test_words_that_yaml_readers_misunderstand_are_quoted() -> None:
    for word in (
        "no",
        "on",
        "0123",
        "1_000",
        "12:30:45",
        "2026-11-30",
        "~",
        "null",
        "5319E7",
        "",
        " a",
        "a: b",
        "- a",
    ):
        assert to_yaml({"k": word}) == f'k: "{word}"\n'
    assert to_yaml({"k": "plain words"}) == "k: plain words\n"
    assert to_yaml({"k": 1e20}) == "k: 1.0e+20\n"


def read_yaml(text: str) -> Any:
    """A reader of exactly the subset that we write, independent of the writer."""
    lines = text.removesuffix("\n").split("\n")
    value, left = _block(lines, 0)
    assert left == len(lines)
    return value


def _block(lines: list[str], at: int) -> tuple[Any, int]:
    indent = len(lines[at]) - len(lines[at].lstrip(" "))
    first = lines[at][indent:]
    if first.startswith("- "):
        items = []
        while at < len(lines) and lines[at].startswith(" " * indent + "- "):
            lines[at] = " " * indent + "  " + lines[at][indent + 2 :]
            item, at = _block(lines, at)
            items.append(item)
        return items, at
    key, rest = _key(first)
    if key is None:
        return _scalar(first), at + 1
    table: dict[str, Any] = {}
    while at < len(lines) and len(lines[at]) - len(lines[at].lstrip(" ")) == indent:
        key, rest = _key(lines[at][indent:])
        assert key is not None
        if rest:
            table[key], at = _scalar(rest), at + 1
        else:
            table[key], at = _block(lines, at + 1)
    return table, at


def _key(line: str) -> tuple[str | None, str]:
    if line.startswith('"'):
        key, end = json.JSONDecoder().raw_decode(line)
        return (key, line[end + 1 :].strip()) if line[end : end + 1] == ":" else (None, "")
    head, colon, rest = line.partition(":")
    return (head, rest.strip()) if colon and (not rest or rest.startswith(" ")) else (None, "")


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_a_dash_stays_one_column_wide_where_it_cannot_be_written() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="latin-1")
    Renderer(stream, "table").document({"a": None, "b": "x → y…"})
    assert raw.getvalue().decode("latin-1").split() == ["a", "-", "b", "x", ">", "y~"]
