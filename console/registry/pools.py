"""`reprieve pools`: pools with discount, interruption figure and break-even."""

from __future__ import annotations

from console.registry.model import Argument, Command, Example

COMMANDS: tuple[Command, ...] = (
    Command(
        noun="pools",
        verb="list",
        summary="pools with discount, interruption figure and break-even",
        handler="console.cli.commands.pools:list_pools",
        arguments=(
            Argument(
                "feed",
                "a Spot Advisor file (.json or .json.gz) or URL; default: the pulled copy",
                kind="path",
            ),
            Argument("region", "only this region (us-east-1)"),
            Argument("instance", "only instance types that match this pattern (p5*)"),
            Argument("os", "operating system (default linux)", kind="choice", choices=("linux", "windows")),
            Argument("max-band", "only pools whose band ends at or below this share (10%)", kind="fraction"),
        ),
        examples=(
            Example("reprieve pools list --region us-east-1 --instance 'p5*'", "GPU pools of one region"),
            Example(
                "reprieve pools list --feed spot-advisor-2025-06.json.gz -o json",
                "from a file, for a program",
            ),
        ),
        details=(
            "Bands are read from their labels. A saving the feed does not know is shown as –, a negative one as it is. "
            "The feed has no date of its own: the snapshot's date and where it comes from are shown."
        ),
        listing=True,
    ),
    Command(
        noun="pools",
        verb="pull",
        summary="refresh the published figures",
        handler="console.cli.commands.pools:pull",
        arguments=(Argument("feed", "a file or URL (default: the provider's public feed)", kind="path"),),
        examples=(
            Example("reprieve pools pull", "from the public feed; nothing is fetched when nothing changed"),
            Example(
                "reprieve pools pull --feed spot-advisor.json.gz",
                "from a file, on a machine without internet",
            ),
        ),
        formats=("table", "json", "yaml"),
    ),
)
