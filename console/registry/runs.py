"""`batch`, `watch`, `operations`: many restores, restores by policy, and what is under way."""

from __future__ import annotations

from console.registry.common import LIMIT
from console.registry.model import Argument, Command, Example

_BATCH = "console.cli.commands.batch"
_OPERATIONS = "console.cli.commands.operations"
_HOW = (
    Argument("max-parallel", "restores at once", kind="int", default="4"),
    Argument("fail-fast", "start nothing more after the first failure", kind="flag"),
    Argument("keep-going", "go on after a failure (the default)", kind="flag"),
)
_SERVICE = (
    Argument(
        "form", "what it becomes (default: what this machine has)", kind="choice", choices=("systemd", "cron")
    ),
    Argument("program", "the reprieve to run (default: the one on PATH)", kind="path"),
)
_RUN = Argument("run", "id of the batch run", operand=True, required=True)

COMMANDS: tuple[Command, ...] = (
    Command(
        noun="batch",
        verb="restore",
        summary="restore many jobs from a file",
        handler=f"{_BATCH}:restore",
        tier=2,
        arguments=(
            Argument(
                "file",
                "TOML, JSON, NDJSON or CSV file of items {job, checkpoint, to}; - reads standard input",
                kind="path",
                operand=True,
                required=True,
            ),
            *_HOW,
            Argument("resume", "continue the run that this file started before", kind="flag"),
        ),
        examples=(
            Example("reprieve batch restore lost.csv --dry-run", "the plan it would run"),
            Example("reprieve batch restore lost.csv --yes -o ndjson", "one line an item, as it ends"),
        ),
        details="Exit 3 when some items failed. Killed at any moment, `batch resume RUN` goes on where it was.",
    ),
    Command(
        noun="batch",
        verb="resume",
        summary="go on with a batch run that was interrupted",
        handler=f"{_BATCH}:resume",
        tier=2,
        arguments=(_RUN, *_HOW),
        examples=(Example("reprieve batch resume 20261201-0312-a7 --yes", "restores nothing twice"),),
    ),
    Command(
        noun="batch",
        verb="list",
        summary="batch runs with their counts",
        handler=f"{_BATCH}:list_",
        arguments=(LIMIT,),
        examples=(Example("reprieve batch list", "newest first"),),
        listing=True,
    ),
    Command(
        noun="batch",
        verb="show",
        summary="the items of one batch run",
        handler=f"{_BATCH}:show",
        arguments=(_RUN,),
        examples=(Example("reprieve batch show 20261201-0312-a7", "state and reason of each item"),),
    ),
    Command(
        noun="watch",
        verb="",
        summary="the controller: detects losses and restores jobs by policy",
        handler="console.cli.commands.watching.watch:run",
        tier=2,
        arguments=(
            Argument("every", "time between two looks at the fleet (default 5s)", kind="duration"),
            Argument("once", "one look and one round of upkeep, then exit", kind="flag"),
            Argument("if-not-running", "end at once, with exit 0, where one runs already", kind="flag"),
            Argument(
                "metrics-file",
                "keep this file in Prometheus' text format, for a node's collector",
                kind="path",
            ),
            Argument("metrics-port", "serve the same at http://127.0.0.1:PORT/metrics", kind="int"),
            Argument(
                "retain-every", "time between two runs of retention (default 1h; 0s: never)", kind="duration"
            ),
            Argument(
                "scrub-every",
                "time between two checks of a job's checkpoints (default 1d; 0s: never)",
                kind="duration",
            ),
        ),
        examples=(
            Example("reprieve watch", "runs until stopped; keep it off the spot nodes"),
            Example(
                "reprieve watch -o ndjson --metrics-port 9464", "structured log on stdout, metrics on a port"
            ),
            Example("reprieve watch --once --dry-run", "what it would do now"),
        ),
        details=(
            "Restores onto owned compatible nodes only, unless a job says otherwise; never without proof that the "
            "old process is gone. It also reads checkpoints back and deletes those that retention lets go, as `checkpoints prune NAME "
            "--dry-run` prints. Starting it is the consent: it asks nothing. One a fleet and machine: a second one "
            "exits 7. News go to the webhook of news_webhook_file and to news_command, where those are set."
        ),
    ),
    Command(
        noun="watch",
        verb="install",
        summary="make the controller a service here: a systemd unit, or crontab lines",
        handler="console.cli.commands.watching.service:install",
        tier=2,
        arguments=_SERVICE,
        examples=(
            Example("reprieve watch install --dry-run", "the unit or the lines, and where they go"),
            Example("reprieve watch install --yes", "as root for the machine, else for this user"),
        ),
        details=(
            "Run it on a machine that is not reclaimed. Without root, `loginctl enable-linger` lets it run while you are "
            "logged out. Settings stay in config.toml; nothing secret is written into the unit."
        ),
    ),
    Command(
        noun="watch",
        verb="uninstall",
        summary="stop the service and take away what install wrote",
        handler="console.cli.commands.watching.service:uninstall",
        tier=2,
        arguments=_SERVICE,
        examples=(Example("reprieve watch uninstall --yes", "jobs stay under their guards"),),
    ),
    Command(
        noun="watch",
        verb="test-alert",
        summary="send one alert through every channel for news, and say which arrived",
        handler="console.cli.commands.watching.watch:test_alert",
        tier=1,
        examples=(Example("reprieve watch test-alert --yes", "exit 1 when a channel fails"),),
        details=(
            "Channels are settings of config.toml: news_webhook_file names a file (0600) that holds an https address, "
            "news_command a program that reads one JSON document on standard input."
        ),
    ),
    Command(
        noun="operations",
        verb="list",
        summary="operations under way and recent ones",
        handler=f"{_OPERATIONS}:list_",
        arguments=(LIMIT,),
        examples=(Example("reprieve operations list", "saves, restores, moves, batches"),),
        listing=True,
    ),
    Command(
        noun="operations",
        verb="show",
        summary="the journal of one operation, step by step",
        handler=f"{_OPERATIONS}:show",
        arguments=(Argument("id", "id of the operation", operand=True, required=True),),
        examples=(
            Example("reprieve operations show 20261201-0312-a7", "each step with its time and result"),
        ),
    ),
)
