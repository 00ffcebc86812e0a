"""Packs of sealed frames: filling them from streams, reading them back, opening single frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from backends.errors import DamagedError, NotFoundError, StoreError
from backends.ids import CheckpointId
from backends.records.manifest import PackEntry
from backends.store import layout
from backends.store.beside import WORTH, Beside, DigestBeside, Task
from backends.store.format.codec import Encoder, decode
from backends.store.format.index import Frame, Index, PackRef
from backends.store.layout import PackArea
from backends.store.port import ObjectStore
from backends.store.sealing import Buffer, DataKey, JobKey

FRAME_BYTES = 4 << 20  # plaintext of a full frame
PACK_BYTES = 64 << 20  # a pack is closed once it holds this much
READ_BYTES = 4 << 20
KEPT_FRAMES = 4  # opened frames that a reader keeps
FRAMES_AHEAD = 2  # frames that are sealed while another is written


class _Sealed(NamedTuple):
    """A frame as it goes into a pack."""

    number: int
    plain: int  # bytes before it was encoded
    head: bytes
    body: bytes


class PackWriter:
    """Seals pieces as frames and puts them into pack after pack; memory is a few frames, whatever the size.

    Frames are encoded and sealed beside the making and the writing of others; the store sees them in order.
    """

    def __init__(
        self,
        store: ObjectStore,
        job_key: JobKey,
        data_key: DataKey,
        first: dict[PackArea, int],
        start: int = 0,
        written: Callable[[PackEntry], None] = lambda entry: None,
    ) -> None:
        """`first` is the number of the next pack in each area: leftovers of a failed attempt keep theirs.

        Frames are numbered from `start`; no number may ever occur twice under one data key. `written` is told of each
        pack that the store has taken.
        """
        self.frames: list[Frame] = []
        self.packs: list[PackEntry] = []
        self.taken = 0  # pieces so far: the place of the next one's frame
        self._store = store
        self._job_key = job_key
        self._data_key = data_key
        self._next = dict(first)
        self._encoder = Encoder()
        self._start = start
        self._written = written

    @property
    def refs(self) -> tuple[PackRef, ...]:
        """The packs so far, as an index names them."""
        return tuple(PackRef(entry.name, entry.size) for entry in self.packs)

    def write(self, area: PackArea, pieces: Iterator[Buffer]) -> None:
        """Put every piece as one frame; frames are numbered in the order of the pieces, over all areas."""
        with Beside("seal") as sealing, Beside("pack digest") as digesting:
            queue = _Queue(self._sealed(pieces, sealing))
            while queue.head is not None:
                self._fill(area, queue, DigestBeside(self._job_key.hasher(), digesting))

    def _fill(self, area: PackArea, queue: _Queue, digest: DigestBeside) -> None:
        """Make one pack from the head of the queue."""
        number = self._next[area]
        self._next[area] += 1
        identity = self._data_key.checkpoint
        key = layout.pack(self._data_key.uid, area, identity, number)
        size = self._store.create(key, self._body(queue, digest))
        self.packs.append(PackEntry(f"{area}/{identity}/{number}", size, digest.hexdigest()))
        self._written(self.packs[-1])

    def _body(self, queue: _Queue, digest: DigestBeside) -> Iterator[bytes]:
        offset = 0
        while queue.head is not None and offset < PACK_BYTES:
            frame = queue.head
            length = len(frame.head) + len(frame.body)
            self.frames.append(Frame(len(self.packs), offset, length, frame.number, frame.plain))
            offset += length
            for part in (frame.head, frame.body):
                digest.update(part)
                yield part
            queue.advance()

    def _sealed(self, pieces: Iterator[Buffer], sealing: Beside) -> Iterator[_Sealed]:
        """The frames of the pieces, in order; a few are under way at a time."""
        under_way: deque[Task[_Sealed]] = deque()
        for piece in pieces:
            number = self._start + self.taken
            self.taken += 1
            if len(piece) < WORTH and not under_way:
                yield self._seal(number, piece)
                continue
            under_way.append(sealing.call(partial(self._seal, number, piece)))
            if len(under_way) > FRAMES_AHEAD:
                yield under_way.popleft().wait()
        while under_way:
            yield under_way.popleft().wait()

    def _seal(self, number: int, piece: Buffer) -> _Sealed:
        codec, encoded = self._encoder.encode(piece)
        return _Sealed(number, len(piece), *self._data_key.seal(number, encoded, codec))


class _Queue:
    """Frames of which the next one can be looked at."""

    def __init__(self, frames: Iterator[_Sealed]) -> None:
        self._frames = frames
        self.head = next(frames, None)

    def advance(self) -> None:
        self.head = next(self._frames, None)


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


def check_pack(
    store: ObjectStore, uid: str, entry: PackEntry, key: JobKey, ended: Callable[[], bool] = lambda: False
) -> None:
    """Read a pack as stored and compare size and digest; DamagedError naming the object otherwise.

    Once `ended` says so, nobody asks for the answer any more, and there is none: StoreError.
    """
    name = layout.job(uid, *entry.name.split("/"))
    hasher = key.hasher()
    try:
        found = store.info(name)
        if found is None or found.size != entry.size:
            size = "missing" if found is None else f"{found.size} bytes"
            raise DamagedError(f"{name}: {size}, the manifest says {entry.size} bytes")
        for offset in range(0, entry.size, READ_BYTES):
            if ended():
                raise StoreError(f"{name}: reading it back was given up")
            hasher.update(store.read_range(name, offset, min(READ_BYTES, entry.size - offset)))
    except NotFoundError:
        raise DamagedError(f"{name}: missing, the manifest says {entry.size} bytes") from None
    if hasher.hexdigest() != entry.digest:
        raise DamagedError(f"{name}: the bytes stored are not those that were written (digest differs)")


class ReadBack:
    """Reads packs back from the store while the next ones are made. Small ones are left for the end."""

    def __init__(self, store: ObjectStore, uid: str, key: JobKey, reading: Beside) -> None:
        self._store = store
        self._uid = uid
        self._key = key
        self._reading = reading
        self._under_way: list[tuple[str, Task[None]]] = []

    def begin(self, entry: PackEntry) -> None:
        """The store has taken this pack."""
        if entry.size >= READ_BYTES:
            task = self._reading.call(
                lambda: check_pack(self._store, self._uid, entry, self._key, lambda: self._reading.ended)
            )
            self._under_way.append((entry.name, task))

    def wait(self) -> frozenset[str]:
        """The names of the packs that were read back; raises what `check_pack` raised for any of them."""
        for _, task in self._under_way:
            task.wait()
        return frozenset(name for name, _ in self._under_way)


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
        self._under_way: dict[int, Task[bytes]] = {}

    def plain(self, place: int) -> bytes:
        """Plaintext of the frame at `place` of the index's table; DamagedError naming pack and reason."""
        plain = self._kept.pop(place, None)
        if plain is None:
            task = self._under_way.pop(place, None)
            plain = self._open(place) if task is None else task.wait()
            if len(self._kept) >= KEPT_FRAMES:
                del self._kept[next(iter(self._kept))]
        self._kept[place] = plain
        return plain

    def ahead(self, places: Iterator[int], opening: Beside) -> None:
        """Open frames that will be asked for, in the order of `places`, until enough are under way."""
        while len(self._under_way) < FRAMES_AHEAD:
            place = next(places, None)
            if place is None:
                return
            if place not in self._kept and place not in self._under_way:
                self._under_way[place] = opening.call(partial(self._open, place))

    def forget(self) -> None:
        """What was opened ahead is not wanted any more."""
        self._under_way.clear()

    def _open(self, place: int) -> bytes:
        frame = self._index.frames[place]
        pack = self._index.packs[frame.pack]
        return open_frame(self._store, self._index.uid, pack.name, frame, self._keys)


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
