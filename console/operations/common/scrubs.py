"""What checks of checkpoints found: told as events of the ledger, read back for listings and for the next check."""

from __future__ import annotations

from backends.clock import parse_utc
from backends.errors import ReprieveError
from backends.ledger.port import Ledger
from backends.records.job import Job
from console.operations.decide.upkeep import Scrub
from console.operations.fleet import Fleet

CHECKED, DAMAGED = "checkpoint.checked", "checkpoint.damaged"
MOST = 2000  # events looked at, newest first


def how_of(sample: float | None) -> str:
    """A check in words, as the store's records have it."""
    return "full" if sample is None else f"sample {sample:.2f}"


def tell_scrub(
    fleet: Fleet, job: Job, checkpoint: str, sample: float | None, reason: str, seconds: float
) -> Scrub:
    """Keep what a check found; an empty `reason` says that nothing is wrong."""
    how = how_of(sample)
    data = {"uid": job.uid, "checkpoint": checkpoint, "how": how, "seconds": seconds, "reason": reason}
    if reason:
        fleet.tell(DAMAGED, f"{job.name} {checkpoint}: {reason}", job=job.name, data=data)
    else:
        text = f"{job.name} {checkpoint} was read back ({how}) in {seconds:.1f} s: whole"
        fleet.tell(CHECKED, text, job=job.name, data=data)
    return Scrub(checkpoint, fleet.clock.wall(), how, not reason, reason)


def scrubs(ledger: Ledger, job: Job) -> dict[str, Scrub]:
    """The newest check of each checkpoint of a job."""
    found: dict[str, Scrub] = {}
    for _, event in ledger.events(limit=MOST, job=job.name, kinds=(CHECKED, DAMAGED)):
        if event.node is not None or event.data.get("uid") != job.uid:
            continue  # a node's word about its own saves, or an earlier job of this name
        try:
            at = parse_utc(event.time)
        except ReprieveError:
            continue
        checkpoint, reason = str(event.data.get("checkpoint")), str(event.data.get("reason") or "")
        how, whole = str(event.data.get("how") or ""), event.kind == CHECKED
        found[checkpoint] = Scrub(checkpoint, at, how, whole, reason)
    return found
