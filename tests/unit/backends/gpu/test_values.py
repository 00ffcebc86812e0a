"""Whatever NVML answers: absurd values become unknown, never 0 and never a wonder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.gpu import values

GIB = 1 << 30
ANY = st.integers(-(2**64), 2**65)


@given(st.none() | ANY, st.none() | ANY, st.none() | ANY)
def test_memory_is_possible_or_unknown(total: int | None, free: int | None, used: int | None) -> None:
    whole, rest, taken = values.memory(total, free, used)
    assert whole is None or 0 < whole <= values.MEMORY_LIMIT
    for part in (rest, taken):
        assert part is None or 0 <= part <= (whole or values.MEMORY_LIMIT)


def test_memory_that_is_possible_is_kept() -> None:
    assert values.memory(80 * GIB, 79 * GIB, GIB) == (80 * GIB, 79 * GIB, GIB)
    assert values.memory(0, 0, 0) == (None, 0, 0), "a GPU without memory is none"
    assert values.memory(80 * GIB, 81 * GIB, None) == (80 * GIB, None, None)


@given(ANY)
def test_counters_and_shares(value: int) -> None:
    found = values.count(value, 200)
    assert found is None or (found == value and 0 <= value <= 200)
    part = values.share(value)
    assert part is None or 0.0 <= part <= 1.0


@pytest.mark.parametrize("value", [2**32 - 1, 2**64 - 1])
def test_all_ones_is_nvmls_way_to_say_unknown(value: int) -> None:
    assert values.count(value, 2**70) is None


@pytest.mark.parametrize(
    ("version", "text"), [(13000, "13.0"), (12080, "12.8"), (-1, None), (0, None), (None, None)]
)
def test_cuda_versions(version: int | None, text: str | None) -> None:
    assert values.cuda(version) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("GPU-00000000-0000-0000-0000-000000000001", True),
        ("MIG-GPU-aa/7/0-12345678", True),
        ("N/A", False),
        ("GPU-\x1b[2Jxxxxxxxxxxx", False),
        (None, False),
    ],
)
def test_uuids(text: str | None, kept: bool) -> None:
    assert values.uuid(text) == (text if kept else None)


def test_names_are_cleaned() -> None:
    assert values.name("NVIDIA\x1b[2J H100") == "NVIDIA\\x1b[2J H100"
    assert values.name("Unknown Error") is None
    assert values.name("  ") is None


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((1, 1, 4864), "1g.5gb"),
        ((3, 3, 19968), "3g.20gb"),
        ((7, 7, 81152), "7g.80gb"),
        ((3, 1, 40448), "1c.3g.40gb"),
        ((0, 1, 100), None),
        ((1, 1, 0), None),
        ((9, 9, 4864), None),
    ],
)
def test_profiles_as_nvidia_writes_them(shape: tuple[int, int, int], text: str | None) -> None:
    assert values.profile(*shape) == text


@given(st.integers(-5, 2000))
def test_every_code_has_one_line(code: int) -> None:
    line = values.explain(code)
    assert line
    assert "\n" not in line
