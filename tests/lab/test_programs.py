"""Real programs, protected and moved as a user does it, with no option named: what they leave is what an
uninterrupted run leaves. PyTorch with workers of each kind, gloo between two processes, GROMACS, and a model server whose client talks on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.errors import ReprieveError
from backends.nodes.closures import Closure
from backends.practice import abilities
from backends.practice.namespaces import address_of
from tests.support import programs
from tests.support.lab import CLOCK, ROOT, Lab, lab, until
from tests.support.programs import HERE, PATIENCE_S, Program
from tests.support.programs.argon import write_argon

pytestmark = [pytest.mark.lab, pytest.mark.prove]
PORT = 8000
EXAMPLES = ROOT / "examples"
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
    """Two hosts for the programs and one for a client."""
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    torch, closure = had
    binds = [HERE, inputs]
    binds += [torch] if isinstance(torch, Path) else []
    binds += [closure.root] if isinstance(closure, Closure) else []
    with lab(tmp_path_factory.mktemp("lab"), 3, tuple(binds)) as found:
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
    program.move("host-b")
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
    program.move("host-b")
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
    steps = (
        int(steps * 240 / (CLOCK.monotonic() - begun)) // 500 * 500
    )  # minutes where starting counts, else one
    write_argon(inputs, steps)
    run("grompp", "-f", "argon.mdp", "-c", "argon.gro", "-p", "argon.top", "-o", "argon.tpr")
    program = Program(fleet, "gromacs")
    line = " ".join([*argv, "mdrun", "-s", str(inputs / "argon.tpr"), "-deffnm", "run", *options])
    pid = program.begin("host-a", f"GMXLIB={environment['GMXLIB']} {line}")
    program.gets_going("host-a", "run.log", 200)
    assert program.doctor("host-a", pid)["answer"] == "ok"
    program.protect("host-a", pid)
    program.move("host-b")
    assert program.on("host-b", f"test -e {program.home}/run.gro").status != 0, "it was moved before its end"
    program.result("host-b", "run.gro")
    run("mdrun", "-s", "argon.tpr", "-deffnm", "whole", *options)
    for kind in ("gro", "trr"):
        moved = program.on("host-b", f"sha256sum {program.home}/run.{kind}").out.split()[0]
        assert moved == programs.digest(inputs / f"whole.{kind}"), kind


def turns(program: Program, file: str) -> list[dict[str, Any]]:
    """What the client wrote until now."""
    return [json.loads(line) for line in program.on("host-c", f"cat {program.home}/{file}").out.splitlines()]


def client(program: Program, file: str, *words: str) -> str:
    """A command line that starts the client on its host, detached."""
    line = " ".join([sys.executable, f"{EXAMPLES}/chat.py", "--log", f"{program.home}/{file}", *words])
    return f"mkdir -p {program.home}; setsid -f {line} </dev/null >{program.home}/{file}.err 2>&1"


def test_a_session_goes_on_where_the_server_is(fleet: Lab) -> None:
    program = Program(fleet, "llm")
    serve = f"{sys.executable} {EXAMPLES}/serve.py --port {PORT} --weights-mib 16"
    pid = program.begin("host-a", serve)
    program.gets_going("host-a", "job.log", 1)
    assert program.doctor("host-a", pid)["answer"] == "ok"
    addresses = [address_of(number) for number in (1, 2)]  # of host-a and host-b
    places = [f"--at {address}:{PORT}" for address in addresses]
    program.on("host-c", client(program, "moved", *places, "--turns", "2000", "--pause", "0.3"))
    until("the client talks", lambda: len(turns(program, "moved")) > 5, PATIENCE_S)
    program.protect("host-a", pid)
    program.move("host-b")
    until(
        "it talks to the other host",
        lambda: turns(program, "moved")[-1]["at"].startswith(addresses[1]),
        PATIENCE_S,
    )
    first_there = next(turn for turn in turns(program, "moved") if turn["at"].startswith(addresses[1]))
    number = first_there["turn"]
    until("it goes on talking", lambda: len(turns(program, "moved")) > number + 5, PATIENCE_S)
    moved = turns(program, "moved")[: number + 5]
    assert first_there["broken"] > 0, "its connection broke; its session did not"
    assert first_there["reused"] >= 5 * number - 5, "the cache came along, but for what was under way"
    assert all(turn["computed"] == 5 for turn in moved[number + 1 :])
    program.on("host-c", f"setsid -f {serve} </dev/null >{program.home}/serve.log 2>&1")
    program.on(
        "host-c",
        client(program, "whole", f"--at 127.0.0.1:{PORT}", "--turns", str(number + 5), "--pause", "0"),
    )
    until("the uninterrupted session ends", lambda: len(turns(program, "whole")) == number + 5, PATIENCE_S)
    assert [turn["tokens"] for turn in moved] == [turn["tokens"] for turn in turns(program, "whole")]
