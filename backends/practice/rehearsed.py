"""The practice jobs outside the fleet: where they are, what an uninterrupted run gives, how many run now."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from backends.errors import ReprieveError


def examples() -> Path:
    """The example jobs' directory, in a checkout or in an installed package."""
    here = Path(__file__).resolve()
    for path in (here.parents[2] / "examples", here.parent / "examples"):
        if (path / "train.py").is_file():
            return path
    raise ReprieveError("the example jobs are not beside this program; install it again")


async def uninterrupted(argv: tuple[str, ...]) -> str:
    """The final digest of a run that nothing disturbs, as fast as this machine can; its directory is removed."""
    with tempfile.TemporaryDirectory(prefix="reprieve-demo-") as place:
        process = await asyncio.create_subprocess_exec(
            *argv, "--step-seconds", "0", "--directory", place,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            env=_environment(),
            preexec_fn=lambda: os.nice(10),
        )  # fmt: skip
        try:
            _, said = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode != 0:
            raise ReprieveError(
                f"the uninterrupted run failed: {said.decode(errors='replace').strip()[-200:]}"
            )
        return (Path(place) / "DONE").read_text().split()[0]


def _environment() -> dict[str, str]:
    """What a job on a practice host is started with: nothing of this shell that steers arithmetic.

    A variable such as OPENBLAS_CORETYPE here and not there chooses other instructions, and with them other last digits.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def living(directory: str, store: Path) -> list[int]:
    """Process ids of this machine that work in `directory` (`--directory` of the example jobs), stopped ones left out.

    As root on Linux this sees into every host of every practice fleet; only those that see `store` are of this one.
    """
    found = []
    wanted = b"\0--directory\0" + directory.encode() + b"\0"
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            if wanted not in words:
                continue
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            ours = directory.startswith(str(store.parent)) or str(store) in (entry / "mountinfo").read_text()
        except OSError:
            continue
        if ours and state not in "ZXTt":
            found.append(int(entry.name))
    return found
