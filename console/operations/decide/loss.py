"""Is a node, and with it a job's process, gone? Two witnesses, and "cannot tell" is an answer.

The witnesses are the node itself (does it answer, for how long has it not) and its provider. Silence alone, however
long and however often asked, proves nothing; a provider's word alone does not either while the node answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backends.clouds.port import InstanceState
from backends.records.node import NodeState

ProofKind = Literal["cloud", "stopped", "word", "lease"]


@dataclass(frozen=True)
class Limits:
    """How long silence takes to be called what, in seconds."""

    late_s: float = 10.0
    unreachable_s: float = 30.0
    waiting_s: float = 120.0  # from then on a job waits for proof instead of being called unreachable


@dataclass(frozen=True)
class Witness:
    """What is known of one node at one moment."""

    silence_s: float | None  # since its last answer; None: it never answered
    answered: bool  # the newest try got an answer
    cloud: InstanceState | None = None  # None: no provider can be asked
    cordoned: bool = False
    missing: str = ""  # what keeps it from being used, such as "no guard installed"


@dataclass(frozen=True)
class Proof:
    """Why a process of an older epoch is certainly gone; goes into the claim of the next epoch."""

    kind: ProofKind
    detail: str  # one sentence
    source: str  # who said it: an API, a guard's id, an operator
    at: str  # RFC 3339
    ended_at: str = ""  # RFC 3339, when it says that happened; empty: it does not say


@dataclass(frozen=True)
class NodeVerdict:
    """A node's state with the reason, and the proof when it is `lost`."""

    state: NodeState
    reason: str = ""
    proof: Proof | None = None


@dataclass(frozen=True)
class GuardWord:
    """What the guard named by the newest non-void continues says of that epoch's process.

    `ended` covers stopped, failed and finished: the guard saw the process gone. `absent` means that this guard
    knows nothing of the epoch: it was never started there, and it proves nothing about other places.
    """

    word: Literal["running", "restoring", "ended", "absent", "behind", "unreachable"]
    guard: str | None = None
    epoch: int | None = None
    at: str = ""
    detail: str = ""
    finished: bool = False  # it ended because its work is done


LEASE_RATE = 1.1  # how much faster our clock may run than the node's
LEASE_MARGIN_S = 15.0  # for the freeze itself, after the lease has run out


@dataclass(frozen=True)
class LeaseWord:
    """What the store says of the lease of the newest epoch, watched by our own clock."""

    guard: str
    lease_s: float
    unchanged_s: float  # for how long we have seen no renewal

    @property
    def whole_s(self) -> float:
        """How long it must be seen unchanged before the process certainly stands still (reliability 2.3)."""
        return self.lease_s * LEASE_RATE + LEASE_MARGIN_S

    @property
    def left_s(self) -> float:
        """Seconds until then; 0 when it has run out."""
        return max(0.0, self.whole_s - self.unchanged_s)


def judge_node(witness: Witness, limits: Limits) -> NodeVerdict:
    """The node's state. `lost` needs both witnesses: it does not answer, and its provider says it ended."""
    cloud = witness.cloud
    if witness.answered:
        if witness.missing:
            return NodeVerdict("not_ready", witness.missing)
        return NodeVerdict("cordoned", "cordoned by the operator") if witness.cordoned else NodeVerdict("ok")
    if cloud is not None and cloud.state in ("terminated", "stopped"):
        detail = f"the provider says {cloud.state} ({cloud.reason or 'no reason given'}) and the node does not answer"
        return NodeVerdict(
            "lost", detail, Proof("cloud", detail, cloud.source, cloud.asked_at, cloud.ended_at or "")
        )
    said = _said(cloud)
    if witness.silence_s is None:
        return NodeVerdict("unreachable", f"no answer of it is on record; {said}")
    if witness.silence_s >= limits.unreachable_s:
        return NodeVerdict("unreachable", f"silent for {witness.silence_s:.0f} s; {said}")
    if witness.silence_s >= limits.late_s:
        return NodeVerdict("late", f"silent for {witness.silence_s:.0f} s; {said}")
    return NodeVerdict("cordoned", "cordoned by the operator") if witness.cordoned else NodeVerdict("ok")


