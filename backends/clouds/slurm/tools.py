"""Slurm's commands, run where Reprieve runs: `squeue`, `scontrol`, `sacct`, `sbatch`, `scancel` of the PATH."""

from __future__ import annotations

import os
import re
import subprocess

from backends.clean import clean
from backends.errors import CredentialsError, ReprieveError, UnreachableError, UsageError

LIMIT_S = 30.0
LIMIT_CHARACTERS = 4 << 20
_NO_JOB = re.compile(r"invalid job id", re.IGNORECASE)
_REFUSED = re.compile(
    r"authentication|munge|access/permission denied|invalid user|unauthorized", re.IGNORECASE
)
_NO_ANSWER = re.compile(r"unable to contact|connection|timed out|no route|communication", re.IGNORECASE)


class NoSuchJobError(ReprieveError):
    """Slurm's controller does not know this job: never there, or forgotten since (MinJobAge)."""


def slurm(argv: list[str], stdin: str = "") -> str:
    """What a command of Slurm prints, cleaned.

    Raises:
        UsageError: the command is not on this machine.
        NoSuchJobError: there is no such job (any more).
        CredentialsError: it refused us. UnreachableError: no answer, or an error that says nothing of a job.
    """
    environment = {**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
    try:
        done = subprocess.run(
            argv, input=stdin.encode(), capture_output=True, timeout=LIMIT_S, check=False, env=environment
        )
    except FileNotFoundError:
        raise UsageError(
            f"{argv[0]} is not on this machine: Slurm's commands are needed in the PATH",
            hint="run reprieve on a login node, or put wrappers there: docs/providers/slurm.md",
        ) from None
    except subprocess.TimeoutExpired:
        raise UnreachableError(f"slurm: {argv[0]} gave no answer in {LIMIT_S:.0f} s") from None
    except OSError as error:
        raise UnreachableError(f"slurm: {argv[0]}: {clean(error.strerror)}") from None
    if done.returncode == 0:
        return clean(done.stdout, limit=LIMIT_CHARACTERS, lines=True)
    said = clean(done.stderr.strip()[-300:] or done.stdout.strip()[-300:]) or "it says nothing"
    raise _kind(said)(f"slurm: {argv[0]}: exit {done.returncode}: {said}")


def _kind(said: str) -> type[ReprieveError]:
    if _NO_JOB.search(said):
        return NoSuchJobError
    if _REFUSED.search(said) and not _NO_ANSWER.search(said):
        return CredentialsError
    return UnreachableError
