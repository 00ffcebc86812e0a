"""`reprieve plan` and `plan sweep`: what reclaims cost a job, every break-even, and the same over grids."""

from __future__ import annotations

from console.registry.model import Argument, Command, Example
from console.registry.planning import EVERYTHING

COMMANDS: tuple[Command, ...] = (
    Command(
        noun="plan",
        verb="",
        summary="what reclaims cost a job, and every break-even",
        handler="console.cli.commands.plan:run",
        arguments=(
            *EVERYTHING,
            Argument(
                "plot",
                "draw cost against interval, saving against r, and the law of the makespan",
                kind="flag",
            ),
            Argument("check", "exit 8 when spot does not pay or the job never finishes", kind="flag"),
        ),
        examples=(
            Example(
                "reprieve plan --hours 24 --discount 0.7 --reclaims 3 --lost 10m",
                "cost and break-evens of one job",
            ),
            Example(
                "reprieve plan --hours 72 --discount 60% --rate 0.05 --checkpoint-cost 20s --restore 3m --deadline 90h --plot",
                "the best interval, and the chance to finish in 90 h",
            ),
            Example(
                "reprieve plan --hours 24 --discount 0.7 --band '<5%' --band-basis month --size 670GiB --bandwidth 10GB/s "
                "--notice 120",
                "from a published band; does a final save fit the notice?",
            ),
        ),
        details=(
            "Give the discount or both prices; one of reclaims, rate, band, pool or lifetime; and the loss per reclaim, or "
            "what a save and a restore cost. Spot pays while rL/H < d/(1 - d). Figures are expectations. A band is never "
            "read without its basis: 5 % of instances a month, an hour, or of launches are very different rates."
        ),
        formats=("table", "json", "yaml"),
    ),
    Command(
        noun="plan",
        verb="sweep",
        summary="the same over a grid of inputs",
        handler="console.cli.commands.plan:sweep",
        arguments=(
            Argument(
                "grid", "NAME=LO..HI:STEPS[log], or NAME=A,B,C; may be repeated", required=True, many=True
            ),
            Argument(
                "on", "dask://HOST:PORT: hand the chunks to a Dask cluster of your own (extra reprieve[dask])"
            ),
            Argument("workers", "threads (default: one a core)", kind="int", allowed="at least 1"),
            Argument("plot", "draw curves (one axis) or a heat map (two axes)", kind="flag"),
            *EVERYTHING,
        ),
        examples=(
            Example(
                "reprieve plan sweep --hours 24 --discount 0.7 --checkpoint-cost 36s --restore 3m --grid interval=1m..2h:20log "
                "--grid rate=0.01..1:20log -o csv",
                "400 scenarios as CSV",
            ),
            Example(
                "reprieve plan sweep --hours 24 --discount 0.7 --lost 10m --grid reclaims=0..400:41 --plot",
                "saving against the number of reclaims",
            ),
        ),
        details=(
            "Any numeric input of plan can be an axis; what is not an axis is given as for plan. LO and HI are typed like the "
            "option itself; STEPS counts both ends. Axes of one name are refused. CSV and ndjson are written as they come."
        ),
        formats=("table", "csv", "json", "ndjson"),
    ),
)
