"""Packs of sealed frames: filling them from streams, reading them back, opening single frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blake3 import blake3

from backends.errors import DamagedError, NotFoundError
from backends.ids import CheckpointId
from backends.records.manifest import PackEntry
from backends.store import layout
from backends.store.format.codec import Encoder, decode
from backends.store.format.index import Frame, Index, PackRef
from backends.store.layout import PackArea
from backends.store.port import ObjectStore
from backends.store.sealing import Buffer, DataKey, JobKey

FRAME_BYTES = 4 << 20  # plaintext of a full frame
PACK_BYTES = 64 << 20  # a pack is closed once it holds this much
READ_BYTES = 4 << 20
KEPT_FRAMES = 4  # opened frames that a reader keeps


class PackWriter:
    """Seals pieces as frames and puts them into pack after pack; memory is a few frames, whatever the size."""

    def __init__(
        self,
        store: ObjectStore,
        job_key: JobKey,
        data_key: DataKey,
        first: dict[PackArea, int],
        start: int = 0,
    ) -> None:
        """`first` is the number of the next pack in each area: leftovers of a failed attempt keep theirs.

        Frames are numbered from `start`; no number may ever occur twice under one data key.
        """
        self.frames: list[Frame] = []
        self.packs: list[PackEntry] = []
        self._store = store
        self._job_key = job_key
        self._data_key = data_key
        self._next = dict(first)
        self._encoder = Encoder()
        self._start = start

    @property
    def refs(self) -> tuple[PackRef, ...]:
        """The packs so far, as an index names them."""
        return tuple(PackRef(entry.name, entry.size) for entry in self.packs)

    def write(self, area: PackArea, pieces: Iterator[Buffer]) -> None:
        """Put every piece as one frame; frames are numbered in the order of the pieces, over all areas."""
        queue = _Queue(pieces)
        while queue.head is not None:
            self._fill(area, queue)

    def _fill(self, area: PackArea, queue: _Queue) -> None:
        """Make one pack from the head of the queue."""
        number = self._next[area]
        self._next[area] += 1
        hasher = self._job_key.hasher()
        identity = self._data_key.checkpoint
        key = layout.pack(self._data_key.uid, area, identity, number)
        size = self._store.create(key, self._body(queue, hasher))
        self.packs.append(PackEntry(f"{area}/{identity}/{number}", size, hasher.hexdigest()))

    def _body(self, queue: _Queue, hasher: blake3) -> Iterator[bytes]:
        offset = 0
        while queue.head is not None and offset < PACK_BYTES:
            number = self._start + len(self.frames)
            codec, encoded = self._encoder.encode(queue.head)
            head, sealed = self._data_key.seal(number, encoded, codec)
            length = len(head) + len(sealed)
            self.frames.append(Frame(len(self.packs), offset, length, number, len(queue.head)))
            offset += length
            for part in (head, sealed):
                hasher.update(part)
                yield part
            queue.advance()


class _Queue:
    """An iterator whose next piece can be looked at."""

    def __init__(self, pieces: Iterator[Buffer]) -> None:
        self._pieces = pieces
        self.head = next(pieces, None)

    def advance(self) -> None:
        self.head = next(self._pieces, None)


def first_packs(store: ObjectStore, uid: str, identity: CheckpointId) -> dict[PackArea, int]:
    """The next free pack number of a save in each area: leftovers of a failed attempt are never overwritten."""
    return {
        "packs": _first_pack(store, uid, "packs", identity),
        "files": _first_pack(store, uid, "files", identity),
    }


def _first_pack(store: ObjectStore, uid: str, area: PackArea, identity: CheckpointId) -> int:
    prefix = layout.job(uid, area, str(identity), "")
    names = [f"{area}/{identity}/{info.key[len(prefix) :]}" for info in store.list(prefix)]
    taken = [parsed[2] for name in names if (parsed := layout.parse_pack(name)) is not None]
    return max(taken, default=-1) + 1


def check_pack(store: ObjectStore, uid: str, entry: PackEntry, key: JobKey) -> None:
    """Read a pack as stored and compare size and digest; DamagedError naming the object otherwise."""
    name = layout.job(uid, *entry.name.split("/"))
    hasher = key.hasher()
    try:
        found = store.info(name)
        if found is None or found.size != entry.size:
            size = "missing" if found is None else f"{found.size} bytes"
            raise DamagedError(f"{name}: {size}, the manifest says {entry.size} bytes")
        for offset in range(0, entry.size, READ_BYTES):
            hasher.update(store.read_range(name, offset, min(READ_BYTES, entry.size - offset)))
    except NotFoundError:
        raise DamagedError(f"{name}: missing, the manifest says {entry.size} bytes") from None
    if hasher.hexdigest() != entry.digest:
        raise DamagedError(f"{name}: the bytes stored are not those that were written (digest differs)")


def check_present(store: ObjectStore, uid: str, packs: Iterable[PackRef]) -> None:
    """DamagedError naming the first of these packs that is missing or has another size. Nothing is read."""
    for pack in packs:
        name = layout.job(uid, *pack.name.split("/"))
        found = store.info(name)
        if found is None or found.size != pack.size:
            size = "missing" if found is None else f"{found.size} bytes"
            raise DamagedError(f"{name}: {size}, {pack.size} bytes expected")


class FrameReader:
    """Opens frames of one index; keeps a few, since extents go to and fro between a save's frames and its parent's."""

    def __init__(self, store: ObjectStore, index: Index, keys: dict[CheckpointId, DataKey]) -> None:
        self._store = store
        self._index = index
        self._keys = keys
        self._kept: dict[int, bytes] = {}  # the last used at the end

    def plain(self, place: int) -> bytes:
        """Plaintext of the frame at `place` of the index's table; DamagedError naming pack and reason."""
        plain = self._kept.pop(place, None)
        if plain is None:
            frame = self._index.frames[place]
            pack = self._index.packs[frame.pack]
            plain = open_frame(self._store, self._index.uid, pack.name, frame, self._keys)
            if len(self._kept) >= KEPT_FRAMES:
                del self._kept[next(iter(self._kept))]
        self._kept[place] = plain
        return plain


def open_frame(
    store: ObjectStore, uid: str, pack: str, frame: Frame, keys: dict[CheckpointId, DataKey]
) -> bytes:
    """Read and open one frame of a pack."""
    name = layout.job(uid, *pack.split("/"))
    owner = layout.parse_pack(pack)
    if owner is None or owner[1] not in keys:
        raise DamagedError(f"{name}: the manifest holds no data key for this pack")
    try:
        sealed = store.read_range(name, frame.offset, frame.length)
        codec, data = keys[owner[1]].open(frame.number, sealed)
        plain = decode(codec, data, frame.plain, f"frame {frame.number} of checkpoint {owner[1]}")
    except NotFoundError:
        raise DamagedError(f"{name}: missing, although a committed checkpoint needs it") from None
    except DamagedError as error:
        raise DamagedError(error.message if name in error.message else f"{name}: {error.message}") from None
    if len(plain) != frame.plain:
        raise DamagedError(
            f"{name}: frame {frame.number} holds {len(plain)} bytes, the index says {frame.plain}"
        )
    return plain
