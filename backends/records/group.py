"""What a store holds of a group of jobs: its saves, each one agreed point of all members, and its epochs.

Each is one immutable signed object, created if absent (`backends.store.groups`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from backends.errors import UsageError
from backends.ids import CheckpointId, check_name, check_uid

MOST_MEMBERS = 256  # a record is at most 64 KiB


@dataclass(frozen=True)
class Member:
    """One job of a group save."""

    job_uid: str
    name: str
    checkpoint: str  # <epoch>.<seq>

    def __post_init__(self) -> None:
        try:
            check_uid(self.job_uid)
            CheckpointId.parse(self.checkpoint)
        except UsageError as error:
            raise ValueError(error.message) from None


@dataclass(frozen=True)
class GroupSave:
    """`groups/<gid>/saves/<n>`: all members stood still at one moment, and each was saved there. It exists or it does not."""

    RECORD: ClassVar[str] = "group-save"

    group: str  # gid, 20 characters
    name: str
    number: int  # from 1; a higher one is later
    members: tuple[Member, ...]  # by name
    skew_s: float  # first freeze begun to last freeze done, by what was measured of the nodes' clocks
    uncertain_s: float  # by how much that may be wrong
    controller: str
    nonce: str
    at: str  # RFC 3339; for people, never for order

    def __post_init__(self) -> None:
        _check(self.group, self.name, self.number, self.members)

    def checkpoint_of(self, uid: str) -> str | None:
        """The checkpoint of one member."""
        return next((each.checkpoint for each in self.members if each.job_uid == uid), None)


@dataclass(frozen=True)
class Resumed:
    """What one member had when the group's epoch began: only an epoch of its own that is newer belongs to it."""

    job_uid: str
    after: int  # the highest epoch then


@dataclass(frozen=True)
class GroupEpoch:
    """`groups/<gid>/epochs/<n>`: one controller brings the whole group back to one save; only one can take n."""

    RECORD: ClassVar[str] = "group-epoch"

    group: str
    name: str
    number: int  # from 1, without gaps
    save: int  # number of the group save that all go on from
    members: tuple[Resumed, ...]
    controller: str
    nonce: str
    at: str

    def __post_init__(self) -> None:
        _check(self.group, self.name, self.number, self.members)
        if self.save < 1:
            raise ValueError(f"group epoch {self.number} names save {self.save}")

    def after(self, uid: str) -> int:
        """The highest epoch of one member when this one began; 0 for a job that is no member."""
        return next((each.after for each in self.members if each.job_uid == uid), 0)


def _check(group: str, name: str, number: int, members: tuple[Member, ...] | tuple[Resumed, ...]) -> None:
    try:
        check_uid(group)
        check_name("group", name)
    except UsageError as error:
        raise ValueError(error.message) from None
    if not 1 <= number <= 999_999_999:
        raise ValueError(f"number {number} is not between 1 and 999999999")
    uids = [each.job_uid for each in members]
    if not 1 <= len(uids) <= MOST_MEMBERS or len(set(uids)) != len(uids):
        raise ValueError(f"a group of {len(uids)} members: 1 to {MOST_MEMBERS}, each once, are expected")
