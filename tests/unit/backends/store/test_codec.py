"""Compression by a sample: what comes back is what went in, and it is used where it pays."""

from __future__ import annotations

import random

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import DamagedError
from backends.store.format.codec import CODEC_ZSTD, FAST, SMALL, Encoder, decode
from backends.store.sealing import CODEC_NONE

RANDOM = random.Random(1)
NOISE = RANDOM.randbytes(1 << 20)
FLOATS = np.random.default_rng(1).standard_normal(1 << 18, dtype=np.float32).tobytes()
WORDS = b" ".join(str(RANDOM.randrange(10**9)).encode() for _ in range(100_000))


@pytest.mark.parametrize(
    ("data", "level"),
    [(bytes(1 << 20), FAST), (WORDS, SMALL), (NOISE, None), (FLOATS, None), (bytes(100), None), (b"", None)],
    ids=["zeros", "digits", "noise", "floats", "tiny", "empty"],
)
def test_a_sample_chooses_the_level(data: bytes, level: int | None) -> None:
    encoder = Encoder()
    assert encoder.level(data) == level
    codec, packed = encoder.encode(data)
    assert codec == (CODEC_NONE if level is None else CODEC_ZSTD)
    assert len(packed) <= len(data)
    assert decode(codec, bytes(packed), len(data), "frame") == data


@given(st.binary(max_size=3000), st.integers(1, 40))
def test_every_frame_comes_back(data: bytes, times: int) -> None:
    plain = data * times
    codec, packed = Encoder().encode(memoryview(plain))
    assert decode(codec, bytes(packed), len(plain), "frame") == plain


def test_a_sample_that_misleads_costs_time_not_bytes() -> None:
    data = NOISE[: 1 << 19] + bytes(70_000) + NOISE[: 1 << 19]
    codec, packed = Encoder().encode(data)
    assert len(packed) <= len(data)
    assert decode(codec, bytes(packed), len(data), "frame") == data


BOMB = zstandard.ZstdCompressor().compress(bytes(1 << 24))


@pytest.mark.parametrize(
    ("codec", "data", "plain"),
    [
        (7, b"packed", 6),
        (CODEC_ZSTD, BOMB, 4096),
        (CODEC_ZSTD, BOMB[:-1], 1 << 24),
        (CODEC_ZSTD, b"", 0),
        (CODEC_ZSTD, b"no zstd at all", 14),
        (CODEC_ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 999), 999),
    ],
    ids=["unknown", "bomb", "cut", "empty", "foreign", "no size"],
)
def test_what_does_not_unpack_to_what_the_index_says_is_damage(codec: int, data: bytes, plain: int) -> None:
    with pytest.raises(DamagedError, match=r"frame 3: (codec 7 is unknown|it does not unpack)"):
        decode(codec, data, plain, "frame 3")
