"""Group saves and epochs in a store: all or nothing, only signed ones count, retention leaves what they need."""

from __future__ import annotations

import pytest

from backends.errors import FencedError, NotFoundError
from backends.fakes.store import MemoryStore
from backends.ids import CheckpointId
from backends.records.group import GroupEpoch, GroupSave, Member, Resumed
from backends.store import groups, layout
from backends.store.fleetkey import FleetKey, sign_record

KEY, OTHER = FleetKey(bytes(32)), FleetKey(bytes([1]) * 32)
UIDS = ("a" * 20, "b" * 20)
GID = groups.group_id(KEY.verify_key.hex, "ranks")


def store_with(*names: str) -> MemoryStore:
    """Manifests of these checkpoints for both jobs."""
    store = MemoryStore("store")
    for uid in UIDS:
        for name in names:
            store.create(layout.checkpoint(uid, CheckpointId.parse(name)), b"{}")
    return store


def save(number: int, checkpoint: str, nonce: str = "n") -> GroupSave:
    members = tuple(Member(uid, f"job{uid[0]}", checkpoint) for uid in UIDS)
    return GroupSave(GID, "ranks", number, members, 0.01, 0.001, "me", nonce, "2026-12-01T00:00:00.000Z")


def epoch(number: int, nonce: str = "n") -> GroupEpoch:
    resumed = tuple(Resumed(uid, 1) for uid in UIDS)
    return GroupEpoch(GID, "ranks", number, 1, resumed, "me", nonce, "2026-12-01T00:00:00.000Z")


def test_the_id_is_of_the_fleet_and_the_name() -> None:
    assert groups.group_id(KEY.verify_key.hex, "ranks") == GID
    assert layout.is_group(GID)
    assert (
        len(
            {GID, groups.group_id(OTHER.verify_key.hex, "ranks"), groups.group_id(KEY.verify_key.hex, "rank")}
        )
        == 3
    )


def test_a_group_save_needs_every_members_checkpoint() -> None:
    store = store_with("1.2")
    store.delete(layout.checkpoint(UIDS[1], CheckpointId.parse("1.2")))
    with pytest.raises(NotFoundError, match=r"checkpoint 1\.2 of job jobb"):
        groups.commit(store, save(1, "1.2"), KEY)
    assert groups.saves(store, GID, KEY.verify_key) == ()


def test_a_number_is_taken_once() -> None:
    store = store_with("1.2", "1.3")
    assert groups.commit(store, save(1, "1.2"), KEY)
    assert groups.commit(store, save(1, "1.2"), KEY), "the same one again"
    assert not groups.commit(store, save(1, "1.3", "other"), KEY)
    assert groups.commit(store, save(2, "1.3"), KEY)
    assert [each.number for each in groups.saves(store, GID, KEY.verify_key)] == [2, 1]
    assert groups.take(store, epoch(1), KEY)
    with pytest.raises(FencedError, match="does not follow"):
        groups.take(store, epoch(3, "later"), KEY)
    assert groups.take(store, epoch(2, "later"), KEY)


def test_what_is_planted_counts_for_nothing() -> None:
    store = store_with("1.2")
    groups.commit(store, save(1, "1.2"), KEY)
    store.create(layout.group_save(GID, 9), sign_record(save(9, "1.2"), OTHER))
    store.create(layout.group_save(GID, 8), sign_record(save(1, "1.2"), KEY))
    store.create(f"groups/{GID}/saves/x", b"?")
    assert [each.number for each in groups.saves(store, GID, KEY.verify_key)] == [1]


def test_retention_leaves_the_checkpoints_of_the_newest_two_group_saves() -> None:
    store = store_with("1.1", "1.2", "1.3", "1.4")
    for number in range(1, 4):
        groups.commit(store, save(number, f"1.{number}"), KEY)
    assert groups.pinned(store, UIDS[0], KEY.verify_key) == {CheckpointId(1, 2), CheckpointId(1, 3)}
    assert groups.pinned(store, "c" * 20, KEY.verify_key) == frozenset()
