"""The manifest of a checkpoint (format 1): what was saved, by what, when, and where its bytes lie.

Written last and created if absent: a checkpoint exists when its manifest does. It holds no environment and no
command line. `mac` authenticates all the rest; `backends.store.manifests` makes and checks it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from backends.clean import clean
from backends.errors import UsageError
from backends.ids import CheckpointId, check_uid

FORMAT = 1
PATH_LIMIT = 1024  # bytes of a stream's name
COMPONENT_LIMIT = 255

_HEX32 = re.compile(r"[0-9a-f]{64}\Z")
_PACK = re.compile(r"(packs|files)/[1-9][0-9]{0,8}\.[1-9][0-9]{0,8}/(0|[1-9][0-9]{0,8})\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True)
class FileEntry:
    """A captured file: it travels with the checkpoint and is rolled back at restore."""

    path: str  # absolute, as the job sees it
    size: int  # bytes at the freeze
    mode: int  # permission bits; never setuid, setgid or sticky
    uid: int
    gid: int
    copy: str  # name of the captured content under the save's `files/`
    origin: Literal["open", "declared"]
    digest: str  # keyed BLAKE3-256 of the content, hex

    def __post_init__(self) -> None:
        check_stream_name(self.copy)
        _digest("file", self.digest)
        if not self.path.startswith("/") or "\0" in self.path or len(self.path) > 4096:
            raise ValueError(f"file path {clean(self.path, limit=80)!r} is not an absolute path")
        if self.size < 0 or self.uid < 0 or self.gid < 0:
            raise ValueError("a file's size, uid and gid are 0 or more")
        if self.mode & ~0o777 or self.mode < 0:
            raise ValueError(f"file mode {self.mode:o} has more than permission bits")


@dataclass(frozen=True)
class PackEntry:
    """A pack of this save."""

    name: str  # packs/<e>.<s>/<k> or files/<e>.<s>/<k>, relative to the job's prefix
    size: int  # bytes as stored
    digest: str  # keyed BLAKE3-256 of the stored bytes, hex

    def __post_init__(self) -> None:
        _digest("pack", self.digest)
        if not _PACK.match(self.name):
            raise ValueError(f"pack name {clean(self.name, limit=80)!r} is not one")
        if self.size < 0:
            raise ValueError("a pack's size is 0 or more")


@dataclass(frozen=True)
class IndexFrame:
    """Where one frame of the extent index lies."""

    pack: str
    offset: int  # bytes
    length: int  # sealed bytes
    number: int  # frame number inside the save
    plain: int  # plaintext bytes

    def __post_init__(self) -> None:
        if not _PACK.match(self.pack) or min(self.offset, self.length, self.number, self.plain) < 0:
            raise ValueError("an index frame names no pack or has a negative figure")


@dataclass(frozen=True)
class Timings:
    """When and how long; wall times are the node's, durations by its monotonic clock."""

    frozen_at: str  # RFC 3339: the freeze instant, from which lost work counts
    frozen_s: float  # how long the job stood still
    dump_s: float  # the engine's whole run
    pack_s: float  # hashing, sealing and upload
    clock_offset_s: float | None  # node's wall clock minus the controller's, as last measured; None: unknown


@dataclass(frozen=True)
class Manifest:
    """One checkpoint."""

    format: int
    job_uid: str
    epoch: int
    seq: int
    nonce: str  # tells our own manifest from another's after a time-out
    parent: str | None  # the committed checkpoint whose packs are used too; None: a full save
    engine: str
    versions: dict[str, str]  # engine and tool versions
    runtime: dict[str, str]  # declared versions of engine and model
    fingerprint: dict[str, Any]  # arch, CPU features, kernel, GPUs, driver …
    processes: tuple[dict[str, Any], ...]  # pids, tids, names; command redacted
    details: dict[str, Any]  # what the engine needs again at restore
    files: tuple[FileEntry, ...]
    image_bytes: int  # plaintext bytes of the engine's images
    file_bytes: int  # plaintext bytes of captured files
    content: str  # keyed digest over all streams' names, sizes and digests
    packs: tuple[PackEntry, ...]  # this save's own
    index: tuple[IndexFrame, ...]
    index_digest: str  # keyed BLAKE3-256 of the index
    keys: dict[str, str]  # checkpoint → its data key wrapped by the job key; this save and its parent
    timings: Timings
    notes: dict[str, Any] = field(
        default_factory=dict
    )  # for later versions: readers may ignore what they hold

    def __post_init__(self) -> None:
        try:
            check_uid(self.job_uid)
            parent = None if self.parent is None else CheckpointId.parse(self.parent)
        except UsageError as error:
            raise ValueError(str(error)) from None
        if self.format != FORMAT:
            raise ValueError(f"format {self.format} is not {FORMAT}")
        if not (1 <= self.epoch <= 999_999_999 and 1 <= self.seq <= 999_999_999):
            raise ValueError(f"epoch {self.epoch} and seq {self.seq} are between 1 and 999999999")
        if parent is not None and not parent < self.id:
            raise ValueError(f"parent {self.parent} is not before {self.id}")
        if set(self.keys) != {str(self.id)} | ({self.parent} if self.parent else set()):
            raise ValueError("data keys are those of this save and its parent")
        if any(entry.name.split("/")[1] != str(self.id) for entry in self.packs):
            raise ValueError("a pack of another save is listed as this one's own")
        _digest("content", self.content)
        _digest("index", self.index_digest)
        check_distinct([entry.copy for entry in self.files])

    @property
    def id(self) -> CheckpointId:
        """The checkpoint's id."""
        return CheckpointId(self.epoch, self.seq)

    @property
    def size_bytes(self) -> int:
        """Image and captured files, before sealing."""
        return self.image_bytes + self.file_bytes


def check_stream_name(name: str) -> str:
    """Return `name` when it is a plain relative path; ValueError for traversal, odd characters or length."""
    parts = name.split("/")
    if (
        any(
            part in ("", ".", "..") or len(part.encode("utf-8", "replace")) > COMPONENT_LIMIT
            for part in parts
        )
        or _CONTROL.search(name)
        or len(name.encode("utf-8", "replace")) > PATH_LIMIT
        or name != name.encode("utf-8", "replace").decode("utf-8")
    ):
        raise ValueError(f"name {clean(name, limit=80)!r} is not a plain relative path")
    return name


def check_distinct(names: list[str]) -> None:
    """ValueError when two names are equal, equal but for case, or one is a directory of another."""
    folded = [name.casefold() for name in names]
    taken = set(folded)
    if len(taken) != len(folded):
        raise ValueError("two streams have the same name, or names that differ in case only")
    for name in folded:
        above = name.rpartition("/")[0]
        while above:
            if above in taken:
                raise ValueError(f"name {clean(above, limit=80)!r} is both a file and a directory")
            above = above.rpartition("/")[0]


def _digest(what: str, value: str) -> None:
    if not _HEX32.match(value):
        raise ValueError(f"{what} digest is not 64 hex digits")
