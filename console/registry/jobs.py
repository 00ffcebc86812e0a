"""`jobs`: protect them, save them, bring them back."""

from __future__ import annotations

from console.registry.common import CHECKPOINT, JOB, NO_WAIT, POLICY, TIMEOUT, TO
from console.registry.model import Argument, Command, Example

_HANDLERS = "console.cli.commands.jobs"
_ATTACH = (
    Argument("pid", "process id of the running job's root process on the node", kind="int"),
    Argument("pid-file", "file on the node that holds the process id", kind="path"),
    Argument("container", "name or id of the running container"),
    Argument("slurm", "number of the running Slurm job", kind="int"),
)
_JOB_OR_GROUP = Argument("name", "name of the job (or give --group)", kind="job", operand=True)
_GROUP = Argument("group", "all jobs of this group instead of one job")

_LOOK = (
    Command(
        noun="jobs",
        verb="list",
        summary="jobs with state, work at risk, last checkpoint and node",
        handler=f"{_HANDLERS}:list_",
        arguments=(
            Argument("node", "only jobs on this node", kind="node"),
            Argument("state", "only jobs in this state, such as protected or overdue"),
        ),
        examples=(
            Example("reprieve jobs list", "every job of the fleet"),
            Example("reprieve jobs list -l team=ml -o json", "one document, jobs labelled team=ml only"),
        ),
        listing=True,
    ),
    Command(
        noun="jobs",
        verb="show",
        summary="everything known of one job",
        handler=f"{_HANDLERS}:show",
        arguments=(JOB,),
        examples=(Example("reprieve jobs show llama-ft", "state, checkpoints, measured costs, last events"),),
    ),
    Command(
        noun="jobs",
        verb="doctor",
        summary="whether a job can be saved and restored, and what stands in the way",
        handler=f"{_HANDLERS}:doctor",
        arguments=(
            Argument("name", "name of the job (or give --node and --pid)", kind="job", operand=True),
            Argument("node", "node where the process runs", kind="node"),
            Argument("pid", "process id on that node", kind="int"),
        ),
        examples=(
            Example("reprieve jobs doctor llama-ft", "a job of the fleet"),
            Example("reprieve jobs doctor --node gpu-a --pid 4121", "a process that is not protected yet"),
        ),
        details=(
            "Answers ok, needs_restart, self_save_only or impossible, each with the reason; for needs_restart "
            "also the exact line to restart the job with. Nothing is changed."
        ),
    ),
)

_PROTECT = (
    Command(
        noun="jobs",
        verb="run",
        summary="start a job on a node, under guard from its first second",
        handler=f"{_HANDLERS}:run",
        tier=2,
        arguments=(
            JOB,
            Argument(
                "command",
                "the command and its arguments, after -- (default: the fleet file's)",
                operand=True,
                many=True,
            ),
            Argument("node", "node to start it on (default: the fleet file's)", kind="node"),
            Argument("cwd", "directory to start in, on the node", kind="path"),
            *POLICY,
            NO_WAIT,
            TIMEOUT,
        ),
        examples=(
            Example("reprieve jobs run llama-ft --node gpu-a -- python train.py", "start and protect it"),
            Example("reprieve jobs run llama-ft", "start the job that the fleet file describes"),
        ),
        details=(
            "The trial save is taken at once, under this command's own confirmation; the interval starts "
            "after it. The command is run as it stands, without a shell."
        ),
    ),
    Command(
        noun="jobs",
        verb="protect",
        summary="take a running process under guard",
        handler=f"{_HANDLERS}:protect",
        tier=2,
        arguments=(
            JOB,
            Argument("node", "node the job runs on (default: the fleet file's)", kind="node"),
            *_ATTACH,
            *POLICY,
            NO_WAIT,
            TIMEOUT,
        ),
        examples=(
            Example(
                "reprieve jobs protect llama-ft --node gpu-a --pid 4121",
                "pin the process and take the trial save",
            ),
            Example(
                "reprieve jobs protect llama-ft --node gpu-a --pid 4121 --interval 10m --yes",
                "without asking",
            ),
        ),
        details=(
            "Exactly one of --pid, --pid-file, --container and --slurm names the process; it is pinned by pid and "
            "start time. The trial save pauses the job once: the question tells pause, bytes and risk."
        ),
    ),
    Command(
        noun="jobs",
        verb="unprotect",
        summary="end the protection of a job; the process runs on",
        handler=f"{_HANDLERS}:unprotect",
        tier=2,
        arguments=(JOB,),
        examples=(Example("reprieve jobs unprotect llama-ft", "no more saves; its checkpoints stay"),),
    ),
    Command(
        noun="jobs",
        verb="rehearse",
        summary="restore the newest checkpoint on another node, prove it runs, end it there",
        handler=f"{_HANDLERS}:rehearse",
        tier=1,
        arguments=(
            JOB,
            Argument("to", "node to rehearse on (default: another compatible one)", kind="node"),
            TIMEOUT,
        ),
        examples=(
            Example("reprieve jobs rehearse llama-ft --to gpu-b", "the job becomes protected when it works"),
        ),
        details="No epoch, no network, scratch copies of the job's files; the job itself is not touched.",
    ),
)

