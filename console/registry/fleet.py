"""`fleet`: the nodes, what is installed on them, which may take jobs."""

from __future__ import annotations

from console.registry.common import NODE, PROVIDERS, TIMEOUT
from console.registry.model import Argument, Command, Example

_HANDLERS = "console.cli.commands.fleet"
_NODES = Argument(
    "names", "names of nodes (default: every node of the fleet)", kind="node", operand=True, many=True
)
_SOME = Argument("names", "names of nodes", kind="node", operand=True, many=True, required=True)

COMMANDS: tuple[Command, ...] = (
    Command(
        noun="fleet",
        verb="list",
        summary="nodes with state, notice, jobs and pool",
        handler=f"{_HANDLERS}:list_",
        arguments=(Argument("state", "only nodes in this state, such as ok or unreachable"),),
        examples=(
            Example("reprieve fleet list", "every node, with the age of what is known"),
            Example("reprieve fleet list -o name", "names only, for scripts"),
        ),
        listing=True,
    ),
    Command(
        noun="fleet",
        verb="show",
        summary="everything known of one node",
        handler=f"{_HANDLERS}:show",
        arguments=(NODE,),
        examples=(Example("reprieve fleet show gpu-a", "facts, guard, jobs, notice"),),
    ),
    Command(
        noun="fleet",
        verb="add",
        summary="put a node into the fleet's records",
        handler=f"{_HANDLERS}:add",
        tier=1,
        arguments=(
            NODE,
            Argument("ssh", "alias from ~/.ssh/config, or user@host:port", required=True),
            Argument("provider", "who rents it out", kind="choice", choices=PROVIDERS, default="none"),
            Argument("pool", "pool as provider/region/type/os", kind="pool"),
            Argument("instance", "the provider's id of the machine"),
            Argument(
                "identity-file", "private key for this node (default: agent and ssh_config)", kind="path"
            ),
            Argument("host-key", "public host key line to pin (default: known_hosts)"),
            Argument("set-label", "label KEY=VALUE of the node; may be repeated", many=True),
        ),
        examples=(
            Example(
                "reprieve fleet add gpu-a --ssh ubuntu@10.0.0.4 --provider aws", "a file nodes/gpu-a.toml"
            ),
        ),
        details="Records are written one file a node, beside files of your own, which are never rewritten.",
    ),
    Command(
        noun="fleet",
        verb="discover",
        summary="find running instances at a provider by tag and add them to the fleet's records",
        handler="console.cli.commands.fleet_discover:discover",
        tier=1,
        arguments=(
            Argument(
                "provider",
                "who is asked",
                kind="choice",
                choices=("aws", "gcp", "azure", "runpod", "vast", "kubernetes", "slurm"),
                operand=True,
                required=True,
            ),
            Argument(
                "region", "the region to look in, such as us-east-1; of Slurm the cluster (default: this one)"
            ),
            Argument(
                "tag",
                "only instances with this tag, KEY=VALUE; of Slurm name, partition, account or qos, of RunPod name, of Vast.ai label; may be repeated",
                required=True,
                many=True,
            ),
            Argument("user", "user name for SSH (default: that of ssh_config, else yours)"),
            Argument(
                "address",
                "which address SSH takes (default: the public one where there is one)",
                kind="choice",
                choices=("public", "private"),
            ),
            Argument(
                "identity-file", "private key for these nodes (default: agent and ssh_config)", kind="path"
            ),
        ),
        examples=(
            Example(
                "reprieve fleet discover aws --region us-east-1 --tag team=ml --user ubuntu --dry-run",
                "what would be added, with pool and instance id",
            ),
            Example(
                "reprieve fleet discover slurm --tag partition=preemptible", "your running Slurm jobs there"
            ),
        ),
        details=(
            "Each new node's host key is pinned as it is shown at the first contact; one that does not answer is not added. Nodes "
            "of the fleet are told by their instance id and left as they are."
        ),
        formats=("table", "json", "yaml"),
    ),
    Command(
        noun="fleet",
        verb="remove",
        summary="take a node out of the fleet's records; the machine is not touched",
        handler=f"{_HANDLERS}:remove",
        tier=2,
        arguments=(NODE,),
        examples=(Example("reprieve fleet remove gpu-a", "refused while it has protected jobs"),),
    ),
    Command(
        noun="fleet",
        verb="install",
        summary="install and start the guard on nodes",
        handler=f"{_HANDLERS}:install",
        tier=1,
        arguments=(_NODES, TIMEOUT),
        examples=(
            Example(
                "reprieve fleet install gpu-a --dry-run", "every file, unit and sudoers line it would write"
            ),
            Example("reprieve fleet install --yes", "on every node; the nodes need no internet"),
        ),
        details="Running jobs and the driver stay untouched; uninstall reverses every step.",
    ),
    Command(
        noun="fleet",
        verb="uninstall",
        summary="stop the guard and remove everything that install wrote",
        handler=f"{_HANDLERS}:uninstall",
        tier=2,
        arguments=(_SOME, TIMEOUT),
        examples=(Example("reprieve fleet uninstall gpu-a", "jobs run on, without protection"),),
        details=(
            "A node that holds a frozen older copy (zombie), or does not say whether it does, wants its name typed, or "
            "--yes --confirm NAME: without its guard nothing keeps that copy still. `jobs stop NAME --zombie-on NODE` ends it."
        ),
    ),
    Command(
        noun="fleet",
        verb="cordon",
        summary="place nothing new on a node",
        handler=f"{_HANDLERS}:cordon",
        tier=1,
        arguments=(NODE,),
        examples=(Example("reprieve fleet cordon gpu-a", "its jobs stay"),),
    ),
    Command(
        noun="fleet",
        verb="uncordon",
        summary="let a node take jobs again",
        handler=f"{_HANDLERS}:uncordon",
        tier=1,
        arguments=(NODE,),
        examples=(Example("reprieve fleet uncordon gpu-a", "the reverse of cordon"),),
    ),
    Command(
        noun="fleet",
        verb="fence",
        summary="turn a silent machine off and wait for the proof of it",
        handler=f"{_HANDLERS}:fence",
        tier=3,
        arguments=(NODE,),
        examples=(
            Example("reprieve fleet fence gpu-a --yes --confirm gpu-a", "refused while its guard answers"),
        ),
        details=(
            "By the node's fence command (fence = { command = [...] } in the fleet file), else by its provider. The "
            "command is run with `off`, then with `status`, which prints off or on; only a confirmed off is proof."
        ),
    ),
    Command(
        noun="fleet",
        verb="reap",
        summary="list, and remove, what this fleet rented or made at a provider and no live job uses",
        handler="console.cli.commands.renting.reap:reap",
        tier=3,
        arguments=(
            Argument(
                "provider",
                "where to look",
                kind="choice",
                choices=("aws", "gcp", "azure"),
                operand=True,
                required=True,
            ),
            Argument(
                "region", "only this region; may be repeated (default: all of the fleet's pools)", many=True
            ),
            Argument(
                "min-age",
                "leave younger machines that are no node of the fleet alone (default 15m)",
                kind="duration",
            ),
        ),
        examples=(
            Example("reprieve fleet reap aws --dry-run", "what carries this fleet's mark, and what would go"),
            Example("reprieve fleet reap aws --yes --confirm 2", "remove the two things that it listed"),
        ),
        details=(
            "Only what carries the mark of this fleet is listed: machines, their volumes, launch templates. A machine with a live "
            "job is kept, whatever its age. A region that cannot be asked is an error, never an empty list."
        ),
        formats=("table", "json", "yaml"),
    ),
    Command(
        noun="fleet",
        verb="doctor",
        summary="whether nodes can save and restore jobs, and what is missing",
        handler=f"{_HANDLERS}:doctor",
        arguments=(_NODES,),
        examples=(Example("reprieve fleet doctor gpu-a", "with a trial save of a tiny process on the node"),),
    ),
)
