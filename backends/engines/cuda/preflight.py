"""What is known to break a save of GPU state, with what to set before the job starts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from backends.engines.cuda.ladder import Abilities
from backends.engines.port import Answer
from backends.engines.proc import Member, Tree
from backends.engines.profile import Finding

# Costs NVLink's speed between the GPUs of one node, and is what lets NCCL be saved today.
NCCL = (("NCCL_P2P_DISABLE", "1"), ("NCCL_NVLS_ENABLE", "0"), ("NCCL_SHM_DISABLE", "1"))
# How launchers tell a process of all processes of its job, and of those on this node: torchrun, Open MPI, MPICH and Slurm.
RANKS = (
    ("WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_SIZE", "MPI_LOCALNRANKS"),
)
NODES = "SLURM_NNODES"
VARIABLES = frozenset(
    {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_CHECKPOINT_JOB_FILE", NODES, *(name for name, _ in NCCL)}
    | {name for pair in RANKS for name in pair}
)
DEVICES = ("/dev/nvidia",)


@dataclass(frozen=True)
class Surroundings:
    """What beside the tree itself decides."""

    cuda: frozenset[int]  # outer pids with CUDA state
    environments: Mapping[int, Mapping[str, str]]  # by outer pid; only VARIABLES
    abilities: Abilities
    partitioned: bool | None  # MIG on any GPU
    arch: str
    device_bytes: int | None  # used by the job on all GPUs
    memory_free_bytes: int | None  # of the host
    staging_free_bytes: int | None
    resident_bytes: int  # of the tree, before the GPU memory comes to it


def holders(tree: Tree) -> list[Member]:
    """Processes that have an NVIDIA device open or mapped."""
    return [m for m in tree.members if any(_paths(m, DEVICES))]


def without_devices(tree: Tree) -> Tree:
    """The tree as CRIU will find it once the GPU state is taken: the driver has closed its devices."""
    members = (
        replace(
            m,
            descriptors=tuple(d for d in m.descriptors if not d.path.startswith(DEVICES)),
            mappings=tuple(x for x in m.mappings if not x.path.startswith(DEVICES)),
        )
        for m in tree.members
    )
    return Tree(tuple(members))


def findings(tree: Tree, around: Surroundings) -> Iterator[Finding]:
    """Everything in the way."""
    if around.abilities.problem:
        yield Finding("self_save_only", around.abilities.problem)
    if around.arch in ("aarch64", "arm64"):
        yield Finding(
            "self_save_only", "GPU state cannot be saved on arm64 by the drivers known: let it save itself"
        )
    if around.partitioned:
        yield Finding(
            "self_save_only",
            "a GPU is partitioned (MIG), which cuda-checkpoint does not support: use a whole GPU, or let it save itself",
        )
    if not around.cuda:
        yield Finding("impossible", "no process of the job uses CUDA: the engine criu saves it")
    if len(around.cuda) > 1 and not around.abilities.trees:
        yield Finding(
            "self_save_only", f"{len(around.cuda)} processes use CUDA: a driver from 570 is needed for that"
        )
    yield from _of_children(tree, around)
    for member in tree.members:
        yield from _of_member(member, around)
    yield from _of_room(around)


def _of_children(tree: Tree, around: Surroundings) -> Iterator[Finding]:
    forked = [m for m in holders(tree) if m.outer_pid not in around.cuda]
    if not forked or not around.cuda:
        return
    who = ", ".join(f"{m.outer_pid} ({m.name})" for m in forked[:4])
    answer: Answer = "needs_restart" if around.abilities.jobs else "self_save_only"
    yield Finding(
        answer,
        f"process {who} was forked after CUDA began and holds its parent's devices: start workers with spawn, or before "
        f"CUDA" + (", or start the job under cuda-checkpoint --launch-job" if around.abilities.jobs else ""),
    )


def _of_member(member: Member, around: Surroundings) -> Iterator[Finding]:
    who = f"process {member.outer_pid} ({member.name})"
    environment = around.environments.get(member.outer_pid, {})
    if "CUDA_MPS_PIPE_DIRECTORY" in environment or any(_paths(member, ("/tmp/nvidia-mps",))):
        yield Finding(
            "needs_restart",
            f"{who} shares its GPU through MPS, which cuda-checkpoint does not support: end MPS (echo quit | "
            f"nvidia-cuda-mps-control) and start the job without CUDA_MPS_PIPE_DIRECTORY",
        )
    if any(_paths(member, ("/dev/shm/cuda.shm.",))) and "CUDA_CHECKPOINT_JOB_FILE" not in environment:
        yield Finding(
            "self_save_only",
            f"{who} shares GPU memory with another process (CUDA IPC): such saves hang or do not restore; start it "
            f"without, or let it save itself",
        )
    if any("libnccl.so" in mapping.path for mapping in member.mappings) and across_nodes(environment):
        yield Finding(
            "self_save_only",
            f"{who} is one rank of a job on several nodes and uses NCCL: its connections between nodes do not come back, and "
            f"its GPU memory cannot be saved at one moment with the others': let the program save itself (engine signal)",
        )
    if len(around.cuda) > 1 and any("libnccl.so" in mapping.path for mapping in member.mappings):
        missing = tuple(f"{name}={value}" for name, value in NCCL if environment.get(name) != value)
        if missing:
            yield Finding(
                "needs_restart",
                f"{who} uses NCCL over P2P, NVLS or shared memory, which cannot be saved: restart it with "
                f"{' '.join(missing)} (this costs NVLink's speed)",
                missing,
            )


def across_nodes(environment: Mapping[str, str]) -> bool:
    """Whether what a launcher left in the environment says that the job has processes on other nodes."""
    for whole, here in RANKS:
        all_ranks, local = environment.get(whole, ""), environment.get(here, "")
        if all_ranks.isdigit() and local.isdigit() and int(all_ranks) > int(local):
            return True
    nodes = environment.get(NODES, "")
    return nodes.isdigit() and int(nodes) > 1


def _of_room(around: Surroundings) -> Iterator[Finding]:
    """All device bytes land in host memory first, and then on the disk."""
    need = around.device_bytes
    if need is None:
        yield Finding(
            "ok", "how much GPU memory it uses is unknown: whether host memory suffices cannot be told"
        )
        return
    if around.memory_free_bytes is not None and around.memory_free_bytes < need * 1.05:
        yield Finding("impossible", short("host memory", need, around.memory_free_bytes))
    whole = need + around.resident_bytes
    if around.staging_free_bytes is not None and around.staging_free_bytes < whole:
        yield Finding("impossible", short("the staging disk", whole, around.staging_free_bytes))


def short(what: str, needed: int, free: int) -> str:
    """`host memory: 70.0 GiB needed …`."""
    return (
        f"a save of its GPU state needs {needed / 2**30:.1f} GiB of {what}, {free / 2**30:.1f} GiB are free"
    )


def _paths(member: Member, starts: tuple[str, ...]) -> Iterator[str]:
    yield from (item.path for item in member.descriptors if item.path.startswith(starts))
    yield from (item.path for item in member.mappings if item.path.startswith(starts))