_ACT = (
    Command(
        noun="jobs",
        verb="save",
        summary="save a job now, or a group of jobs at one instant",
        handler=f"{_HANDLERS}:save",
        tier=1,
        arguments=(_JOB_OR_GROUP, _GROUP, NO_WAIT, TIMEOUT),
        examples=(
            Example("reprieve jobs save llama-ft --yes", "one save outside the interval"),
            Example("reprieve jobs save --group ranks --yes", "all jobs of the group, at one instant"),
        ),
        details=(
            "With --group all its jobs are frozen at one instant, then all saved, then all run on; the group save exists "
            "once every job's is durable, or not at all. Their TCP connections come back closed."
        ),
    ),
    Command(
        noun="jobs",
        verb="restore",
        summary="bring a job or a group back from a checkpoint, once the old process is proven gone",
        handler=f"{_HANDLERS}:restore",
        tier=2,
        arguments=(
            _JOB_OR_GROUP,
            _GROUP,
            Argument(
                "group-save", "number of the group save (default: the newest that is whole)", kind="int"
            ),
            TO,
            CHECKPOINT,
            Argument(
                "i-know-it-is-dead", "the job's name: your word that its old process is gone", kind="job"
            ),
            Argument(
                "force",
                "PROPERTY=REASON: set one refusal of the gate aside; kept in the record; may be repeated",
                many=True,
            ),
            NO_WAIT,
            TIMEOUT,
        ),
        examples=(
            Example("reprieve jobs restore llama-ft --to gpu-b", "after its node was lost"),
            Example("reprieve jobs restore llama-ft --dry-run", "what would be done, changing nothing"),
            Example("reprieve jobs restore --group ranks", "every job of the group, all from one group save"),
        ),
        details=(
            "Refused with exit 10 while nothing proves that the old process is gone: a silent node is not a dead "
            "one. --i-know-it-is-dead records your word as the proof; the environment cannot give it. With --group, jobs of "
            "the group that live are ended first, so that all go on from one moment (tier 3 then)."
        ),
    ),
    Command(
        noun="jobs",
        verb="move",
        summary="save a job here, end it, restore it on another node",
        handler=f"{_HANDLERS}:move",
        tier=2,
        arguments=(
            JOB,
            Argument("to", "node or pool to move to", kind="node", required=True),
            NO_WAIT,
            TIMEOUT,
        ),
        examples=(Example("reprieve jobs move llama-ft --to gpu-b", "with a last save, so no work is lost"),),
    ),
    Command(
        noun="jobs",
        verb="set",
        summary="change a job's policy",
        handler=f"{_HANDLERS}:set_",
        tier=1,
        arguments=(
            JOB,
            Argument(
                "changes",
                "KEY=VALUE with the keys of the fleet file, such as interval=10m",
                operand=True,
                required=True,
                many=True,
            ),
        ),
        examples=(Example("reprieve jobs set llama-ft interval=10m", "save every ten minutes"),),
    ),
    Command(
        noun="jobs",
        verb="pause",
        summary="suspend the protection of a job; the process runs on",
        handler=f"{_HANDLERS}:pause",
        tier=2,
        arguments=(JOB,),
        examples=(Example("reprieve jobs pause llama-ft", "no saves and no restore until resumed"),),
    ),
    Command(
        noun="jobs",
        verb="resume",
        summary="take up the protection of a paused job",
        handler=f"{_HANDLERS}:resume",
        tier=1,
        arguments=(JOB,),
        examples=(Example("reprieve jobs resume llama-ft", "the next save follows at once"),),
    ),
    Command(
        noun="jobs",
        verb="stop",
        summary="save a job, then end its process",
        handler=f"{_HANDLERS}:stop",
        tier=2,
        arguments=(
            JOB,
            Argument(
                "now", "skip the save: work since the last one is lost (irreversible: tier 3)", kind="flag"
            ),
            Argument(
                "zombie-on",
                "end only the frozen older copy that this node holds; the job runs on where it is (tier 3)",
                kind="node",
            ),
            NO_WAIT,
            TIMEOUT,
        ),
        examples=(
            Example("reprieve jobs stop llama-ft", "nothing is lost"),
            Example("reprieve jobs stop llama-ft --now --yes --confirm llama-ft", "without a last save"),
            Example(
                "reprieve jobs stop llama-ft --zombie-on gpu-a", "after gpu-a came back with an old copy"
            ),
        ),
        details=(
            "--zombie-on ends a copy that its guard froze because a newer epoch exists, and nothing else: the guard looks "
            "into the store once more and refuses where that process is the job itself."
        ),
    ),
    Command(
        noun="jobs",
        verb="remove",
        summary="forget a job's record; neither its process nor its checkpoints are touched",
        handler=f"{_HANDLERS}:remove",
        tier=2,
        arguments=(JOB,),
        examples=(Example("reprieve jobs remove llama-ft", "a tombstone is left in the store"),),
    ),
)

COMMANDS: tuple[Command, ...] = _LOOK + _PROTECT + _ACT
