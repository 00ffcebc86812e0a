"""Slurm as a provider: what its commands print, and what follows; real Slurm is tried in tests/lab/test_slurm.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.clouds.fence import can_end
from backends.clouds.port import InstanceState, Renter
from backends.clouds.slurm import holder, tools
from backends.clouds.slurm.cloud import SlurmCloud, name_of
from backends.clouds.slurm.jobs import jobs_of, parts_of, verdict
from backends.errors import CredentialsError, UnreachableError, UsageError
from backends.fakes.clock import FakeClock
from backends.nodes.inside import root_inside
from backends.records.node import Node

KEY = "ssh-ed25519 " + "A" * 68
POOL = "slurm/lab/gentle/linux"


def row(number: str, state: str, *, host: str = "n1", restarts: int = 0, comment: str = "(null)") -> str:
    return f"{number}|{state}|{host}|gentle|{restarts}|None|ana|{comment}\n"


class Cluster:
    """Answers as Slurm's commands do; an error instance is raised."""

    def __init__(self, **answers: str | Exception) -> None:
        self.answers: dict[str, str | Exception] = {
            "sinfo": "idle\n",
            "scancel": "",
            "sbatch": "9\n",
            **answers,
        }
        self.asked: list[list[str]] = []
        self.after_sbatch: str | None = None

    def __call__(self, argv: list[str], stdin: str) -> str:
        self.asked.append(argv)
        if argv[0] == "sbatch":
            assert stdin == holder.SCRIPT
            if self.after_sbatch is not None:
                self.answers["squeue"] = self.after_sbatch
        answer = self.answers[argv[0]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def words(self, command: str) -> list[list[str]]:
        return [argv for argv in self.asked if argv[0] == command]


def said(instance: str | None = "77", **answers: str | Exception) -> InstanceState:
    return SlurmCloud(FakeClock(), Cluster(**answers)).instance(Node("n", "n1", "slurm", POOL, instance))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("RUNNING", "running"), ("COMPLETING", "stopping"), ("PREEMPTED", "terminated"), ("CANCELLED", "terminated"),
        ("COMPLETED", "terminated"), ("TIMEOUT", "terminated"), ("OUT_OF_MEMORY", "terminated"),
        ("NODE_FAIL", "unknown"), ("SUSPENDED", "unknown"), ("PENDING", "unknown"), ("STOPPED", "unknown"),
        ("SOMETHING_NEW", "unknown"), ("", "unknown"),
    ],
)  # fmt: skip
def test_only_an_end_that_slurm_saw_is_gone(state: str, expected: str) -> None:
    assert said(squeue=row("77", state)).state == expected


@pytest.mark.parametrize("state", ["down*\n", "idle*\n", "down\n", "unknown\n", "idle\ndown*\n", ""])
def test_an_end_on_a_node_that_does_not_answer_slurm_is_no_proof(state: str) -> None:
    found = said(squeue=row("77", "CANCELLED"), sinfo=state)
    assert (found.state, found.reason[:9]) == ("unknown", "CANCELLED")


def test_an_end_once_seen_stands_when_the_node_goes_down_later() -> None:
    slurm = Cluster(squeue=row("77", "PREEMPTED"))
    cloud, node = SlurmCloud(FakeClock(), slurm), Node("n", "n1", "slurm", POOL, "77")
    assert cloud.instance(node).state == "terminated"
    slurm.answers["sinfo"] = "down*\n"
    assert (cloud.instance(node).state, cloud.instance(node).reason) == ("terminated", "PREEMPTED")


def test_what_cannot_be_told_is_never_gone() -> None:
    forgotten = tools.NoSuchJobError("slurm: squeue: exit 1: Invalid job id specified")
    cases = {
        "no answer": said(squeue=UnreachableError("slurm: squeue gave no answer in 30 s")),
        "munge": said(squeue=CredentialsError("slurm: squeue: exit 1: munge refused")),
        "not on this machine": said(squeue=UsageError("squeue is not on this machine")),
        "has no Slurm job number": said(None),
        "job number as its": said("i-0123"),
        "storage is disabled": said(
            squeue=forgotten, sacct=UnreachableError("accounting storage is disabled")
        ),
        "neither the controller": said(squeue=forgotten, sacct=""),
        "nor the accounting": said(squeue=row("78", "PREEMPTED"), sacct="78|PREEMPTED|n1\n"),
        "forgotten job 77": said("77+1", squeue=forgotten, sacct="77|PREEMPTED|n1\n"),
    }
    for word, found in cases.items():
        assert found.state == "unknown", word
        assert word in found.reason


