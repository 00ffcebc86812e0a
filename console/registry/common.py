"""Arguments that several commands share, so that one word means the same everywhere."""

from __future__ import annotations

from console.registry.model import Argument

JOB = Argument("name", "name of the job", kind="job", operand=True, required=True)
NODE = Argument("name", "name of the node", kind="node", operand=True, required=True)
NO_WAIT = Argument(
    "no-wait", "do not wait for the end: exit 7 while the operation is still running", kind="flag"
)
TIMEOUT = Argument(
    "timeout", "give up waiting after this duration, such as 15m (default: no limit)", kind="duration"
)
TO = Argument("to", "node to use, or a pool (default: the best compatible node of the fleet)", kind="node")
CHECKPOINT = Argument(
    "checkpoint", "checkpoint as <epoch>.<seq> (default: the newest usable one)", kind="checkpoint"
)
LIMIT = Argument("limit", "at most this many rows, newest first", kind="int", default="50")

ENGINES = ("auto", "criu", "criu-cuda", "runc", "crun", "podman", "signal", "cedana")
PROVIDERS = ("aws", "gcp", "azure", "runpod", "vast", "slurm", "kubernetes", "practice", "none")

# No defaults here: absent means "as the job's record says".
POLICY = (
    Argument(
        "engine", "how the job is saved and brought back (default auto)", kind="choice", choices=ENGINES
    ),
    Argument(
        "accept-unproven",
        "let auto pick an engine that nobody has shown to work on this driver and GPU",
        kind="flag",
    ),
    Argument("store", "store URL of this job (default: the fleet's store)", kind="url"),
    Argument(
        "interval",
        "work between two saves as a duration, or auto: chosen from measured costs (default auto)",
        kind="duration",
        choices=("auto",),
    ),
    Argument("max-freeze", "longest pause of one save (default 5m)", kind="duration"),
    Argument("max-overhead", "largest share of time spent on saves, such as 5%", kind="fraction"),
    Argument("hours", "useful work of the whole job in hours, when known", kind="hours"),
    Argument("deadline-at", "instant by which the job must be done, as 2026-12-05T00:00:00Z"),
    Argument("files", "path that travels with the checkpoint; may be repeated", kind="path", many=True),
    Argument("runtime", "declared version KEY=VALUE that must match on restore; may be repeated", many=True),
    Argument("done", "the job is finished when this holds: file=PATH"),
    Argument(
        "restore", "where it may come back: owned, same-pool, any-pool or on-demand-after=2h (default owned)"
    ),
    Argument("priority", "restored before jobs with a lower number (default 0)", kind="int"),
    Argument("group", "name of the group the job belongs to"),
    Argument(
        "preset",
        "how the program saves itself: lightning, transformers, ray-train, sagemaker, slurm or skypilot, with =DIR "
        "where its saves lie elsewhere",
    ),
    Argument(
        "signal",
        "engine signal: the signal that asks the program to save (default USR1); none: it saves on its own schedule",
    ),
    Argument("marker", "engine signal: glob whose newest match is a complete save"),
    Argument(
        "resume", "engine signal: the line that continues from the newest save; split, never given to a shell"
    ),
)
