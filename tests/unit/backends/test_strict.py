"""Strict JSON: what is read, what is refused, and that every text is one or the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import DamagedError
from backends.records import strict


@dataclass(frozen=True)
class Inner:
    size: int
    word: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner
    many: tuple[Inner, ...] = ()
    table: dict[str, float] = field(default_factory=dict)
    maybe: int | None = None


def test_a_record_survives_the_round_trip() -> None:
    record = Outer("x", Inner(3), (Inner(1, "b"),), {"y": 1.5}, None)
    document = strict.loads(strict.canonical(strict.to_document(record)), what="test")
    assert strict.read(Outer, document, what="test") == record


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}', '{"a":NaN}', '{"a":Infinity}', '{"a":99999999999999999999}', "[1]", "", "{", '{"a":1}}', "nul",
        "[" * 100, '{"a":' * 40 + "1" + "}" * 40,
    ],
)  # fmt: skip
def test_odd_json_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(DamagedError) as caught:
        strict.loads(text, what="the test")
    assert "\n" not in caught.value.message
    assert "the test" in caught.value.message


def test_brackets_inside_strings_are_text() -> None:
    assert strict.loads('{"a":"' + "[" * 100 + '\\"{{"}', what="t")["a"].endswith('"{{')


def test_too_many_bytes_are_not_parsed() -> None:
    with pytest.raises(DamagedError):
        strict.loads(b'{"a":"' + b"x" * 100 + b'"}', what="t", limit=50)


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({"name": 1, "inner": {"size": 1}}, "t.name"),
        ({"name": "x", "inner": {"size": True}}, "t.inner.size"),
        ({"name": "x", "inner": {"size": 1, "word": "c"}}, "t.inner.word"),
        ({"name": "x", "inner": {"size": 1}, "many": [{"size": "1"}]}, "t.many[0].size"),
        ({"name": "x", "inner": {"size": 1}, "table": {"k": "v"}}, "t.table.k"),
        ({"name": "x"}, "'inner' is missing"),
        ({"name": "x", "inner": {"size": 1}, "other": 1}, "'other'"),
    ],
)
def test_a_wrong_field_is_named(document: dict[str, Any], where: str) -> None:
    with pytest.raises(DamagedError) as caught:
        strict.read(Outer, document, what="t")
    assert where in caught.value.message


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_input_is_read_or_refused(data: str | bytes) -> None:
    try:
        assert isinstance(strict.loads(data, what="fuzz"), dict)
    except DamagedError as error:
        assert "\n" not in error.message
