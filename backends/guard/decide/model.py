"""The guard's mind about one job, the events it takes in and the decisions that come out: plain data.

All instants are seconds by the node's boot clock (`Clock.monotonic`); they mean nothing after a reboot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from backends.records.node import NoticeState
from backends.store.prices import StorePrice

Phase = Literal["running", "restoring", "stopped", "finished", "failed", "ended_unknown"]
FreezeReason = Literal["zombie", "isolated"]
SaveReason = Literal["trial", "first", "interval", "final", "asked"]


@dataclass(frozen=True)
class Rate:
    """Reclaims per hour of the job's node: the planner's figure, from published bands and own history."""

    per_hour: float
    low: float | None = (
        None  # a range, where one is known: the interval then has the least possible worst regret
    )
    high: float | None = None
    source: str = ""  # where it comes from, in a few words


@dataclass(frozen=True)
class Policy:
    """What the operator wants for a job; seconds, shares and rates."""

    interval_s: float | None = None  # None is `auto`
    rate: Rate | None = None  # when anybody told us
    max_overhead: float | None = None  # largest share of time spent frozen; bounds `auto`
    max_freeze_s: float | None = None  # a longer freeze is given up by the engine
    max_store_usd_per_day: float | None = None  # bounds `auto` where `price` is known
    price: StorePrice | None = None  # None: the store has no list price
    keep_last: int = 3  # what retention keeps, for the cost of the store
    min_age_s: float = 86400.0
    on_isolated: Literal["continue", "freeze"] = "continue"
    lease_s: float = 90.0
    paused: bool = False
    own_save: bool = (
        False  # the program saves itself when signalled: the last resort when a save does not fit
    )


@dataclass(frozen=True)
class Costs:
    """What saves and restores of this job really took, from the newest of each; None: not measured yet."""

    freeze_s: float | None = None
    upload_s: float | None = None
    save_s: float | None = None  # from the decision to the report
    restore_s: float | None = None
    size_bytes: int | None = None


@dataclass(frozen=True)
class Durable:
    """The newest save that the guard has read back from the store."""

    checkpoint: str
    frozen_at: float  # boot clock, from which lost work counts
    frozen_wall: float  # wall clock of the same instant, for display
    freeze_s: float
    size_bytes: int
    upload_s: float
    stored_bytes: int | None = None  # what the save itself put into the store; None: not known
    parent: str | None = None  # the full save it refers to; None: none


@dataclass(frozen=True)
class Notice:
    """The node's notice as jobs see it; `serial` grows with each new reclaim announced."""

    state: NoticeState = "none"
    deadline_at: float | None = None  # boot clock; None unless state is `notice`
    serial: int = 0
    quiet: tuple[float, float] | None = None  # boot clock: the machine stands still from, until


@dataclass(frozen=True)
class Lease:
    """What this guard has promised in the store: the job stands still `lease_s` after `renewed_at`, unless renewed."""

    lease_s: float
    renewed_at: float  # boot clock: when the newest renewal that succeeded began


@dataclass(frozen=True)
class Mind:
    """Everything the decisions about one job depend on."""

    epoch: int
    began_at: float  # from here work is at risk until the first durable save
    contact_at: float  # start of the last store call that succeeded
    policy: Policy = field(default_factory=Policy)
    phase: Phase = "running"
    first_delay_s: float = 0.0  # a process that was just started needs a moment before its first save
    restored_from: str | None = None  # the checkpoint this incarnation came back from
    rehearsed: bool = False  # a checkpoint of this job has run on another host
    durable: Durable | None = None
    costs: Costs = field(default_factory=Costs)
    saving_since: float | None = None  # single flight: a save is under way
    asked: bool = False  # a person or a flow wants a save
    failures: int = 0  # saves that failed since the last good one
    retry_at: float | None = None
    trial_refused: bool = False  # the engine failed the trial: the operator asks for the next one
    frozen: FreezeReason | None = None
    lease: Lease | None = None  # None: nothing was promised
    behind: int | None = None  # the newer valid epoch, when there is one that is not ours
    excused: int = 0  # the operator's word covers newer epochs up to this one
    zombie_freezes: tuple[float, ...] = ()
    invalid_told: tuple[int, ...] = ()
    overdue_told: bool = False
    silence_told: bool = False
    interval_told_s: float | None = None  # the `auto` interval that was last reported
    notice: Notice = field(default_factory=Notice)
    notice_handled: int = 0  # serial of the last notice answered
    final_owed: bool = False  # the last save of the window under notice is still to come
    reclaimed: bool = False  # the process ended after a notice or while the node went down
    rebooted: bool = (
        False  # the process ended because the node was restarted: its boot id changed under a running job
    )