def judge_unanswered(witness: Witness, limits: Limits) -> NodeVerdict:
    """As `judge_node`, for a node that was asked just now in vain: late at best, however short its silence."""
    verdict = judge_node(witness, limits)
    if verdict.state not in ("ok", "cordoned"):
        return verdict
    return NodeVerdict(
        "late", f"no answer now, {witness.silence_s:.0f} s after the last one; {_said(witness.cloud)}"
    )


def _said(cloud: InstanceState | None) -> str:
    if cloud is None:
        return "no provider can be asked"
    why = f" ({cloud.reason})" if cloud.state == "unknown" and cloud.reason else ""
    return f"the provider says {cloud.state}{why}"


def job_state_on_silence(verdict: NodeVerdict, silence_s: float | None, limits: Limits) -> str | None:
    """The state of a job whose node is silent; None while the node's own word still counts."""
    if verdict.state == "lost":
        return "waiting_capacity"
    if verdict.state != "unreachable":
        return None
    return "waiting_proof" if silence_s is None or silence_s >= limits.waiting_s else "unreachable"


def prove(
    verdict: NodeVerdict,
    guard: GuardWord,
    *,
    epoch: int,
    named_guard: str | None,
    word: Proof | None,
    lease: LeaseWord | None = None,
    now: str = "",
) -> Proof | None:
    """Proof that nothing of `epoch` runs any more, or None.

    Accepted: the provider's word beside silence; the word of exactly the guard that the epoch names; the
    operator's typed word, but never against a guard that says the process runs; the lapsed lease of exactly that guard,
    beside a silent node. `now` (RFC 3339) dates the last.
    """
    said_by_the_one_named = guard.guard is not None and guard.guard == named_guard and guard.epoch == epoch
    if guard.word == "ended" and said_by_the_one_named:
        detail = f"the guard saw the process of epoch {epoch} end: {guard.detail or 'confirmed'}"
        return Proof("stopped", detail, f"guard {guard.guard}", guard.at)
    if verdict.state == "lost":
        return verdict.proof
    if word is not None and guard.word not in ("running", "restoring"):
        return word
    silent = verdict.state == "unreachable" and guard.word == "unreachable"
    if lease is not None and lease.guard == named_guard and lease.left_s == 0 and silent:
        detail = (
            f"the guard promised to freeze epoch {epoch} {lease.lease_s:.0f} s after its last renewal of the lease, and "
            f"none came for {lease.unchanged_s:.0f} s; the node is silent"
        )
        return Proof("lease", detail, f"guard {lease.guard}", now)
    return None


def word_hint(job: str, guard: GuardWord, to: str | None, checkpoint: str | None) -> str:
    """What an operator can do about it, with what was typed kept in the line."""
    if guard.word in ("running", "restoring"):
        return f"to run it elsewhere: reprieve jobs move {job} --to {to or 'NODE'}"
    more = f" --to {to}" * (to is not None) + f" --checkpoint {checkpoint}" * (checkpoint is not None)
    return f"if you know that it is dead: reprieve jobs restore {job}{more} --i-know-it-is-dead {job}"


def why_no_proof(
    job: str, node: str | None, verdict: NodeVerdict, guard: GuardWord, lease: LeaseWord | None = None
) -> str:
    """The one line that tells an operator why nothing was restored."""
    where = node or "an unknown node"
    if guard.word in ("running", "restoring"):
        return f"job {job} still runs on {where}: its guard answers ({guard.word}); nothing was restored"
    if guard.word == "behind":
        return f"job {job}: the guard on {where} holds a stopped older copy; nothing was restored"
    reason = verdict.reason or "its guard gives no word of this job"
    if lease is not None:
        reason += f"; its lease of {lease.lease_s:.0f} s was renewed in the store less than {lease.whole_s:.0f} s ago"
    return f"job {job}: nothing proves that its process on {where} is gone ({reason}); nothing was restored"
