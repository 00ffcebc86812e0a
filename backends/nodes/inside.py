"""Nodes that are an allocation: the guard's root there, and that it is started inside, not by the SSH session."""

from __future__ import annotations

import re

from backends.records.node import Node


def root_inside(node: Node) -> str | None:
    """Root directory of the guard inside this node's Slurm job; None for a machine, whose root is its own to say.

    Two jobs on one host each have a guard, and nothing of one job's guard is seen by the other's.
    """
    match = re.fullmatch(r"([0-9]{1,10})(?:\+[0-9]{1,6})?", node.instance or "")
    return f"/tmp/reprieve-slurm-{match.group(1)}" if node.provider == "slurm" and match else None
