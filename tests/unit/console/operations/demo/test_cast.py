"""Who plays: one job a host, CRIU where there is one, programs that save themselves where not."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.records import strict
from backends.records.job import Job
from console.operations.demo.cast import STEPS, roles

HOSTS = ["host-a", "host-b", "host-c"]


@pytest.mark.parametrize(
    ("mode", "engine", "script"), [("namespaces", "criu", "train.py"), ("loopback", "signal", "selfsave.py")]
)
def test_jobs_fit_the_fleet(mode: str, engine: str, script: str, tmp_path: Path) -> None:
    cast = roles(mode, tmp_path, "10.0.0.1:9", HOSTS)
    assert [(role.job.name, role.job.node) for role in cast] == [("train-a", "host-a"), ("train-b", "host-b")]
    for role in cast:
        assert role.job.engine == engine
        assert role.job.command[1].endswith(script)
        assert role.directory in role.job.command
        assert role.job.done_file == f"{role.directory}/DONE"
        assert bool(role.job.resume) == (engine == "signal")
        assert strict.read(Job, strict.to_document(role.job), what="job") == role.job
        assert role.steps == STEPS


@pytest.mark.parametrize("mode", ["namespaces", "loopback"])
def test_the_plain_run_is_the_same_work_without_pauses(mode: str, tmp_path: Path) -> None:
    for role in roles(mode, tmp_path, "10.0.0.1:9", HOSTS, steps=450):
        assert role.job.command[: len(role.plain_run)] == role.plain_run
        assert role.plain_run[role.plain_run.index("--steps") + 1] == "450"
        assert "--directory" not in role.plain_run
        assert "--metrics" not in role.plain_run


def test_jobs_differ_in_their_seed(tmp_path: Path) -> None:
    first, second = roles("namespaces", tmp_path, "", HOSTS)
    assert first.plain_run != second.plain_run
    assert first.directory != second.directory
