"""`reprieve plan`: what reclaims cost a job, and every break-even."""

from __future__ import annotations

from console.registry.model import Argument, Command, Example

_ARGUMENTS = (
    Argument(
        "hours", "useful work of the job in hours (24) or as a duration (36h)", kind="hours", required=True
    ),
    Argument("discount", "discount of spot against on-demand, 0.7 or 70%; may be negative", kind="fraction"),
    Argument(
        "spot-price", "USD per hour on spot; with --on-demand-price instead of --discount", kind="float"
    ),
    Argument("on-demand-price", "USD per hour on demand", kind="float"),
    Argument("reclaims", "reclaims suffered over the whole job (a count, 3)", kind="float"),
    Argument("rate", "reclaims per node and exposed hour (0.125)", kind="float"),
    Argument("band", "published band: <5%, 5-10%, >20%, 20+%; needs --band-basis"),
    Argument("band-basis", "what the band is a share of", kind="choice", choices=("month", "hour", "launch")),
    Argument("mean-run", "mean run that users end themselves, for --band-basis launch", kind="hours"),
    Argument("pool", "take band and discount of this pool from the pulled figures", kind="pool"),
    Argument("feed", "with --pool: a Spot Advisor file instead of the pulled copy", kind="path"),
    Argument("lost", "billed time lost per reclaim (10m)", kind="duration"),
    Argument("checkpoint-cost", "how long the job stands still for a save (36s)", kind="duration"),
    Argument("restore", "from the start of billing to the job running again (3m)", kind="duration"),
    Argument("upload", "time until a save is durable, while the job runs on (2m)", kind="duration"),
    Argument(
        "interval",
        "work between two saves, or auto: the recommended one (default)",
        kind="duration",
        choices=("auto",),
    ),
    Argument(
        "size", "bytes of a checkpoint (670GiB); with --bandwidth gives the time of a save", kind="size"
    ),
    Argument("bandwidth", "measured bytes per second to the store (10GB/s)", kind="rate"),
    Argument("wait", "wait for capacity after a reclaim, not billed (default 0s)", kind="duration"),
    Argument("notice", "length of the reclaim notice in seconds (120) or as a duration", kind="seconds"),
    Argument("notice-reliability", "share of reclaims with a usable notice (default 0)", kind="fraction"),
    Argument("nodes", "nodes that stop together (default 1)", kind="int"),
    Argument("deadline", "from the start; prints the chance to finish by then (36h)", kind="duration"),
    Argument("no-resume", "the job starts over after every reclaim", kind="flag"),
    Argument("billing", "billing rule (default per-second)", kind="text"),
    Argument("max-overhead", "largest share of time spent saving (2%)", kind="fraction"),
    Argument("history-hours", "own observation: node-hours", kind="hours"),
    Argument("history-reclaims", "own observation: reclaims in those hours", kind="int"),
    Argument("check", "exit 8 when spot does not pay or the job never finishes", kind="flag"),
)

COMMANDS: tuple[Command, ...] = (
    Command(
        noun="plan",
        verb="",
        summary="what reclaims cost a job, and every break-even",
        handler="console.cli.commands.plan:run",
        arguments=_ARGUMENTS,
        examples=(
            Example(
                "reprieve plan --hours 24 --discount 0.7 --reclaims 3 --lost 10m",
                "cost and break-evens of one job",
            ),
            Example(
                "reprieve plan --hours 72 --discount 60% --rate 0.05 --checkpoint-cost 20s --restore 3m --deadline 90h",
                "the best interval, and the chance to finish in 90 h",
            ),
            Example(
                "reprieve plan --hours 24 --discount 0.7 --band '<5%' --band-basis month --size 670GiB --bandwidth 10GB/s "
                "--notice 120",
                "from a published band; does a final save fit the notice?",
            ),
        ),
        details=(
            "Give the discount or both prices; one of reclaims, rate, band or pool; and the loss per reclaim, or what a "
            "save and a restore cost. Spot pays while rL/H < d/(1 - d). Figures are expectations. A band is never read "
            "without its basis: 5 % of instances a month, an hour, or of launches are very different rates."
        ),
        formats=("table", "json", "yaml"),
    ),
)
