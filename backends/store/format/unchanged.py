"""Files without pages that did not change since the parent: found again by a sample, then by the whole digest.

A sample of a file is enough to see that it changed, as it mostly did, without reading it twice. Only the digest of all
its bytes says that it did not.
"""

from __future__ import annotations

from collections.abc import Callable

from backends.store.fileops import FileOps
from backends.store.format.base import Base
from backends.store.format.extents import ZERO, PackedExtents, pack_extents
from backends.store.format.index import Stream
from backends.store.format.packs import FRAME_BYTES
from backends.store.sealing import JobKey

REFER_BYTES = 64 << 10  # smaller files are stored again: they are not worth a parent
_PIECES, _PIECE = 16, 4096  # of a sample


def sample(ops: FileOps, handle: int, size: int, key: JobKey) -> str:
    """Keyed digest of the size and of a few pieces spread over the file, hex."""
    hasher = key.hasher().update(size.to_bytes(8, "little"))
    for number in range(_PIECES):
        hasher.update(ops.read(handle, _PIECE, (size - _PIECE) * number // (_PIECES - 1)))
    return str(hasher.hexdigest())


def find(base: Base, ops: FileOps, handle: int, size: int, key: JobKey) -> Stream | None:
    """The base's stream with the same bytes as this file of at least REFER_BYTES; None when it has none."""
    samples = base.table.samples
    alike = [s for s in base.index.streams if s.map is None and s.size == size and s.digest in samples]
    if not alike:
        return None
    mine = sample(ops, handle, size, key)
    alike = [stream for stream in alike if samples[stream.digest] == mine]
    if not alike:
        return None
    hasher = key.hasher()
    for at in range(0, size, FRAME_BYTES):
        hasher.update(ops.read(handle, min(FRAME_BYTES, size - at), at))
    digest = hasher.hexdigest()
    return next((stream for stream in alike if stream.digest == digest), None)


def referring(stream: Stream, parent: Callable[[int], int]) -> PackedExtents:
    """The base's extents of it; `parent` gives a frame of the base its place in this save's table."""
    return PackedExtents(
        pack_extents(
            extent if extent.frame == ZERO else extent._replace(frame=parent(extent.frame))
            for extent in stream.extents
        )
    )
