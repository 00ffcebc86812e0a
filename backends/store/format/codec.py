"""Compression of frames before they are sealed: none, or zstd at a level that a sample of the frame chooses.

Memory is mostly either zeros and text, which the fast level -1 shrinks many times over, or numbers and ciphertext, which
nothing does: a sample of 64 KiB tells them apart for a hundredth of the time that the frame would take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.errors import DamagedError
from backends.store.sealing import CODEC_NONE, Buffer

if TYPE_CHECKING:
    from zstandard import ZstdCompressor

CODEC_ZSTD = 1
SAMPLE_BYTES = 64 << 10
SMALLEST = 256  # bytes; less is not worth a look
FAST, SMALL = -1, 1  # levels
FAST_BELOW = 0.5  # what the fast level brings below this share is not worth the slower one
SMALL_BELOW = 0.9  # a smaller gain costs more time than it saves on any link above 50 MB/s a core


class Encoder:
    """Encodes the frames of one save. Not for several threads at once."""

    def __init__(self) -> None:
        self._compressors: dict[int, ZstdCompressor] = {}

    def encode(self, plain: Buffer) -> tuple[int, Buffer]:
        """Codec and bytes to seal; the bytes as they are where that is not longer."""
        level = self.level(plain)
        if level is not None:
            packed = self._compress(plain, level)
            if len(packed) < len(plain):
                return CODEC_ZSTD, packed
        return CODEC_NONE, plain

    def level(self, plain: Buffer) -> int | None:
        """The level that a sample from the middle asks for; None: no compression."""
        if len(plain) < SMALLEST:
            return None
        begin = max(0, (len(plain) - SAMPLE_BYTES) // 2)
        sample = memoryview(plain)[begin : begin + SAMPLE_BYTES]
        if len(self._compress(sample, FAST)) <= FAST_BELOW * len(sample):
            return FAST
        return SMALL if len(self._compress(sample, SMALL)) <= SMALL_BELOW * len(sample) else None

    def _compress(self, data: Buffer, level: int) -> bytes:
        compressor = self._compressors.get(level)
        if compressor is None:
            import zstandard

            compressor = self._compressors[level] = zstandard.ZstdCompressor(
                level=level, write_checksum=False
            )
        return compressor.compress(data)


def decode(codec: int, data: bytes, plain_bytes: int, what: str) -> bytes:
    """The plaintext of an authenticated frame; `plain_bytes` is what the index says it holds.

    Raises:
        DamagedError: it is not what the codec makes of so many bytes, or the codec is unknown.
    """
    if codec == CODEC_NONE:
        return data
    if codec != CODEC_ZSTD:
        raise DamagedError(
            f"{what}: codec {codec} is unknown to this version; read it with the newer one that wrote it"
        )
    import zstandard

    try:
        # The frame's own word sizes the buffer, so it must be the index's before anything is unpacked.
        if zstandard.frame_content_size(data) == plain_bytes:
            return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError:
        pass
    raise DamagedError(f"{what}: it does not unpack to the {plain_bytes} bytes that the index says")