def test_a_forgotten_job_is_asked_of_the_accounting() -> None:
    forgotten = tools.NoSuchJobError("slurm: squeue: exit 1: Invalid job id specified")
    found = said(squeue=forgotten, sacct="77|CANCELLED by 1000|n1\n")
    assert (found.state, found.source, found.reason) == ("terminated", "slurm/sacct", "CANCELLED")
    assert said(squeue=forgotten, sacct="77|CANCELLED+|n1\n", sinfo="down*\n").state == "unknown"


def test_a_requeued_job_is_another_run() -> None:
    again = row("77", "RUNNING", host="n2", restarts=1)
    assert said("77", squeue=again).state == "terminated"
    assert said("77", squeue=again, sinfo="down*\n").state == "unknown"  # requeued because its node failed
    assert said("77+1", squeue=again).state == "running"
    assert said("77", squeue=row("77", "COMPLETING", restarts=1)).state == "stopping"


def test_one_allocation_a_token_and_ready_once_the_script_inside_says_so() -> None:
    slurm = Cluster(squeue="")
    cloud = SlurmCloud(FakeClock(), slurm)
    slurm.after_sbatch = row("9", "PENDING", host="")
    asked = cloud.replace(POOL, "replace-a")
    assert (asked.state, asked.reason) == ("pending", "Slurm job 9 is pending (None)")
    (argv,) = slurm.words("sbatch")
    assert {f"--job-name={name_of('replace-a')}", "--partition=gentle", "--no-requeue"} <= set(argv)
    assert "--dependency=singleton" in argv
    (export,) = (word for word in argv if word.startswith("--export="))
    assert "ALL" not in export  # the submitter's credentials stay at home
    slurm.answers["squeue"] = row("9", "RUNNING", host="n2")
    assert cloud.replace(POOL, "replace-a").state == "pending"
    slurm.answers["squeue"] = row("9", "RUNNING", host="n2", comment=f"reprieve {KEY}")
    ready = cloud.replace(POOL, "replace-a")
    assert ready.node == Node("slurm-9", "n2", "slurm", POOL, "9", host_key=KEY)
    assert len(slurm.words("sbatch")) == 1
    cloud.cancel("replace-a")
    assert slurm.words("scancel") == [["scancel", "9"]]


def test_two_controllers_at_once_end_with_one_allocation() -> None:
    slurm = Cluster(squeue="")
    slurm.after_sbatch = row("9", "PENDING", host="") + row("8", "RUNNING", host="n2", comment="reprieve ")
    asked = SlurmCloud(FakeClock(), slurm).replace(POOL, "t")
    assert asked.node is not None
    assert (asked.node.instance, asked.node.host_key) == ("8", None)
    assert slurm.words("scancel") == [["scancel", "9"]]


def test_a_request_that_cannot_be_is_refused_with_the_reason() -> None:
    slurm = Cluster(
        squeue="", sbatch=UnreachableError("slurm: sbatch: exit 1: invalid partition specified: x")
    )
    cloud = SlurmCloud(FakeClock(), slurm)
    assert isinstance(cloud, Renter)
    assert "invalid partition" in cloud.replace("slurm/lab/x/linux", "t").reason
    assert cloud.replace("aws/r/t/linux", "t").state == "failed"
    assert cloud.rent(POOL, "t", market="on_demand", max_usd=1).state == "failed"
    assert cloud.rent(POOL, "t", market="spot", max_usd=1).state == "failed"
    slurm.answers["squeue"] = UnreachableError("no answer")
    with pytest.raises(UnreachableError):  # nothing is submitted blindly
        cloud.replace(POOL, "t")


