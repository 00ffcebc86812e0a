"""The filter line: what each form means, and that no line can raise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.tui.model import filters

COLUMNS = ("job", "state", "risk", "size", "node")
ROW: dict[str, str | float | None] = {
    "job": "llama-ft",
    "state": "protected",
    "risk": 252.0,
    "size": float(3 << 30),
    "node": None,
}
HAYSTACK = "llama-ft\nprotected\n● protected\ngpu-a"


def matches(line: str) -> bool:
    return filters.parse(line, COLUMNS).matches(HAYSTACK, lambda name: ROW[name])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", True), ("llama", True), ("LLAMA", True), ("!llama", False), ("gpu-a ft", True), ("gpu-a zzz", False),
        ("~lmft", True), ("~tfml", False), ("!~tfml", True),
        ("state=protected", True), ("state=unprotected", False), ("state!=protected", False), ("state=prot*", True),
        ("state=PROTECTED", True), ("risk>4m", True), ("risk>4.2m", False), ("risk<5m", True), ("risk>=252", True),
        ("risk<=251s", False), ("risk=252", True), ("size>2GiB", True), ("size>3GiB", False), ("size>3GB", True),
        ("node=–", True), ("node=gpu-a", False), ("node!=gpu-a", True), ("node>1", False), ("job>5", False),
        ("!", True), ("state=", True),
    ],
)  # fmt: skip
def test_forms(line: str, expected: bool) -> None:
    assert matches(line) is expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("owner=ml", "no column 'owner'"),
        ("risk>soon", "needs a number"),
        ("risk>10m owner=1", "no column 'owner'"),
    ],
)
def test_what_is_not_understood_is_told_and_left_out(line: str, words: str) -> None:
    found = filters.parse(line, COLUMNS)
    assert words in found.error
    assert found.matches(HAYSTACK, lambda name: 1e9)


@pytest.mark.parametrize(
    ("text", "value"),
    [("10m", 600.0), ("1.5h", 5400.0), ("80%", 0.8), ("2GiB", 2.0**31), ("-3", -3.0), ("", None), ("m", None), ("1e9", None), ("10 m", None), ("1parsec", None)],
)  # fmt: skip
def test_quantities(text: str, value: float | None) -> None:
    assert filters.quantity(text) == value


@given(st.text(max_size=40))
def test_no_line_raises(line: str) -> None:
    assert matches(line) in (True, False)


@given(st.text(alphabet=" ![]=<>~%*?.:risk0123456789mGiBstateé\x1b", max_size=30))
def test_no_nearly_right_line_raises(line: str) -> None:
    assert matches(line) in (True, False)
