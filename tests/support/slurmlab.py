"""A real Slurm cluster on practice hosts: slurmctld on one, slurmd on two, and Reprieve outside with a log-in node's commands."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.practice import abilities, launch
from tests.support.lab import CLOCK, ROOT, Ran, environment, until

COMMANDS = ("squeue", "scontrol", "sacct", "sbatch", "scancel", "sinfo", "sstat")
HOSTS = ("host-a", "host-b", "host-c")  # two that compute, one that schedules
FREEZER = Path("/sys/fs/cgroup/freezer")

CONFIGURATION = """ClusterName=lab
SlurmctldHost=host-c({controller})
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
MpiDefault=none
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
KillWait=2
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
NodeName=host-a NodeAddr={host-a} CPUs={cpus} State=UNKNOWN
NodeName=host-b NodeAddr={host-b} CPUs={cpus} State=UNKNOWN
PartitionName=gentle Nodes=host-a,host-b PriorityTier=1 GraceTime={grace_s} MaxTime=1:00:00 Default=YES State=UP
PartitionName=abrupt Nodes=host-a,host-b PriorityTier=1 GraceTime=0 MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=host-a,host-b PriorityTier=10 MaxTime=INFINITE State=UP
"""
CGROUP = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"
# Everything is root's inside its own host: munged's checks of owners are all that --force sets aside.
BEGIN = """set -eu
mkdir -p /etc/munge /var/lib/munge /var/spool/slurmctld /var/spool/slurmd
mkdir -m 755 -p /run/munge
chmod 700 /etc/munge /var/lib/munge
chmod 600 /etc/munge/munge.key
munged --force --key-file=/etc/munge/munge.key --log-file=/var/lib/munge/log --pid-file=/run/munge/pid \\
    --seed-file=/var/lib/munge/seed
mount -t tmpfs none /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/freezer
mount -t cgroup -o freezer none /sys/fs/cgroup/freezer
exec "$0"
"""


def why_not() -> str | None:
    """Why no Slurm cluster can be made here; None when one can."""
    if (reason := abilities.why_no_namespaces()) is not None:
        return reason
    absent = [
        name for name in ("slurmctld", "slurmd", "munged", "srun", *COMMANDS) if shutil.which(name) is None
    ]
    if absent:
        return f"Slurm is not installed ({', '.join(absent)}; Debian: slurmctld slurmd slurm-client munge)"
    if not FREEZER.is_dir():
        return f"{FREEZER} is not there: Slurm's tracking of processes needs cgroup v1 here"
    return None


@dataclass(frozen=True)
class Cluster:
    """The running cluster and a user's machine beside it."""

    state: Path
    home: Path
    running: launch.Running
    pids: dict[str, int]

    def on(self, host: str, *argv: str, stdin: str = "", check: bool = True) -> str:
        """Run `argv` on a host, as its root; what it prints."""
        done = subprocess.run(
            ["nsenter", "-t", str(self.pids[host]), "-a", *argv], input=stdin, capture_output=True, text=True,
            timeout=60, check=False, cwd="/", env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"},
        )  # fmt: skip
        assert done.returncode == 0 or not check, f"{host}: {argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        """The user's: Slurm's commands in the PATH, the compute hosts in ~/.ssh/config."""
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        path = f"{self.home / 'bin'}:{os.environ['PATH']}"
        return {**environment(self.state), "HOME": str(self.home), "PATH": path, "XDG_CACHE_HOME": cache}

    def popen(self, *words: str, log: Path) -> subprocess.Popen[bytes]:
        """The command line in the background."""
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "console.cli.main", *words], cwd=ROOT, env=self.environment(),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    def cli(self, *words: str, code: int = 0) -> Ran:
        """One command; its exit code must be `code`."""
        done = subprocess.run(
            [sys.executable, "-m", "console.cli.main", *words], cwd=ROOT, env=self.environment(),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return Ran(done.returncode, done.stdout, done.stderr)

    def sbatch(self, script: str, *options: str) -> str:
        """Submit a script; the job's number."""
        return self.on("host-c", "sbatch", "--parsable", *options, stdin=script).strip()

    def job(self, number: str) -> str:
        """A job's state, by squeue; empty once it is forgotten."""
        return self.on("host-c", "squeue", "-h", "-t", "all", "-j", number, "-o", "%T", check=False).strip()

    def job_pids(self, host: str, number: str) -> set[int]:
        """Process ids, as the host sees them, that Slurm accounts to a job there."""
        lines = self.on(host, "scontrol", "listpids", number, check=False).splitlines()[1:]
        return {
            int(line.split()[0]) for line in lines if line.split()[0].isdigit() and line.split()[0] != "-1"
        }

    def saves(self, job: str) -> list[str]:
        """Its checkpoints, newest first."""
        listed: dict[str, Any] = self.cli("checkpoints", "list", job, "-o", "json").document
        return [item["checkpoint"] for item in listed["items"]]

    def show(self, job: str) -> dict[str, Any]:
        """The job as `jobs show` tells it."""
        shown: dict[str, Any] = self.cli("jobs", "show", job, "-o", "json").document
        return shown