def test_scancel_ends_an_allocation() -> None:
    slurm = Cluster()
    cloud, node = SlurmCloud(FakeClock(), slurm), Node("n", "n1", "slurm", POOL, "77+2")
    assert can_end(cloud, node)
    cloud.terminate(node)
    assert slurm.asked == [["scancel", "77"]]
    with pytest.raises(UnreachableError, match="no Slurm job number"):
        cloud.terminate(Node("n", "n1", "slurm", POOL))


def test_running_jobs_of_mine_are_found_with_their_hosts_keys() -> None:
    text = row("7", "RUNNING", comment=f"reprieve {KEY}") + row(
        "8", "RUNNING", host="n2", comment="reprieve x|y"
    )
    slurm = Cluster(squeue=text, scontrol="ClusterName             = lab\n")
    found = SlurmCloud(FakeClock(), slurm).running(["--partition=gentle"])
    assert [(one.instance, one.name, one.pool, one.private_address, one.host_key) for one in found] == [
        ("7", "slurm-7", POOL, "n1", KEY), ("8", "slurm-8", POOL, "n2", None),
    ]  # fmt: skip
    assert {"--me", "--partition=gentle"} <= set(slurm.words("squeue")[0])
    with pytest.raises(UnreachableError, match="names no cluster"):
        SlurmCloud(FakeClock(), Cluster(scontrol="Prolog = x\n")).cluster()


@given(st.text(max_size=60))
def test_a_comment_never_stands_for_a_state(text: str) -> None:
    line = row("7", "RUNNING", comment=text.replace("\n", " ").replace("\r", " "))
    jobs = jobs_of("".join(line.splitlines()))
    assert [(job.number, job.state, job.host) for job in jobs] == [("7", "RUNNING", "n1")]


@given(st.text(max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    jobs_of(text)
    assert verdict(text, 0, 0)[0] in ("running", "stopping", "terminated", "unknown")


def test_ids_and_roots() -> None:
    assert (parts_of("77"), parts_of("77+3"), parts_of("7;rm"), parts_of("")) == (
        ("77", 0),
        ("77", 3),
        None,
        None,
    )
    assert root_inside(Node("n", "x", "slurm", POOL, "77+3")) == "/tmp/reprieve-slurm-77"
    assert root_inside(Node("n", "x", "slurm", POOL, "7/../..")) is None
    assert root_inside(Node("n", "x", "slurm")) is None
    assert root_inside(Node("n", "x", "aws", None, "77")) is None
    assert "root=/tmp/reprieve-slurm-$SLURM_JOB_ID\n" in holder.SCRIPT


def test_the_documentation_shows_the_script() -> None:
    text = (Path(__file__).resolve().parents[4] / "docs" / "providers" / "slurm.md").read_text()
    shown = "".join(f"    {line}".rstrip() + "\n" for line in holder.SCRIPT.splitlines())
    assert shown in text


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
            tools.NoSuchJobError,
            "Invalid job id",
        ),
        ("echo 'error: Munge encode failed: Failed to access socket' >&2; exit 1", CredentialsError, "Munge"),
        (
            "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1",
            UnreachableError,
            "contact",
        ),
        ("exit 3", UnreachableError, "exit 3: it says nothing"),
        ("printf '\\033[31mred' >&2; exit 1", UnreachableError, "red"),
    ],
)
def test_what_slurm_says_becomes_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, kind: type[Exception], message: str
) -> None:
    program(tmp_path / "bin", "squeue", text)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(kind, match=re.escape(message)) as told:
        tools.slurm(["squeue", "-h"])
    assert "\x1b" not in str(told.value)
    assert "\n" not in str(told.value)


def test_commands_that_are_not_here_or_do_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="squeue is not on this machine"):
        tools.slurm(["squeue"])
    program(tmp_path, "squeue", "exec /bin/sleep 5")
    monkeypatch.setattr(tools, "LIMIT_S", 0.2)
    with pytest.raises(UnreachableError, match="no answer"):
        tools.slurm(["squeue"])
