"""`reprieve pools`: pools with discount, interruption figure, break-even, and their rank for a job."""

from __future__ import annotations

from console.registry.model import Argument, Command, Example
from console.registry.planning import JOB, LOSS

COMMANDS: tuple[Command, ...] = (
    Command(
        noun="pools",
        verb="list",
        summary="pools with discount, interruption figure and break-even; ranked for a job",
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
            Argument("providers", "these, comma separated (default aws): aws, azure, gcp, runpod, vast"),
            Argument(
                "eviction-basis",
                "what Azure's eviction share is a share per: month or hour (default: no rate follows from it)",
                kind="choice",
                choices=("month", "hour"),
            ),
            Argument(
                "gpu", "only types with this GPU and count, MODEL:N (H100:8); unknown types are left out"
            ),
            Argument(
                "prices",
                "CSV of on-demand prices: columns region, instance_type, usd_per_hour, maybe os",
                kind="path",
            ),
            Argument(
                "by",
                "rank by expected cost, or by the chance to meet the deadline first (default cost)",
                kind="choice",
                choices=("cost", "deadline"),
            ),
            Argument("limit", "at most this many rows, best first", kind="int"),
            *JOB,
            *LOSS,
        ),
        examples=(
            Example("reprieve pools list --region us-east-1 --instance 'p5*'", "GPU pools of one region"),
            Example(
                "reprieve pools list --gpu H100:8 --hours 24 --checkpoint-cost 36s --restore 3m --prices prices.csv",
                "8-GPU pools by expected cost to finish a job",
            ),
            Example(
                "reprieve pools list --feed spot-advisor-2025-06.json.gz -o json",
                "from a file, for a program",
            ),
        ),
        details=(
            "Bands are read from their labels. A saving the feed does not know is shown as –, a negative one as it is. "
            "The feed has no date of its own: the snapshot's date and where it comes from are shown. With --job, or --hours "
            "and a loss, pools are ranked by expected cost to finish at the high end of their band: in USD where --prices "
            "knows the type, else in on-demand hours of each type; RATE MAX is the reclaim rate up to which a pool still pays."
        ),
        listing=True,
    ),
    Command(
        noun="pools",
        verb="pull",
        summary="refresh the published figures",
        handler="console.cli.commands.pools:pull",
        arguments=(
            Argument("feed", "a file or URL (default: the provider's public feed)", kind="path"),
            Argument(
                "prices",
                "spot and on-demand prices of this provider instead: asked for, or from a table by --feed",
                kind="choice",
                choices=("aws", "azure", "gcp", "runpod", "vast"),
            ),
            Argument(
                "figures",
                "whose interruption figures (default aws); azure: from a file of `az graph query`, or with a token; gcp: of --instance in --region",
                kind="choice",
                choices=("aws", "azure", "gcp"),
            ),
            Argument("region", "with --prices, or --figures gcp: the region, such as us-east-1 or eastus"),
            Argument(
                "instance",
                "with --prices, or --figures gcp: instance types, comma separated; aws: patterns too (p5*)",
            ),
            Argument(
                "os",
                "with --prices: operating system (default linux)",
                kind="choice",
                choices=("linux", "windows"),
            ),
        ),
        examples=(
            Example("reprieve pools pull", "from the public feed; nothing is fetched when nothing changed"),
            Example(
                "reprieve pools pull --feed spot-advisor.json.gz",
                "from a file, on a machine without internet",
            ),
            Example(
                "reprieve pools pull --prices aws --region us-east-1 --instance p5.48xlarge,g6e.12xlarge",
                "prices in force, for `pools list`; needs boto3 and credentials",
            ),
            Example(
                "reprieve pools pull --prices gcp --feed prices.csv.gz",
                "from a table with columns region, instance_type, spot_usd_per_hour, on_demand_usd_per_hour",
            ),
        ),
        details=(
            "Prices are kept with their source, basis and age, and `pools list` takes the discount from them where both are "
            "known. What could not be had stays as it was pulled last."
        ),
        formats=("table", "json", "yaml"),
    ),
    Command(
        noun="pools",
        verb="test",
        summary="try how machines of a pool are launched, without creating one",
        handler="console.cli.commands.renting.trial:try_pool",
        tier=1,
        arguments=(
            Argument("pool", "pool as provider/region/type/os", kind="pool", operand=True, required=True),
            Argument("market", "whose request (default spot)", kind="choice", choices=("spot", "on_demand")),
        ),
        examples=(
            Example(
                "reprieve pools test aws/us-east-1/g5.xlarge/linux --dry-run",
                "the exact request, nothing sent",
            ),
            Example("reprieve pools test aws/us-east-1/g5.xlarge/linux --yes", "EC2's own dry run of it"),
        ),
        details=(
            "`jobs protect` records how the node's machine was launched, and tries it. A pool without a tested record is "
            "not_launchable: nothing is ever rented there."
        ),
        formats=("table", "json", "yaml"),
    ),
)