@contextlib.contextmanager
def cluster(state: Path, *, grace_s: int) -> Iterator[Cluster]:
    """Start it; everything ends with the practice fleet's daemon."""
    place = state / "reprieve" / "practice"
    place.parent.mkdir(parents=True)
    try:
        with launch.start(place, len(HOSTS), "namespaces") as running:
            described = {host["name"]: host for host in running.client.call("describe")["hosts"]}
            home = state / "home"
            made = Cluster(state, home, running, {name: described[name]["pid"] for name in HOSTS})
            _user(made, described)
            _daemons(made, described, grace_s)
            yield made
    finally:
        _sweep()


def _user(made: Cluster, described: dict[str, Any]) -> None:
    (made.home / "bin").mkdir(parents=True)
    (made.home / ".ssh").mkdir(mode=0o700)
    entries = [
        f"Host {name}\n  HostName 127.0.0.1\n  Port {described[name]['ssh_port']}\n  User root\n"
        f"  IdentityFile {made.running.description['identity_file']}\n"
        for name in HOSTS
    ]
    (made.home / ".ssh" / "config").write_text("".join(entries))
    for name in COMMANDS:
        wrapper = made.home / "bin" / name
        wrapper.write_text(
            f'#!/bin/sh\ncd /\nexec nsenter -t {made.pids["host-c"]} -a -- /usr/bin/{name} "$@"\n'
        )
        wrapper.chmod(0o755)
    fleet = made.state / "config" / "reprieve" / "fleet"
    fleet.mkdir(parents=True)
    (fleet / "fleet.toml").write_text(
        f'[fleet]\nrent = true\nmax_usd = 1\nmax_nodes = 4\nstore = "{made.running.description["store_url"]}"\n'
    )


def _daemons(made: Cluster, described: dict[str, Any], grace_s: int) -> None:
    addresses = {name: made.on(name, "hostname", "-I").split()[-1] for name in HOSTS}
    text = CONFIGURATION.format(
        controller=addresses["host-c"], grace_s=grace_s, cpus=os.cpu_count(), **addresses
    )
    for name in HOSTS:
        made.on(name, "mkdir", "-p", "/etc/slurm", "/etc/munge")
        key = " ".join(described[name]["host_key"].split()[:2])
        files = {
            "/etc/slurm/slurm.conf": text,
            "/etc/slurm/cgroup.conf": CGROUP,
            "/etc/munge/munge.key": "only for the private network of one test; not a secret\n",
            "/etc/ssh/ssh_host_ed25519_key.pub": f"{key} {name}\n",
        }
        for path, content in files.items():
            made.on(name, "tee", path, stdin=content)
        made.on(name, "sh", "-c", BEGIN, "slurmctld" if name == "host-c" else "slurmd")
    until(
        "both hosts are idle in Slurm",
        lambda: (
            made.on("host-c", "sinfo", "-h", "-N", "-p", "urgent", "-o", "%T", check=False).split()
            == ["idle"] * 2
        ),
    )


def _sweep() -> None:
    """Remove the cgroups that slurmd made: they lie in the machine's hierarchy, not in the hosts' own."""
    for name in HOSTS:
        top = FREEZER / f"slurm_{name}"
        for _ in range(50):
            for path in sorted(top.rglob("*"), key=lambda each: -len(each.parts)):
                if path.is_dir():
                    with contextlib.suppress(OSError):
                        path.rmdir()
            with contextlib.suppress(OSError):
                top.rmdir()
            if not top.exists():
                break
            CLOCK.sleep(0.1)
