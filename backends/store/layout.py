"""Names of objects in a store (contract section 6), built and read in one place."""

from __future__ import annotations

import re
from typing import Literal

from backends.clean import clean
from backends.errors import UsageError
from backends.ids import CheckpointId, check_name, check_uid

MANIFEST = "manifest.json"
FULL = "full.json"
VERIFIED = "verified"
REHEARSED = "rehearsed"

PackArea = Literal["packs", "files"]

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
_NUMBER = re.compile(r"(0|[1-9][0-9]{0,8})\Z")


def check_key(key: str) -> str:
    """Return `key` when it may name an object; raise UsageError otherwise (traversal, odd characters, length)."""
    parts = key.split("/")
    if len(key) > 1000 or len(parts) > 12 or not all(_PART.match(part) for part in parts):
        raise UsageError(
            f"object key {clean(key, limit=80)!r} is not allowed: parts of letters, digits, '.', '_', '-' "
            f"starting with a letter or digit, separated by single '/'"
        )
    return key


def job(uid: str, *rest: str) -> str:
    """A key under the job's prefix; without `rest` the prefix itself, with its trailing slash."""
    return "/".join(("jobs", check_uid(uid), *(rest or ("",))))


def header(uid: str) -> str:
    """`job.json`."""
    return job(uid, "job.json")


def epochs(uid: str) -> str:
    """Prefix of claims and continues."""
    return job(uid, "epochs", "")


def claim(uid: str, epoch: int) -> str:
    """The claim of an epoch."""
    return job(uid, "epochs", str(epoch))


def continues(uid: str, epoch: int) -> str:
    """What an epoch continues from."""
    return job(uid, "epochs", f"{epoch}.continues")


def checkpoints(uid: str) -> str:
    """Prefix of all checkpoints."""
    return job(uid, "checkpoints", "")


def checkpoint(uid: str, identity: CheckpointId, name: str = MANIFEST) -> str:
    """An object of one checkpoint: its manifest unless `name` says otherwise."""
    return job(uid, "checkpoints", str(identity), name)


def pack(uid: str, area: PackArea, identity: CheckpointId, number: int) -> str:
    """A pack of sealed frames of one save."""
    return job(uid, area, str(identity), str(number))


def latest(uid: str) -> str:
    """The hint."""
    return job(uid, "latest")


def lease(uid: str, epoch: int) -> str:
    """The lease of an epoch, replaced at each renewal."""
    return job(uid, "leases", str(epoch))


def removed(uid: str) -> str:
    """The tombstone."""
    return job(uid, "removed")


def controller(identity: str) -> str:
    """A controller's heartbeat."""
    return f"controllers/{check_name('controller', identity)}"


def group_saves(gid: str) -> str:
    """Prefix of a group's saves."""
    return f"groups/{check_uid(gid)}/saves/"


def group_save(gid: str, number: int) -> str:
    """One save of a group."""
    return f"{group_saves(gid)}{number}"


def group_epochs(gid: str) -> str:
    """Prefix of a group's epochs."""
    return f"groups/{check_uid(gid)}/epochs/"


def group_epoch(gid: str, number: int) -> str:
    """One epoch of a group."""
    return f"{group_epochs(gid)}{number}"


def is_group(gid: str) -> bool:
    """Whether a part of a key is a group's id."""
    return re.fullmatch(r"[a-z0-9]{20}", gid) is not None


def parse_number(name: str) -> int | None:
    """`3` as a number from 1; None when the name is foreign."""
    return int(name) if _NUMBER.match(name) and int(name) >= 1 else None


def parse_epoch(name: str) -> tuple[int, bool] | None:
    """`3` is (3, False), `3.continues` is (3, True), anything else None."""
    number, dot, tail = name.partition(".")
    if not _NUMBER.match(number) or (dot and tail != "continues") or int(number) < 1:
        return None
    return int(number), bool(dot)


def parse_checkpoint(name: str) -> CheckpointId | None:
    """`2.14` as an id; None when the name is foreign."""
    try:
        found = CheckpointId.parse(name)
    except UsageError:
        return None
    return found if found.epoch >= 1 and found.seq >= 1 else None


def parse_pack(name: str) -> tuple[PackArea, CheckpointId, int] | None:
    """`packs/2.14/0` (relative to the job) as its parts; None when foreign."""
    parts = name.split("/")
    if len(parts) != 3 or not _NUMBER.match(parts[2]):
        return None
    identity = parse_checkpoint(parts[1])
    if identity is None:
        return None
    if parts[0] == "packs":
        return "packs", identity, int(parts[2])
    return ("files", identity, int(parts[2])) if parts[0] == "files" else None
