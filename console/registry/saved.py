"""`checkpoints` and `store`: what jobs can come back to, and where it lies."""

from __future__ import annotations

from console.registry.common import JOB
from console.registry.model import Argument, Command, Example

_CHECKPOINTS = "console.cli.commands.checkpoints"
_STORE = "console.cli.commands.store"
_ID = Argument("checkpoint", "checkpoint as <epoch>.<seq>", kind="checkpoint", operand=True, required=True)
_URL = Argument("url", "store URL (default: the fleet's store)", kind="url", operand=True)

COMMANDS: tuple[Command, ...] = (
    Command(
        noun="checkpoints",
        verb="list",
        summary="checkpoints of a job or of all, newest first",
        handler=f"{_CHECKPOINTS}:list_",
        arguments=(Argument("name", "name of the job (default: all)", kind="job", operand=True),),
        examples=(Example("reprieve checkpoints list llama-ft", "with size, age, verified and rehearsed"),),
        listing=True,
    ),
    Command(
        noun="checkpoints",
        verb="show",
        summary="the manifest of one checkpoint in plain words",
        handler=f"{_CHECKPOINTS}:show",
        arguments=(JOB, _ID),
        examples=(
            Example("reprieve checkpoints show llama-ft 2.14", "files, versions, timings, fingerprint"),
        ),
    ),
    Command(
        noun="checkpoints",
        verb="verify",
        summary="read a checkpoint back and check every digest; only reads it",
        handler=f"{_CHECKPOINTS}:verify",
        arguments=(
            JOB,
            Argument(
                "checkpoint",
                "checkpoint as <epoch>.<seq> (default: the newest)",
                kind="checkpoint",
                operand=True,
            ),
            Argument("sample", "share of the bytes to read (default 10%)", kind="fraction"),
            Argument("full", "read every byte", kind="flag"),
        ),
        examples=(Example("reprieve checkpoints verify llama-ft --full", "every byte of the newest one"),),
    ),
    Command(
        noun="checkpoints",
        verb="fits",
        summary="which nodes, and which pools not rented yet, could take a job's checkpoint",
        handler="console.cli.commands.fits:run",
        arguments=(
            JOB,
            Argument(
                "checkpoint",
                "checkpoint as <epoch>.<seq> (default: the newest usable one)",
                kind="checkpoint",
            ),
            Argument("pools", "show at most this many pools; 0 leaves them out (default 10)", kind="int"),
            Argument("region", "only pools of this region"),
            Argument("instance", "only pools of instance types like this, such as p5*"),
            Argument("feed", "Spot Advisor file or URL instead of the pulled copy", kind="path"),
        ),
        examples=(
            Example("reprieve checkpoints fits llama-ft", "before the reclaim, not after it"),
            Example("reprieve checkpoints fits llama-ft --region us-east-1 -o json", "with every property"),
        ),
        details=(
            "Each node is asked now and answers fits, fits_with_warnings, refused or unknown, with the property and both "
            "values. A pool can only be could, refused or unknown: what a machine of it has is known once one answers. "
            "Exit 6 when no other node of the fleet can take it."
        ),
        listing=True,
    ),
    Command(
        noun="checkpoints",
        verb="prune",
        summary="delete checkpoints that the job's retention no longer keeps",
        handler=f"{_CHECKPOINTS}:prune",
        tier=3,
        arguments=(
            JOB,
            Argument("keep-last", "keep this many (default: the job's, 3)", kind="int"),
            Argument("min-age", "delete nothing younger (default: the job's, 24h)", kind="duration"),
        ),
        examples=(
            Example("reprieve checkpoints prune llama-ft --dry-run", "what would go, and what stays"),
            Example("reprieve checkpoints prune llama-ft --yes --confirm llama-ft", "delete without asking"),
        ),
    ),
    Command(
        noun="store",
        verb="init",
        summary="make a store ready: probe its promises, escrow the fleet's keys",
        handler=f"{_STORE}:init",
        tier=1,
        arguments=(_URL,),
        examples=(
            Example("reprieve store init file:///srv/reprieve", "prints the least-privilege policy too"),
        ),
    ),
    Command(
        noun="store",
        verb="check",
        summary="probe the store: create if absent, read and list after write, room, keys",
        handler=f"{_STORE}:check",
        tier=1,
        arguments=(_URL,),
        examples=(Example("reprieve store check --yes", "writes and deletes a few small probe objects"),),
    ),
)
