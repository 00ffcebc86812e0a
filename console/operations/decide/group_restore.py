"""Bringing a group back together: whether it may begin, and what each member needs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from backends.records.group import GroupEpoch, GroupSave

Need = Literal["nothing", "stop", "restore", "refused"]


@dataclass(frozen=True)
class Standing:
    """One member now."""

    uid: str
    name: str
    epoch: int  # its highest epoch
    running_epoch: int  # the newest one that names a guard; 0: none
    continues: str | None  # the checkpoint that one goes on from
    lives: bool  # its guard says that it runs
    proven: bool  # nothing of its newest epoch runs, or it is being brought back already
    why_not: str = ""  # what is missing for proof


def open_epoch(newest: GroupEpoch | None, save: GroupSave | None, members: Sequence[Standing]) -> bool:
    """Whether the newest epoch of the group still waits for members: none of an epoch of their own that belongs to it.

    Once all have been named, the group went on, and a loss after that takes all of it back anew.
    """
    if newest is None or save is None:
        return False
    return not all(named(each, newest, save) for each in members)


def named(member: Standing, epoch: GroupEpoch, save: GroupSave) -> bool:
    """Whether this member was given its epoch of the group's."""
    return member.running_epoch > epoch.after(member.uid) and member.continues == save.checkpoint_of(
        member.uid
    )


def need(member: Standing, epoch: GroupEpoch | None, save: GroupSave) -> Need:
    """What a member needs; with no epoch of the group yet, what it will need."""
    if epoch is not None and named(member, epoch, save) and member.lives:
        return "nothing"
    if member.lives:
        return "stop"
    return "restore" if member.proven else "refused"


def refusals(members: Sequence[Standing], epoch: GroupEpoch | None, save: GroupSave) -> tuple[str, ...]:
    """Why the group cannot be brought back now; looked at before anything is touched."""
    return tuple(
        f"{each.name}: {each.why_not or 'nothing proves that its old process is gone'}"
        for each in members
        if need(each, epoch, save) == "refused"
    )


def other_members(save: GroupSave, members: Sequence[tuple[str, str]]) -> str:
    """How the group differs from that of the save, by (uid, name); empty: it does not."""
    saved, now = {each.job_uid: each.name for each in save.members}, dict(members)
    gone = sorted(saved[uid] for uid in saved.keys() - now.keys())
    new = sorted(now[uid] for uid in now.keys() - saved.keys())
    words = [f"{', '.join(gone)} was in it and is not any more"] if gone else []
    return "; ".join([*words, f"{', '.join(new)} was not in it"] if new else words)
