"""An operator's own program, run without a shell, with limits on time and output."""

from __future__ import annotations

import os
import subprocess
import tempfile

from backends.clean import clean
from backends.errors import UnreachableError

LIMIT_S = 30.0
LIMIT_BYTES = 4096


def run_command(
    argv: tuple[str, ...], extra: dict[str, str], stdin: bytes = b"", *, limit: int = LIMIT_BYTES
) -> tuple[int, str]:
    """Exit status and the first `limit` bytes of the output of `argv`; `extra` is added to the environment.

    Raises:
        UnreachableError: it cannot be run, or did not end within LIMIT_S.
    """
    environment = {**os.environ, **extra, "LC_ALL": "C"}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as given:
        # Not pipes: what the command leaves behind would hold those open.
        given.write(stdin)
        given.seek(0)
        try:
            done = subprocess.run(
                argv, stdin=given, stdout=output, stderr=subprocess.STDOUT, env=environment, timeout=LIMIT_S,
                check=False, start_new_session=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"{argv[0]} {argv[-1]}: no end after {LIMIT_S:.0f} s") from None
        except (OSError, ValueError) as error:
            raise UnreachableError(f"{argv[0]}: {clean(error)}") from None
        output.seek(0)
        return done.returncode, output.read(limit).decode("utf-8", "replace").strip()
