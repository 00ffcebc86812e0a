"""Who else would start a job again, as its process's environment tells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RestarterRef:
    """A job as another restarter knows it."""

    kind: str  # slurm | skypilot; a newer guard may know more
    identity: str  # its number there
