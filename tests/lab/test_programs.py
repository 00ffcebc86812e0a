"""Real programs, protected and moved as a user does it, with no option named: what they leave is what an
uninterrupted run leaves. PyTorch with workers of each kind, gloo between two processes, GROMACS.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.errors import ReprieveError
from backends.nodes.closures import Closure
from backends.practice import abilities
from tests.support import programs
from tests.support.lab import CLOCK, Lab, lab
from tests.support.programs import HERE, Program
from tests.support.programs.argon import write_argon

pytestmark = [pytest.mark.lab, pytest.mark.prove]
WORKERS = ("fork", "file_system", "spawn")


def torch_or_reason() -> Path | str:
    try:
        return programs.torch_environment()
    except (ReprieveError, OSError, subprocess.SubprocessError) as error:
        return str(error)


def gromacs_or_reason() -> Closure | str:
    try:
        return programs.gromacs()
    except ReprieveError as error:
        return str(error)


@pytest.fixture(scope="module")
def had() -> tuple[Path | str, Closure | str]:
    """The programs from outside, or why one cannot be had."""
    return torch_or_reason(), gromacs_or_reason()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the hosts see."""
    return tmp_path_factory.mktemp("inputs")


@pytest.fixture(scope="module")
def fleet(
    tmp_path_factory: pytest.TempPathFactory, had: tuple[Path | str, Closure | str], inputs: Path
) -> Iterator[Lab]:
    """Two hosts that see the programs."""
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    torch, closure = had
    binds = [HERE, inputs]
    binds += [torch] if isinstance(torch, Path) else []
    binds += [closure.root] if isinstance(closure, Closure) else []
    with lab(tmp_path_factory.mktemp("lab"), 2, tuple(binds)) as found:
        yield found


@pytest.fixture
def python(had: tuple[Path | str, Closure | str]) -> str:
    """The Python with PyTorch."""
    if isinstance(had[0], str):
        pytest.skip(had[0])
    return str(had[0] / "bin/python")


@pytest.fixture(scope="module")
def weights(had: tuple[Path | str, Closure | str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Digest of the weights after an uninterrupted run; the kind of workers changes nothing of it."""
    if isinstance(had[0], str):
        pytest.skip(had[0])
    argv = [str(had[0] / "bin/python"), str(HERE / "train.py"), "--kind", "fork"]
    return programs.uninterrupted(argv, tmp_path_factory.mktemp("torch") / "home")


@pytest.mark.parametrize("kind", WORKERS)
def test_pytorch_trains_on_with_its_workers(kind: str, fleet: Lab, python: str, weights: str) -> None:
    program = Program(fleet, f"torch-{kind.replace('_', '-')}")
    pid = program.begin("host-a", f"{python} {HERE}/train.py --kind {kind} {program.home}")
    program.gets_going("host-a", "log.txt")
    assert program.doctor("host-a", pid)["answer"] == "ok"
    program.protect("host-a", pid)
    program.gets_going("host-a", "log.txt", program.lines("host-a", "log.txt") + 2)
    assert program.move("host-b")["lost_work_s"] == 0
    assert program.result("host-b") == weights
    numbers = [
        line.split()[0] for line in program.on("host-b", f"cat {program.home}/log.txt").out.splitlines()
    ]
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)], "no step is lost and none is done twice"


def test_two_processes_of_gloo_go_on_averaging(fleet: Lab, python: str, tmp_path: Path) -> None:
    program = Program(fleet, "gloo")
    line = f"{python} {HERE}/gloo.py {program.home}"
    pid = program.begin("host-a", line)
    program.gets_going("host-a", "log-0.txt")
    said = program.doctor("host-a", pid, code=6)
    assert said["answer"] == "needs_restart"
    assert any("io_uring" in reason for reason in said["reasons"])
    assert "USE_LIBUV=0" in said["restart_line"].split()
    assert said["restart_line"].endswith(line)
    program.on("host-a", f"kill -- -{pid}; rm -r {program.home}")
    pid = program.begin("host-a", said["restart_line"])
    program.gets_going("host-a", "log-0.txt")
    assert program.doctor("host-a", pid)["answer"] == "ok", "one restart is enough"
    program.protect("host-a", pid)
    program.gets_going("host-a", "log-0.txt", program.lines("host-a", "log-0.txt") + 2)
    assert program.move("host-b")["lost_work_s"] == 0
    done = program.result("host-b")
    assert done == programs.uninterrupted([python, str(HERE / "gloo.py")], tmp_path / "home")


def test_gromacs_ends_with_the_same_files(
    fleet: Lab, had: tuple[Path | str, Closure | str], inputs: Path
) -> None:
    closure = had[1]
    if isinstance(closure, str):
        pytest.skip(closure)
    argv = programs.gmx(closure)
    environment = {**os.environ, "GMXLIB": str(closure.root / "usr/share/gromacs/top")}
    options = ["-reprod", "-ntmpi", "1", "-ntomp", "1", "-pin", "off"]

    def run(*words: str) -> None:
        subprocess.run(
            [*argv, *words],
            cwd=inputs,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )

    steps = 5000
    write_argon(inputs, steps)
    run("grompp", "-f", "argon.mdp", "-c", "argon.gro", "-p", "argon.top", "-o", "try.tpr")
    begun = CLOCK.monotonic()
    run("mdrun", "-s", "try.tpr", "-deffnm", "try", *options)
    steps = int(steps * 40 / (CLOCK.monotonic() - begun)) // 500 * 500  # some 40 s: long enough to be moved
    write_argon(inputs, steps)
    run("grompp", "-f", "argon.mdp", "-c", "argon.gro", "-p", "argon.top", "-o", "argon.tpr")
    program = Program(fleet, "gromacs")
    line = " ".join([*argv, "mdrun", "-s", str(inputs / "argon.tpr"), "-deffnm", "run", *options])
    pid = program.begin("host-a", f"GMXLIB={environment['GMXLIB']} {line}")
    program.gets_going("host-a", "run.log", 200)
    assert program.doctor("host-a", pid)["answer"] == "ok"
    program.protect("host-a", pid)
    assert program.move("host-b")["lost_work_s"] == 0
    assert program.on("host-b", f"test -e {program.home}/run.gro").status != 0, "it was moved before its end"
    program.result("host-b", "run.gro")
    run("mdrun", "-s", "argon.tpr", "-deffnm", "whole", *options)
    for kind in ("gro", "trr"):
        moved = program.on("host-b", f"sha256sum {program.home}/run.{kind}").out.split()[0]
        assert moved == programs.digest(inputs / f"whole.{kind}"), kind
