"""What a command costs before it does anything, against a bare interpreter in the same environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from benchmarks.common import interleaved_s, ratio, report

PARSER = (
    "import argparse\np = argparse.ArgumentParser()\ns = p.add_subparsers()\nq = s.add_parser('plan')\n"
    "for i in range(30):\n    q.add_argument(f'--option-{i}', type=float)\np.parse_args(['plan', '--option-1', '3'])"
)
PLAN = ("plan", "--hours", "24", "--discount", "0.7", "--reclaims", "3", "--lost", "10m", "-o", "json")


def process(*argv: str) -> Callable[[], object]:
    """A call that runs one Python process to its end."""
    words = [sys.executable, *argv]
    # As installed: with bytecode. The first, uncounted run writes what is missing.
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    quiet = subprocess.DEVNULL
    return lambda: subprocess.run(words, env=environ, stdout=quiet, stderr=quiet, check=False)


ENTRY = "from console.cli.main import main; main()"


def plan_against_parser() -> dict[str, float]:
    """Seconds of one `plan`, and of a process that builds the same parser and exits, in turn."""
    return interleaved_s({"parser": process("-c", PARSER), "plan": process("-c", ENTRY, *PLAN)})


def main() -> None:
    """Measure and print."""
    times = interleaved_s(
        {
            "bare": process("-c", "pass"),
            "help": process("-c", ENTRY, "--help"),
            "version": process("-c", ENTRY, "version"),
            "parser": process("-c", PARSER),
            "plan": process("-c", ENTRY, *PLAN),
            "jobs_help": process("-c", ENTRY, "jobs", "--help"),
        }
    )
    figures = {f"{name}_ms": value * 1000 for name, value in times.items()}
    ratios = {
        "help_over_bare": ratio(times["help"] / times["bare"], 1.3),
        "version_over_bare": ratio(times["version"] / times["bare"], 1.3),
        "plan_over_parser": ratio(times["plan"] / times["parser"], 1.6),
    }
    report("startup", figures, ratios)


if __name__ == "__main__":
    main()
