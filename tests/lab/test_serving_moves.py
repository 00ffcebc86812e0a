"""The example server moves to another host while its client talks on: one session, one cache, no option named."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from backends.practice import abilities
from backends.practice.namespaces import address_of
from tests.support.lab import ROOT, Lab, lab, until
from tests.support.programs import PATIENCE_S, Program

pytestmark = [pytest.mark.lab, pytest.mark.prove]
PORT = 8000
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two hosts for the server, one for the client."""
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    with lab(tmp_path_factory.mktemp("lab"), 3) as found:
        yield found


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
    until("it talks to the other host", lambda: turns(program, "moved")[-1]["at"].startswith(addresses[1]))
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
