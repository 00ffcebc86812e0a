"""Batch files are read strictly and nothing in them is altered (also RC-33's rule for these forms)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import UsageError
from console.operations.decide.batch import BatchItem, exit_code, order, read_items

TWO = [BatchItem("a", "1.3", "gpu-b", ("kernel",)), BatchItem("0123")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "x.toml",
            '[[items]]\njob = "a"\ncheckpoint = "1.3"\nto = "gpu-b"\nforce = ["kernel"]\n[[items]]\njob = "0123"\n',
        ),
        (
            "x.json",
            '{"items": [{"job": "a", "checkpoint": "1.3", "to": "gpu-b", "force": ["kernel"]}, {"job": "0123"}]}',
        ),
        (
            "x.json",
            '[{"job": "a", "checkpoint": "1.3", "to": "gpu-b", "force": ["kernel"]}, {"job": "0123"}]',
        ),
        (
            "x.ndjson",
            '{"job": "a", "checkpoint": "1.3", "to": "gpu-b", "force": ["kernel"]}\n\n{"job": "0123"}\n',
        ),
        ("x.csv", "job,checkpoint,to,force\na,1.3,gpu-b,kernel\n0123,latest,any,\n"),
        ("-", "job,checkpoint,to,force\r\na,1.3,gpu-b,kernel\r\n0123,,,\r\n"),
        ("-", '{"job": "a", "checkpoint": "1.3", "to": "gpu-b", "force": ["kernel"]}\n{"job": "0123"}'),
        (
            "-",
            '[[items]]\njob = "a"\ncheckpoint = "1.3"\nto = "gpu-b"\nforce = ["kernel"]\n[[items]]\njob = "0123"\n',
        ),
        (
            "-",
            '{"items": [{"job": "a", "checkpoint": "1.3", "to": "gpu-b", "force": ["kernel"]}, {"job": "0123"}]}',
        ),
    ],
)
def test_every_form_reads_alike(name: str, text: str) -> None:
    assert read_items(text.encode(), name) == TWO


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.json", '{"items": [{"job": "a", "job": "b"}]}', "twice"),
        ("x.json", '{"items": [{"job": 7}]}', "must be text"),
        ("x.json", '{"items": [{"jobb": "a"}]}', "jobb"),
        ("x.json", '{"items": [{"to": "a"}]}', "missing"),
        ("x.json", '{"items": [], "x": 1}', "nothing else"),
        ("x.json", "{", "JSON"),
        ("x.json", '{"items": [{"job": "a"}, {"job": "a"}]}', "occurs twice"),
        ("x.json", '{"items": [{"job": "a", "checkpoint": "1"}]}', "checkpoint id"),
        ("x.json", '{"items": [{"job": "../a"}]}', "not allowed"),
        ("x.json", '{"items": [{"job": "a", "force": "kernel"}]}', "list"),
        ("x.toml", "[[items]]\njob = 1_0\n", "must be text"),
        ("x.toml", '[[items]]\njob = "a"\njob = "b"\n', "x.toml"),
        ("x.csv", "job,job\na,b\n", "twice"),
        ("x.csv", "job,to\na\n", "line 2"),
        ("x.csv", "job\n", "no items"),
        ("x.ndjson", '{"job": "a"}\n[1]\n', "line 2"),
    ],
)
def test_odd_files_are_refused_by_name(name: str, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_items(text.encode(), name)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


@given(st.binary(max_size=200), st.sampled_from(["x.toml", "x.json", "x.csv", "x.ndjson", "-"]))
def test_any_bytes_are_items_or_one_plain_line(data: bytes, name: str) -> None:
    try:
        items = read_items(data, name)
    except UsageError as error:
        assert "\n" not in error.message
        return
    assert items


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True))
def test_names_come_through_unaltered(names: list[str]) -> None:
    rows = [{"job": name} for name in names]
    assert [item.job for item in read_items(json.dumps(rows).encode(), "x.json")] == names
    assert [item.job for item in read_items(("job\n" + "\n".join(names)).encode(), "x.csv")] == names


def test_order_and_exit_codes() -> None:
    assert order([("a", 0), ("b", 5), ("c", 5), ("d", 1)]) == [1, 2, 3, 0]
    assert exit_code(["restored", "already_restored"]) == 0
    assert exit_code(["restored", "failed"]) == 3
    assert exit_code(["failed", "cancelled"]) == 1
    assert exit_code(["refused", "refused"]) == 10
    assert exit_code([]) == 0