# Events


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class Asked:
    """Somebody wants a save now (`save`, `stop` with a final save)."""


@dataclass(frozen=True)
class SaveDone:
    """A save is durable: read back from the store, and no newer epoch found."""

    durable: Durable
    save_s: float


@dataclass(frozen=True)
class Recovered:
    """After a restart of the guard: what became of the save it was shipping; None: nothing that counts."""

    durable: Durable | None


@dataclass(frozen=True)
class SaveFailed:
    """A save came to nothing; the job runs on and the older save stands."""

    reason: str
    engine: bool  # the engine failed, not the store
    behind: bool = False  # a newer epoch overtook it: the job is frozen next, and that epoch says what counts


@dataclass(frozen=True)
class Standing:
    """What the store's lineage says, read by a call that began at `asked_at`."""

    asked_at: float
    newest: int  # highest validly claimed epoch; never below our own
    returned: bool = False  # `newest` names this guard and its own last commit: we go on under it
    invalid: tuple[tuple[int, str], ...] = ()  # claims that do not verify: (epoch, why)


@dataclass(frozen=True)
class LeaseBegun:
    """A renewal is about to be written: from now on others may read it, whether or not we hear that it worked."""

    lease_s: float | None
    at: float  # boot clock


@dataclass(frozen=True)
class LeaseKept:
    """That renewal, or the withdrawal (None), is in the store."""

    lease_s: float | None
    at: float  # as in its `LeaseBegun`


@dataclass(frozen=True)
class Gone:
    """The process is no more."""

    done: bool  # the job's done rule holds, or it ended with status 0
    exit_code: int | None = None  # known only for a process that the guard or its engine started
    shutdown: bool = False  # the node was going down
    ruled: bool = True  # `done` comes from the job's own rule, not from the exit status alone


@dataclass(frozen=True)
class NoticeIs:
    """The node's notice changed."""

    notice: Notice


@dataclass(frozen=True)
class PolicyIs:
    """The operator changed the policy."""

    policy: Policy


@dataclass(frozen=True)
class Word:
    """The operator's word: let a frozen job run although the lineage speaks against it."""


@dataclass(frozen=True)
class Rehearsed:
    """Another host has run a checkpoint of this job."""


@dataclass(frozen=True)
class Stopped:
    """The guard ended the process on request."""


JobEvent = (
    Tick
    | Asked
    | SaveDone
    | Recovered
    | SaveFailed
    | Standing
    | LeaseBegun
    | LeaseKept
    | Gone
    | NoticeIs
    | PolicyIs
    | Word
    | Rehearsed
    | Stopped
)


# Decisions


@dataclass(frozen=True)
class StartSave:
    """Begin a save."""

    reason: SaveReason


@dataclass(frozen=True)
class Freeze:
    """Stop the process tree where it stands."""

    reason: FreezeReason


@dataclass(frozen=True)
class Thaw:
    """Let the process tree run."""

    reason: str


@dataclass(frozen=True)
class Report:
    """Tell it: an event for the spool."""

    kind: str
    text: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AskOwnSave:
    """Signal the program to save itself; nobody waits for it."""


Decision = StartSave | Freeze | Thaw | Report | AskOwnSave
