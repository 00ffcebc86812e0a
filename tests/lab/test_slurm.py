"""Real Slurm: a preempted job is saved in its grace and ends inside a second Slurm job; without a grace the interval does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.clouds.slurm import holder
from backends.practice import rehearsed
from tests.support import slurmlab
from tests.support.lab import training, until
from tests.support.slurmlab import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.prove]
GRACE_S = 12
STEPS, PAUSE_S = 200, 0.3


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two hosts that compute, and a controller that restores by itself."""
    if (reason := slurmlab.why_not()) is not None:
        pytest.skip(reason)
    state = tmp_path_factory.mktemp("slurm")
    with slurmlab.cluster(state, grace_s=GRACE_S) as found:
        watch = found.popen("watch", "-o", "ndjson", log=state / "watch.log")
        try:
            yield found
        finally:
            watch.send_signal(signal.SIGTERM)
            watch.wait(30)


def allocate(slurm: Cluster, partition: str, host: str) -> str:
    """An allocation with the holder's script, found by Reprieve and with a guard inside; its node's name."""
    number = slurm.sbatch(
        holder.SCRIPT, "-p", partition, "-w", host, "--no-requeue", "-o", "/root/holder.log"
    )
    until("the allocation runs", lambda: slurm.job(number) == "RUNNING")
    until("its Comment", lambda: "ssh-ed25519" in slurm.on("host-c", "scontrol", "show", "job", number))
    found = slurm.cli("fleet", "discover", "slurm", "--tag", f"partition={partition}", "--yes", "-o", "json")
    (row,) = (row for row in found.document["items"] if row["instance"] == number)
    assert (row["state"], row["pool"]) == ("added", f"slurm/lab/{partition}/linux")
    slurm.cli("fleet", "install", row["node"], "--yes")
    return str(row["node"])


def start(
    slurm: Cluster, name: str, node: str, interval: str, steps: int = 1_000_000, pause_s: float = 0.5
) -> None:
    # One thread, as the uninterrupted run has it: others add up in another order.
    threads = ["/usr/bin/env", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1"]
    line = [*threads, *training(steps), "--step-seconds", str(pause_s), "--directory", f"/data/{name}"]
    slurm.cli(
        "jobs", "run", name, "--node", node, "--engine", "criu", "--files", f"/data/{name}",
        "--interval", interval, "--restore", "same-pool", "--yes", "--", *line,
    )  # fmt: skip


def outer_pids(slurm: Cluster, host: str, name: str) -> set[int]:
    """Ids, in the host's PID namespace, of the job's processes there."""
    text = slurm.on(host, "pgrep", "-f", f"train.py .*/data/{name}$", check=False)
    return {int(word) for word in text.split()}


def is_inside(slurm: Cluster, host: str, name: str, number: str) -> bool:
    """Whether the job runs there, every process of it in that Slurm job."""
    pids = outer_pids(slurm, host, name)
    return bool(pids) and pids <= slurm.job_pids(host, number)


def end(slurm: Cluster, name: str, number: str) -> None:
    """`scancel` the allocation of a job that is not to come back."""
    slurm.cli("jobs", "set", name, "restore=owned", "--yes")
    slurm.on("host-c", "scancel", number)


def test_saved_in_its_grace_and_back_inside_a_second_slurm_job(slurm: Cluster) -> None:
    node = allocate(slurm, "gentle", "host-a")
    first = node.removeprefix("slurm-")
    start(slurm, "endless", node, "1h")
    start(slurm, "long", node, "1h", STEPS, PAUSE_S)
    assert is_inside(slurm, "host-a", "long", first)
    before = slurm.saves("long")
    slurm.sbatch("#!/bin/sh\nsleep 600\n", "-p", "urgent", "-w", "host-a", "-o", "/dev/null")
    until("the job is preempted", lambda: slurm.job(first) == "PREEMPTED", 90)
    saved = [each for each in slurm.saves("long") if each not in before]
    print(f"saved in a grace of {GRACE_S} s: {saved}")
    assert saved
    until("its end is proven", lambda: slurm.show("long")["state"] in ("lost", "restoring", "running"), 90)
    slurm.running.client.call("reclaim", host="host-a")  # the first host's disk is gone

    until("both are back", lambda: all(slurm.show(name)["epoch"] == 2 for name in ("long", "endless")), 120)
    shown = slurm.show("long")
    second = str(shown["node"]).removeprefix("slurm-")
    assert second != first
    print(f"Slurm job {second} on host-b: processes {sorted(slurm.job_pids('host-b', second))}")
    assert is_inside(slurm, "host-b", "endless", second)
    used = slurm.on(
        "host-c", "sstat", "-a", "-n", "-P", "-j", second, "-o", "JobID,AveCPU,MaxRSS", check=False
    )
    print(f"sstat: {used.split()}")

    root = Path(f"/proc/{slurm.pids['host-b']}/root/data")
    until("the job ends", (root / "long" / "DONE").exists, STEPS * PAUSE_S * 5)
    digest, steps = (root / "long" / "DONE").read_text().split()
    expected = asyncio.run(rehearsed.uninterrupted(tuple(training(STEPS))))
    print(f"digest {digest}, uninterrupted {expected}")
    assert (digest, int(steps)) == (expected, STEPS)

    assert outer_pids(slurm, "host-b", "endless")
    end(slurm, "endless", second)
    until("it dies by scancel", lambda: not outer_pids(slurm, "host-b", "endless"), 30)


def test_without_a_grace_the_last_interval_save_counts(slurm: Cluster) -> None:
    node = allocate(slurm, "abrupt", "host-b")
    number = node.removeprefix("slurm-")
    start(slurm, "brief", node, "2s")
    until("interval saves", lambda: len(slurm.saves("brief")) > 1)
    urgent = slurm.sbatch("#!/bin/sh\nsleep 1\n", "-p", "urgent", "-w", "host-b", "-o", "/dev/null")
    until("it is preempted", lambda: slurm.job(number) == "PREEMPTED", 90)
    last = slurm.saves("brief")[0]
    until("the urgent one ends", lambda: slurm.job(urgent) in ("COMPLETED", ""), 60)
    until("it is back", lambda: slurm.show("brief")["epoch"] == 2, 120)
    print(f"GraceTime=0: from {last} in {slurm.show('brief')['node']}")
    second = str(slurm.show("brief")["node"]).removeprefix("slurm-")
    assert second != number
    host = slurm.on("host-c", "squeue", "-h", "-j", second, "-o", "%B").strip()
    until("it runs there", lambda: is_inside(slurm, host, "brief", second))
    end(slurm, "brief", second)
