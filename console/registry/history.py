"""`events` and `report`: what happened, and what it cost."""

from __future__ import annotations

from console.registry.common import LIMIT
from console.registry.model import Argument, Command, Example

_FILTERS = (
    Argument("node", "only events of this node", kind="node"),
    Argument("job", "only events of this job", kind="job"),
    Argument("kind", "only kinds that start with this, such as save or notice.seen"),
)

COMMANDS: tuple[Command, ...] = (
    Command(
        noun="replay",
        verb="",
        summary="a recorded console session, at any moment: what happened at 03:12?",
        handler="console.cli.commands.replay:run",
        arguments=(
            Argument(
                "file",
                "the recording (default: the context's newest that holds the time)",
                kind="path",
                operand=True,
            ),
            Argument("at", "moment to show, UTC: 03:12, 03:12:30 or RFC 3339 (default: the last one)"),
        ),
        examples=(
            Example("reprieve replay --at 03:12", "the screens as they were; without a terminal as text"),
            Example("reprieve replay --at 03:12 -o json", "the same as one document"),
        ),
        details="Sessions are recorded where console.toml says `record = true`. A replay changes nothing.",
    ),
    Command(
        noun="events",
        verb="list",
        summary="the history of the fleet, oldest first",
        handler="console.cli.commands.events:list_",
        arguments=(
            *_FILTERS,
            Argument("since", "only the last so much time, such as 2h", kind="duration"),
            LIMIT,
        ),
        examples=(
            Example("reprieve events list --since 2h", "what the last two hours brought"),
            Example("reprieve events list --job llama-ft -o ndjson", "one event a line, for scripts"),
        ),
        listing=True,
    ),
    Command(
        noun="events",
        verb="tail",
        summary="follow events as they come",
        handler="console.cli.commands.events:tail",
        arguments=_FILTERS,
        examples=(Example("reprieve events tail -o ndjson", "until interrupted"),),
        formats=("table", "wide", "ndjson"),
    ),
    Command(
        noun="report",
        verb="",
        summary="what reclaims cost: lost work, restore and wait, each measured",
        handler="console.cli.commands.report:run",
        arguments=(
            Argument("job", "only this job", kind="job"),
            Argument("since", "only the last so much time, such as 30h", kind="duration"),
            Argument("discount", "spot discount to hold the loss against, as 0.7 or 70%", kind="fraction"),
            Argument("by", "the books, a line a group", kind="choice", choices=("job", "pool", "month")),
            Argument(
                "prices", "on-demand prices: CSV of region,instance_type,usd_per_hour[,os]", kind="path"
            ),
            Argument("store-price", "USD per GiB and month of storage", kind="float"),
            Argument("transfer-price", "USD per GiB moved to or from the store", kind="float"),
        ),
        details=(
            "With --by: running hours as they were seen, lost work, restores, measured L beside the plan's, hours and USD saved "
            "against on-demand net of fallback, storage and transfer, and the rate that the planner takes from this history. A "
            "figure whose price or discount is not known is –, never 0. -o csv gives every figure."
        ),
        examples=(
            Example("reprieve report", "each reclaim and the totals, with rL/H beside d/(1-d)"),
            Example("reprieve report --by month --discount 70% -o csv", "for a spreadsheet"),
            Example("reprieve report --job llama-ft -o json", "one job, for scripts"),
        ),
    ),
)
