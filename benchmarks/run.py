"""Run every benchmark of this folder, one after another: `python benchmarks/run.py [-o json]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_BENCHMARKS = {"__init__", "common", "run", "images", "peers"}


def main() -> int:
    """Run them; exit 1 when one fails to run (a missed target is no failure)."""
    failed = False
    for path in sorted(HERE.glob("*.py")):
        if path.stem not in NOT_BENCHMARKS:
            argv = [sys.executable, "-m", f"benchmarks.{path.stem}", *sys.argv[1:]]
            failed = subprocess.run(argv, cwd=HERE.parent, check=False).returncode != 0 or failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
