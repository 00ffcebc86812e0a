"""Making, authenticating and reading manifests; listing a job's checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from backends.clean import clean
from backends.errors import DamagedError, IncompatibleError, NotFoundError
from backends.ids import CheckpointId
from backends.records import strict
from backends.records.manifest import FORMAT, Manifest
from backends.store import layout
from backends.store.port import ObjectInfo, ObjectStore
from backends.store.sealing import JobKey

MANIFEST_LIMIT = 64 << 20  # bytes; about 100,000 files and 1 TiB of packs fit in a third of it


class NewerFormatError(IncompatibleError):
    """A manifest made by a newer version: kept, never deleted, never guessed at."""


def seal_manifest(manifest: Manifest, key: JobKey) -> bytes:
    """The manifest as the bytes of its object: canonical JSON with `mac` over all the rest."""
    document = strict.to_document(manifest)
    document["mac"] = key.mac(strict.canonical(document))
    return strict.canonical(document)


def open_manifest(data: bytes, uid: str, identity: CheckpointId, key: JobKey) -> Manifest:
    """Authenticate, then read a manifest.

    Raises:
        NewerFormatError: made by a newer version.
        DamagedError: altered, of another job or checkpoint, or of a wrong shape.
    """
    return _read(_authenticate(data, uid, identity, key), uid, identity)


def _authenticate(data: bytes, uid: str, identity: CheckpointId, key: JobKey) -> dict[str, Any]:
    what = f"manifest of checkpoint {identity} of job {uid}"
    document = strict.loads(data, what=what, limit=MANIFEST_LIMIT)
    check_format(document, what)
    if not strict.is_canonical(data, document):
        raise DamagedError(f"{what}: not in canonical form: altered")
    mac = document.pop("mac", None)
    if not isinstance(mac, str) or not key.mac_matches(strict.canonical(document), mac):
        raise DamagedError(f"{what}: authentication failed: altered, or made with another job's key")
    return document


def _read(document: dict[str, Any], uid: str, identity: CheckpointId) -> Manifest:
    what = f"manifest of checkpoint {identity} of job {uid}"
    plain = {name: value for name, value in document.items() if not name.startswith("x_")}
    manifest = strict.read(Manifest, plain, what=what)
    if manifest.job_uid != uid:
        raise DamagedError(f"{what}: it says job {manifest.job_uid}")
    if manifest.id != identity:
        raise DamagedError(f"{what}: it says {manifest.id}")
    return manifest


def check_format(document: dict[str, Any], what: str) -> None:
    """Refuse a document whose format is not ours: NewerFormatError when it is newer, DamagedError when it is none."""
    found = document.get("format")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise DamagedError(f"{what}: format {clean(found, limit=40)!r} is no number of a format")
    if found > FORMAT:
        raise NewerFormatError(
            f"{what}: format {found}, this version reads {FORMAT}; it is kept and never deleted",
            hint="use the newer version of reprieve that made it",
        )


def load_manifest(
    store: ObjectStore, uid: str, identity: CheckpointId, key: JobKey, name: str = layout.MANIFEST
) -> Manifest:
    """Read and authenticate a checkpoint's manifest, or its full one by `name`; NotFoundError when there is none."""
    return open_manifest(store.read(layout.checkpoint(uid, identity, name)), uid, identity, key)


def load_full(store: ObjectStore, uid: str, manifest: Manifest, key: JobKey) -> Manifest | None:
    """The synthetic full of an incremental save; None when there is none that can be used."""
    try:
        full = load_manifest(store, uid, manifest.id, key, layout.FULL)
    except (DamagedError, IncompatibleError, NotFoundError):
        return None
    return full if full.parent is None and full.content == manifest.content else None


def manifest_mac(data: bytes) -> str:
    """The `mac` a manifest carries, unchecked; empty when it has none. Names the manifest in attestations."""
    try:
        mac = strict.loads(data, what="manifest", limit=MANIFEST_LIMIT).get("mac")
    except DamagedError:
        return ""
    return mac if isinstance(mac, str) else ""


@dataclass(frozen=True)
class Listing:
    """What lies under a job's prefix, as one pass of listings found it. Nothing is opened."""

    uid: str
    manifests: dict[CheckpointId, ObjectInfo] = field(default_factory=dict)
    attested: dict[CheckpointId, tuple[ObjectInfo, ...]] = field(
        default_factory=dict
    )  # verified, rehearsed, full
    data: dict[CheckpointId, tuple[ObjectInfo, ...]] = field(default_factory=dict)  # packs and captured files
    foreign: tuple[str, ...] = ()  # keys that are not ours: counted, never touched

    @property
    def checkpoints(self) -> list[CheckpointId]:
        """Checkpoints with a manifest, oldest first by (epoch, seq)."""
        return sorted(self.manifests)

    @property
    def incomplete(self) -> list[CheckpointId]:
        """Saves with data and no manifest: not restorable."""
        return sorted(set(self.data) - set(self.manifests))


def list_job(store: ObjectStore, uid: str) -> Listing:
    """List a job's checkpoints and data."""
    manifests: dict[CheckpointId, ObjectInfo] = {}
    attested: dict[CheckpointId, tuple[ObjectInfo, ...]] = {}
    data: dict[CheckpointId, tuple[ObjectInfo, ...]] = {}
    foreign = []
    prefix = layout.job(uid)
    for area in ("checkpoints", "packs", "files"):
        for info in store.list(f"{prefix}{area}/"):
            parts = info.key[len(prefix) :].split("/")
            identity = layout.parse_checkpoint(parts[1])
            if identity is None or len(parts) != 3:
                foreign.append(info.key)
            elif area != "checkpoints" and layout.parse_pack("/".join(parts)):
                data[identity] = (*data.get(identity, ()), info)
            elif area == "checkpoints" and parts[2] == layout.MANIFEST:
                manifests[identity] = info
            elif area == "checkpoints" and parts[2] in (layout.VERIFIED, layout.REHEARSED, layout.FULL):
                attested[identity] = (*attested.get(identity, ()), info)
            else:
                foreign.append(info.key)
    return Listing(uid, manifests, attested, data, tuple(foreign))
