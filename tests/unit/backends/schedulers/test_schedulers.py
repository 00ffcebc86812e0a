"""What Slurm says of a job decides whether we may start it too; what it does not say is unknown, never no."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.guard.probes.restarter import restarter_of
from backends.records.restarter import RestarterRef
from backends.schedulers.skypilot import SkyPilot
from backends.schedulers.slurm import Slurm, judge, output


def job(state: str, requeue: str = "1", restarts: str = "0", number: str = "123") -> str:
    return (
        f"JobId={number} JobName=train UserId=ml(1000) JobState={state} Reason=None Dependency=(null) "
        f"Requeue={requeue} Restarts={restarts} BatchFlag=1 NodeList=gpu-a"
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (job("RUNNING"), "will"),
        (job("NODE_FAIL"), "will"),
        (job("PREEMPTED"), "will"),
        (job("RUNNING", requeue="0"), "no"),
        (job("NODE_FAIL", requeue="0"), "no"),
        (job("PENDING", restarts="1"), "did"),
        (job("PENDING"), "did"),
        (job("REQUEUE_HOLD", requeue="0"), "did"),
        (job("CONFIGURING"), "did"),
        (job("COMPLETED"), "no"),
        (job("CANCELLED"), "no"),
        (job("CANCELLED+"), "no"),
        (job("RUNNING", requeue="yes"), "unknown"),
        (job("RUNNING", number="77"), "unknown"),
        ("slurm_load_jobs error: Invalid job id specified", "unknown"),
        ("", "unknown"),
    ],
)
def test_what_slurm_says(text: str, word: str) -> None:
    answer = judge("123", text)
    assert answer.word == word
    assert "123" in answer.detail
    if word in ("will", "did"):
        assert "scancel 123" in answer.remedy


def test_a_job_that_slurm_restarted_and_that_runs_again_is_told() -> None:
    assert judge("123", job("RUNNING", restarts="2")).word == "will"


@pytest.mark.parametrize("identity", ["", "12; rm -rf /", "-1", "$(id)", "1" * 30])
def test_what_is_no_number_is_never_put_on_a_command_line(identity: str) -> None:
    def run(argv: list[str]) -> str | None:
        raise AssertionError(argv)

    assert Slurm(run).ask(identity).word == "unknown"


def test_slurm_that_is_not_here_is_unknown_with_an_instruction() -> None:
    asked: list[list[str]] = []

    def run(argv: list[str]) -> str | None:
        asked.append(argv)
        return None

    answer = Slurm(run).ask("4711")
    assert answer.word == "unknown"
    assert "scancel 4711" in answer.remedy
    assert asked == [["scontrol", "show", "job", "-o", "4711"]]
    assert output(["/no/such/scontrol"]) is None
    assert output(["false"]) is None


def test_skypilot_always_recovers_a_managed_job() -> None:
    answer = SkyPilot().ask("12")
    assert (answer.word, answer.remedy) == ("will", "sky jobs cancel 12")


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"SLURM_JOB_ID": "4711"}, RestarterRef("slurm", "4711")),
        ({"SLURM_JOBID": "4711"}, RestarterRef("slurm", "4711")),
        ({"SLURM_JOB_ID": "4711; x"}, None),
        (
            {"SKYPILOT_TASK_ID": "sky-managed-2023-07-06-21-18-31-563597_my-job_7-0"},
            RestarterRef("skypilot", "7"),
        ),
        (
            {"SKYPILOT_TASK_ID": "managed-sky-2024-07-06-21-18-31-563597_a_b_12-3"},
            RestarterRef("skypilot", "12"),
        ),
        ({"SKYPILOT_TASK_ID": "sky-2023-07-06-21-18-31-563597_myclus_1"}, None),
        ({"PATH": "/bin", "MY_SLURM_JOB_ID": "1"}, None),
        ({}, None),
    ],
)
def test_two_names_of_the_environment_tell(
    tmp_path: Path, environment: dict[str, str], found: RestarterRef | None
) -> None:
    (tmp_path / "42").mkdir()
    text = "\0".join(f"{name}={value}" for name, value in environment.items())
    (tmp_path / "42" / "environ").write_bytes(text.encode() + b"\0SECRET=canary\0\xff\xfe\0")
    assert restarter_of(42, tmp_path) == found
    assert restarter_of(43, tmp_path) is None
