"""Arguments of the planner that `plan`, `plan sweep` and `pools list` share."""

from __future__ import annotations

from console.registry.model import Argument

FINITE = "a finite number, at least 0"

JOB = (
    Argument(
        "job",
        "take hours, interval, deadline and pool from this job's record; what is typed wins",
        kind="job",
    ),
    Argument(
        "hours",
        "useful work of the job in hours (24) or as a duration (36h)",
        kind="hours",
        allowed="more than 0",
    ),
)
PRICE = (
    Argument(
        "discount", "discount of spot against on-demand, 0.7 or 70%; may be negative", kind="fraction",
        allowed="a finite number less than 1",
    ),
    Argument(
        "spot-price", "USD per hour on spot; with --on-demand-price instead of --discount", kind="float", allowed=FINITE
    ),
    Argument("on-demand-price", "USD per hour on demand", kind="float", allowed="a finite number, more than 0"),
)  # fmt: skip
RECLAIMS = (
    Argument("reclaims", "reclaims suffered over the whole job (a count, 3)", kind="float", allowed=FINITE),
    Argument("rate", "reclaims per node and exposed hour (0.125)", kind="float", allowed=FINITE),
    Argument("band", "published band: <5%, 5-10%, >20%, 20+%; needs --band-basis"),
    Argument("band-basis", "what the band is a share of", kind="choice", choices=("month", "hour", "launch")),
    Argument(
        "mean-run", "mean run that users end themselves, for --band-basis launch", kind="duration", allowed="more than 0"
    ),
    Argument("pool", "take band and discount of this pool from the pulled figures", kind="pool"),
    Argument("feed", "with --pool: a Spot Advisor file instead of the pulled copy", kind="path"),
    Argument(
        "lifetime",
        "law of a node's life in hours, weibull:k,eta or bathtub:A,t1,t2,b: an age-aware schedule of saves",
    ),
    Argument("history-hours", "own observation: node-hours", kind="hours", allowed="at least 0"),
    Argument("history-reclaims", "own observation: reclaims in those hours", kind="int", allowed="at least 0"),
)  # fmt: skip
LOSS = (
    Argument("lost", "billed time lost per reclaim (10m)", kind="duration", allowed="at least 0s"),
    Argument("checkpoint-cost", "how long the job stands still for a save (36s)", kind="duration", allowed="at least 0s"),
    Argument(
        "restore", "from the start of billing to the job running again (3m)", kind="duration", allowed="at least 0s"
    ),
    Argument(
        "upload", "time until a save is durable, while the job runs on (2m)", kind="duration", allowed="at least 0s"
    ),
    Argument(
        "interval", "work between two saves, or auto: the recommended one (default)", kind="duration", choices=("auto",),
        allowed="more than 0s",
    ),
    Argument("max-overhead", "largest share of time spent saving (2%)", kind="fraction", allowed="more than 0"),
    Argument("size", "bytes of a checkpoint (670GiB); with --bandwidth gives the time of a save", kind="size"),
    Argument("bandwidth", "measured bytes per second to the store (10GB/s)", kind="rate", allowed="more than 0"),
    Argument("wait", "wait for capacity after a reclaim, not billed (default 0s)", kind="duration", allowed="at least 0s"),
    Argument(
        "early-failure-share", "share of replacements that fail before the job makes progress (12%)", kind="fraction",
        allowed="at least 0 and less than 1",
    ),
    Argument("nodes", "nodes that stop together (default 1)", kind="int", allowed="at least 1"),
    Argument(
        "deadline", "from the start; prints the chance to finish by then (36h)", kind="duration", allowed="more than 0s"
    ),
    Argument("no-resume", "the job starts over after every reclaim", kind="flag"),
)  # fmt: skip
MORE = (
    Argument(
        "notice", "length of the reclaim notice in seconds (120) or as a duration", kind="seconds", allowed="at least 0"
    ),
    Argument(
        "notice-reliability", "share of reclaims with a usable notice (default 0)", kind="fraction",
        allowed="at least 0 and less than 1",
    ),
    Argument("billing", "billing rule: per-second (default), per-minute, per-hour, … ; a wrong one lists them", kind="text"),
    Argument("store-price", "USD per GiB and month for checkpoints kept; needs --size", kind="float", allowed=FINITE),
    Argument("transfer-price", "USD per GiB moved to or from the store; needs --size", kind="float", allowed=FINITE),
    Argument("keep", "checkpoints kept, for --store-price (default 3)", kind="int", allowed="at least 1"),
)  # fmt: skip
EVERYTHING = (*JOB, *PRICE, *RECLAIMS, *LOSS, *MORE)
