"""What SIGTERM to the guard means: the operator's word to end, or the first that is heard of a reclaim."""

from __future__ import annotations

import subprocess
from pathlib import Path

from backends.guard.notices.port import Reading

ACPI_WINDOW_S = 30.0  # what providers leave between the soft and the hard power-off, at best


def going_down() -> bool:
    """Whether this node is shutting down, where systemd can say so."""
    if not Path("/run/systemd/system").is_dir():
        return False
    try:
        answer = subprocess.run(
            ["systemctl", "is-system-running"],
            capture_output=True,
            timeout=5,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return answer.stdout.strip() == b"stopping"


def shutdown_reading() -> Reading | None:
    """On a machine of its own: a notice while the system goes down, else None (the guard is told to end)."""
    if not going_down():
        return None
    return Reading("notice", "the system is going down", window_s=ACPI_WINDOW_S, last=True)
