"""What a store says of groups of jobs, and their two writes; see `console.operations.truth.Truth`."""

from __future__ import annotations

from backends.clock import Clock, format_utc
from backends.errors import DamagedError, FencedError
from backends.ids import CheckpointId
from backends.records.group import GroupEpoch, GroupSave, Member, Resumed
from backends.store import groups
from backends.store.fleetkey import FleetKey
from backends.store.port import ObjectStore


class GroupTruth:
    """One controller's view of the groups in one store."""

    def __init__(self, store: ObjectStore, key: FleetKey, by: str, clock: Clock) -> None:
        self._store, self._key, self._by, self._clock = store, key, by, clock

    def group_saves(self, group: str) -> tuple[GroupSave, ...]:
        """All saves of the group, newest first."""
        return groups.saves(self._store, self._gid(group), self._key.verify_key)

    def group_epochs(self, group: str) -> tuple[GroupEpoch, ...]:
        """All epochs of the group, newest first."""
        return groups.epochs(self._store, self._gid(group), self._key.verify_key)

    def commit_group(
        self, group: str, members: tuple[Member, ...], skew: tuple[float, float], nonce: str
    ) -> GroupSave:
        """Create the next save of a group; see `Truth.commit_group`."""
        gid = self._gid(group)
        while True:
            known = groups.saves(self._store, gid, self._key.verify_key)
            record = GroupSave(
                gid, group, known[0].number + 1 if known else 1, members, *skew, self._by, nonce, self._now()
            )
            if groups.commit(self._store, record, self._key):
                return record
            if len(groups.saves(self._store, gid, self._key.verify_key)) == len(known):
                raise DamagedError(
                    f"save {record.number} of group {group} exists and is not this fleet's: the group was not saved"
                )

    def take_group(
        self, group: str, save: int, members: tuple[Resumed, ...], nonce: str
    ) -> GroupEpoch | None:
        """Create the next epoch of a group."""
        known = self.group_epochs(group)
        number = known[0].number + 1 if known else 1
        record = GroupEpoch(self._gid(group), group, number, save, members, self._by, nonce, self._now())
        try:
            return record if groups.take(self._store, record, self._key) else None
        except FencedError:
            return None

    def _gid(self, group: str) -> str:
        return groups.group_id(self._key.verify_key.hex, group)

    def _now(self) -> str:
        return format_utc(self._clock.wall())

    def pinned(self, uid: str) -> frozenset[CheckpointId]:
        """Checkpoints of a job that its group may still go back to."""
        return groups.pinned(self._store, uid, self._key.verify_key)
