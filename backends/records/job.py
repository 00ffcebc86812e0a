"""A job: what is protected, how, and what may be done with it when its node is lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from backends.ids import check_name

JobState = Literal[
    "unprotected", "trial", "unrehearsed", "protected", "overdue", "noticed", "unreachable", "waiting_proof",
    "waiting_capacity", "restoring", "cold_start", "isolated", "zombie", "paused", "stopped", "finished",
    "failed", "ended_unknown",
]  # fmt: skip

ENGINES = ("auto", "criu", "criu-cuda", "runc", "crun", "podman", "signal", "cedana", "fake")


@dataclass(frozen=True)
class Attach:
    """A process that runs already: exactly one of the fields is set."""

    pid: int | None = None
    pid_file: str | None = None
    container: str | None = None
    slurm: int | None = None

    def __post_init__(self) -> None:
        given = [
            name for name in ("pid", "pid_file", "container", "slurm") if getattr(self, name) is not None
        ]
        if len(given) != 1:
            raise ValueError(f"attach names one of pid, pid_file, container, slurm; found {given or 'none'}")


# Of interest to the controller alone: a guard is never told, so that older ones understand every record.
CONTROLLER_ONLY = frozenset({"stop_after_reclaims", "discount", "stop_when_unpaid", "max_rent_usd"})


@dataclass(frozen=True)
class Job:
    """One job's record, as the fleet's TOML, the guard's desired state and the console share it.

    Durations are seconds. `uid` is given at the first protect or run and is the prefix of the job's checkpoints.
    """

    name: str
    node: str  # the node it runs on, by name
    uid: str = ""  # 20 characters; empty until first protected
    command: tuple[str, ...] = ()  # argv to start it; empty for an attached process
    cwd: str | None = None
    environment: dict[str, str] = field(
        default_factory=dict
    )  # added for `command`; never recorded in manifests
    attach: Attach | None = None
    engine: str = "auto"
    store: str = ""  # URL; empty: the fleet's default
    hours: float | None = None  # H, useful work in hours, when known
    interval_s: float | None = None  # None is `auto`
    max_freeze_s: float = 300.0
    max_overhead: float | None = None  # largest share of time spent saving
    deadline_at: str | None = None  # RFC 3339
    files: tuple[str, ...] = ()  # paths that travel with the checkpoint
    runtime: dict[str, str] = field(default_factory=dict)  # declared versions: must match on restore
    done_file: str | None = None  # the job is finished when this file exists
    restore: str = "owned"  # owned | same-pool | any-pool | on-demand-after=…
    priority: int = 0
    stop_after_reclaims: int | None = (
        None  # the controller restores it this often by itself, then asks; None: always
    )
    discount: float | None = None  # spot discount of its pool, a fraction, where it is known
    stop_when_unpaid: bool = False  # not restored by itself once its measured loss eats the discount
    max_rent_usd: float | None = (
        None  # most that may be spent on machines rented for it; None: the fleet's limits alone
    )
    group: str | None = None
    on_isolated: Literal["continue", "freeze"] = "continue"
    lease_s: float = 90.0
    signal: str = "USR1"  # engine `signal`: what asks the program to save; `none`: its own schedule
    marker: str | None = None  # engine `signal`: glob whose newest complete match is the save
    resume: tuple[str, ...] = ()  # engine `signal`: argv that continues from the newest save
    page_hash: Literal["blake3", "xxh3"] = (
        "blake3"  # what tells a changed page; xxh3 is faster, and no secure hash
    )
    rollback: bool = False  # roll back files on network file systems too
    accept_unproven: bool = False  # `auto` may pick an engine that was not proven on this driver and GPU
    paused: bool = False  # protection suspended by the operator
    keep_last: int = 3
    min_age_s: float = 86400.0
    max_store_usd_per_day: float | None = None  # largest cost of keeping its checkpoints

    def __post_init__(self) -> None:
        check_name("job", self.name)
        if self.engine not in ENGINES:
            raise ValueError(f"engine {self.engine!r} is not one of {', '.join(ENGINES)}")
        if self.keep_last < 1:
            raise ValueError(f"keep_last is {self.keep_last}; at least 1 is needed")
        if self.stop_after_reclaims is not None and self.stop_after_reclaims < 0:
            raise ValueError(f"stop_after_reclaims is {self.stop_after_reclaims}; 0 or more is needed")
        if self.discount is not None and not self.discount < 1:
            raise ValueError(f"discount is {self.discount:g}; less than 1 is needed")
        if self.stop_when_unpaid and self.discount is None:
            raise ValueError('stop_when_unpaid needs the job\'s discount, such as discount = "70%"')
        if self.max_rent_usd is not None and not self.max_rent_usd > 0:
            raise ValueError(f"max_rent_usd is {self.max_rent_usd:g}; more than 0 is needed")
        if self.interval_s is not None and not self.interval_s > 0:
            raise ValueError(f"interval is {self.interval_s} s; more than 0 is needed")
