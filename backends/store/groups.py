"""A group of jobs in a store: saves that are committed all or nothing, and the group's epochs.

A group save is one signed object, created once every member's checkpoint was read back: before it is there, nothing of
the group save exists; once it is, all of it does. It names checkpoints that are ordinary ones of each job. Retention
keeps those of the newest two group saves.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

from backends.errors import DamagedError, FencedError, NotFoundError
from backends.ids import CheckpointId, check_name
from backends.records.group import GroupEpoch, GroupSave
from backends.store import layout
from backends.store.fleetkey import FleetKey, VerifyKey, open_record
from backends.store.port import ObjectStore
from backends.store.takeover import put_record

KEPT_SAVES = 2  # newest group saves whose checkpoints retention leaves alone
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"

R = TypeVar("R", GroupSave, GroupEpoch)


def group_id(verify_key: str, name: str) -> str:
    """The group's place in a store: 20 characters from the fleet's public key (hex) and the group's name."""
    check_name("group", name)
    digest = hashlib.sha256(
        b"reprieve/1/group\n" + bytes.fromhex(verify_key) + b"\n" + name.encode()
    ).digest()
    return "".join(_ALPHABET[byte & 31] for byte in digest[:20])


def saves(store: ObjectStore, gid: str, key: VerifyKey) -> tuple[GroupSave, ...]:
    """All group saves, newest first; what is not validly signed counts for nothing."""
    return _records(GroupSave, store, layout.group_saves(gid), gid, key)


def epochs(store: ObjectStore, gid: str, key: VerifyKey) -> tuple[GroupEpoch, ...]:
    """All epochs of the group, newest first."""
    return _records(GroupEpoch, store, layout.group_epochs(gid), gid, key)


def commit(store: ObjectStore, record: GroupSave, key: FleetKey) -> bool:
    """Create a group save, once each member's checkpoint is there; False when another took its number.

    Raises:
        NotFoundError: a member's checkpoint is not in the store: the group save does not count.
    """
    _check_there(store, record)
    made = put_record(store, layout.group_save(record.group, record.number), record, key)
    if made:
        _check_there(store, record)  # retention may have been at work between the two
    return made


def _check_there(store: ObjectStore, record: GroupSave) -> None:
    for member in record.members:
        name = layout.checkpoint(member.job_uid, CheckpointId.parse(member.checkpoint))
        if store.info(name) is None:
            raise NotFoundError(
                f"checkpoint {member.checkpoint} of job {member.name} is not in the store: the group is not saved"
            )


def take(store: ObjectStore, record: GroupEpoch, key: FleetKey) -> bool:
    """Create a group's epoch; False when another took it.

    Raises:
        FencedError: the number does not follow the newest one.
    """
    found = epochs(store, record.group, key.verify_key)
    newest = found[0].number if found else 0
    if record.number != newest + 1 and not any(each.nonce == record.nonce for each in found):
        raise FencedError(f"epoch {record.number} of group {record.name} does not follow {newest}")
    return put_record(store, layout.group_epoch(record.group, record.number), record, key)


def pinned(store: ObjectStore, uid: str, key: VerifyKey) -> frozenset[CheckpointId]:
    """Checkpoints of a job that a group may still go back to."""
    found: set[CheckpointId] = set()
    groups = {info.key.split("/")[1] for info in store.list("groups/") if info.key.count("/") == 3}
    for gid in sorted(groups):
        if layout.is_group(gid):
            for save in saves(store, gid, key)[:KEPT_SAVES]:
                mine = save.checkpoint_of(uid)
                found |= set() if mine is None else {CheckpointId.parse(mine)}
    return frozenset(found)


def _records(kind: type[R], store: ObjectStore, prefix: str, gid: str, key: VerifyKey) -> tuple[R, ...]:
    found: list[R] = []
    for info in store.list(prefix):
        number = layout.parse_number(info.key[len(prefix) :])
        if number is None:
            continue
        try:
            record = open_record(kind, store.read(info.key), key, what=info.key)
        except (DamagedError, NotFoundError):
            continue
        if (record.group, record.number) == (gid, number):
            found.append(record)
    return tuple(sorted(found, key=lambda each: each.number, reverse=True))
