"""The state machine of a node's notices: readings and time in, one notice and reports out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from backends.guard.decide.model import Notice, Report
from backends.guard.notices.port import Reading
from backends.records.node import NoticeState

UNREADABLE_AFTER = 3  # readings in a row that failed before the state says so
HINT_LASTS_S = 1800.0
PASSED_GRACE_S = 30.0  # a node that lives this long after its deadline was spared
SAME_PAUSE_S = 2.0


@dataclass(frozen=True)
class NoticeMind:
    """What is known of the node's notices; instants by the boot clock. Before the first reading: unreadable."""

    notice: Notice = field(default_factory=lambda: Notice("unreadable"))
    unread: int = 0
    hint: str | None = None  # the provider's mark of the newest hint
    hint_at: float | None = None
    serial: int = 0


def observe(mind: NoticeMind, reading: Reading, now: float) -> tuple[NoticeMind, tuple[Report, ...]]:
    """Take in one reading made at `now`.

    A reclaim once announced stands until its deadline has passed by 30 s (or the provider calls it off); repeats
    keep the earliest deadline. A hint expires after 30 minutes. Three failed readings in a row are `unreadable`.
    """
    if reading.state == "unreadable":
        return _unread(mind, reading, now)
    reports: list[Report] = []
    if mind.unread >= UNREADABLE_AFTER:
        reports.append(Report("notice.readable", "notices can be read again"))
    mind = replace(mind, unread=0)
    if reading.state == "notice":
        return _announce(mind, reading, now, reports)
    if mind.notice.state == "notice":
        return _after(mind, reading, now, reports)
    mind = _hint(mind, reading, now, reports)
    return mind, tuple(reports)


def _unread(mind: NoticeMind, reading: Reading, now: float) -> tuple[NoticeMind, tuple[Report, ...]]:
    mind = replace(mind, unread=mind.unread + 1)
    if mind.notice.state == "notice" and not _passed(mind, now):
        return mind, ()
    if mind.unread == UNREADABLE_AFTER:
        mind = replace(mind, notice=Notice("unreadable", serial=mind.serial))
        text = f"notices cannot be read on this node: {reading.reason}; this is not the same as no notice"
        return mind, (Report("notice.unreadable", text),)
    return mind, ()


def _announce(
    mind: NoticeMind, reading: Reading, now: float, reports: list[Report]
) -> tuple[NoticeMind, tuple[Report, ...]]:
    left = reading.window_s if reading.left_s is None else min(reading.left_s, reading.window_s)
    deadline = now + max(0.0, left)
    before = mind.notice
    if before.state == "notice" and before.deadline_at is not None:
        kept = replace(before, deadline_at=min(before.deadline_at, deadline))
        return replace(mind, notice=kept), tuple(reports)
    serial = mind.serial + 1
    mind = replace(mind, serial=serial, notice=Notice("notice", deadline, serial))
    text = f"the provider will take this node in {max(0.0, left):.0f} s ({reading.reason})"
    reports.append(Report("notice.seen", text, {"left_s": max(0.0, left), "serial": serial}))
    return mind, tuple(reports)


def _passed(mind: NoticeMind, now: float) -> bool:
    deadline = mind.notice.deadline_at
    return deadline is None or now > deadline + PASSED_GRACE_S


def _after(
    mind: NoticeMind, reading: Reading, now: float, reports: list[Report]
) -> tuple[NoticeMind, tuple[Report, ...]]:
    if not (reading.withdrawn or _passed(mind, now)):
        return mind, tuple(reports)
    reports.append(Report("notice.withdrawn", "the reclaim did not come: back to normal"))
    mind = replace(mind, notice=Notice("none", serial=mind.serial))
    return _hint(mind, reading, now, reports), tuple(reports)


def _hint(mind: NoticeMind, reading: Reading, now: float, reports: list[Report]) -> NoticeMind:
    if reading.state == "hint" and reading.mark != mind.hint:
        mind = replace(mind, hint=reading.mark, hint_at=now)
        text = f"the provider hints at a raised risk ({reading.reason}): the next save comes sooner"
        reports.append(Report("notice.hint", text))
    fresh = reading.state == "hint" and mind.hint_at is not None and now - mind.hint_at < HINT_LASTS_S
    state: NoticeState = "hint" if fresh else "none"
    return replace(mind, notice=Notice(state, serial=mind.serial, quiet=_quiet(mind, reading, now)))


def _quiet(mind: NoticeMind, reading: Reading, now: float) -> tuple[float, float] | None:
    """When the machine will stand still; what moves by less than two seconds from look to look has not moved."""
    if reading.pause is None:
        return None
    begins = now + reading.pause[0]
    before = mind.notice.quiet
    if before is not None and abs(before[0] - begins) < SAME_PAUSE_S:
        return before
    return begins, begins + reading.pause[1]
