"""The socket and the verbs: strict reading, plain refusals, no verb or size that breaks the guard."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.clock import SystemClock
from backends.errors import DamagedError, ReprieveError, UnreachableError, UsageError
from backends.guard.disk.freezes import Freezes
from backends.guard.disk.layout import Identity, Layout
from backends.guard.disk.spool import Spool
from backends.guard.entry import VERBS, main
from backends.guard.jobs.tools import Tools
from backends.guard.server import Server, call
from backends.guard.service import Guard
from backends.guard.verbs import Verbs

REPOSITORY = Path(__file__).parents[4]


def no_vault(*_: object) -> Any:
    raise UnreachableError("no store here")


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    layout = Layout(tmp_path / "root")
    layout.prepare()
    clock = SystemClock()
    spool = Spool(layout.spool, "g1", "n1", clock)
    tools = Tools(layout, Identity("g1", "n1"), "boot", clock, {}, no_vault, spool, Freezes(layout.frozen))
    return Guard(tools, None, "", [])


@pytest.fixture
def serving(guard: Guard) -> Iterator[Path]:
    server = Server(guard.tools.layout.socket, Verbs(guard).answer)
    server.start()
    yield guard.tools.layout.socket
    server.close()


def test_status_over_the_socket(serving: Path) -> None:
    answer = call(serving, "status", {}, 5)
    assert (answer["guard"], answer["node"], answer["jobs"], answer["protocol"]) == ("g1", "n1", [], 1)


def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100) / ("y" * 60)
    deep.mkdir(parents=True)
    server = Server(deep / "guard.sock", lambda verb, document: {"verb": verb})
    server.start()
    assert call(deep / "guard.sock", "hello", {}, 5) == {"verb": "hello"}
    server.close()


def test_an_answer_under_way_is_waited_for_at_the_end(tmp_path: Path) -> None:
    begun, go_on, answers = threading.Event(), threading.Event(), list[dict[str, Any]]()

    def slow(verb: str, document: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        go_on.wait(10)
        done.append(verb)
        return {"verb": verb}

    done: list[str] = []
    server = Server(tmp_path / "guard.sock", slow)
    server.start()
    caller = threading.Thread(
        target=lambda: answers.append(call(tmp_path / "guard.sock", "shutdown", {}, 10))
    )
    caller.start()
    assert begun.wait(10)
    threading.Timer(0.2, go_on.set).start()
    server.close()
    assert done == ["shutdown"], "the process would have ended before its answer"
    caller.join(10)
    assert answers == [{"verb": "shutdown"}]


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="does not answer"):
        call(tmp_path / "guard.sock", "status", {}, 1)


def test_the_socket_is_private(serving: Path) -> None:
    assert serving.stat().st_mode & 0o777 == 0o600
    assert serving.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"verb": 3, "document": {}}', b'{"verb": "status"}', b'{"verb": "status", "document": []}',
     b"\xff\xfe", b'{"verb": "a", "verb": "b", "document": {}}', b"x" * ((1 << 20) + 10)],
)  # fmt: skip
def test_odd_calls_get_a_plain_refusal(serving: Path, data: bytes) -> None:
    link = f"/proc/self/fd/{os.open(serving.parent, os.O_RDONLY)}"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(f"{link}/{serving.name}")
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            return
        answer = connection.recv(1 << 16)
    os.close(int(link.rpartition("/")[2]))
    if answer:
        assert set(json.loads(answer)["error"]) == {"code", "kind", "message", "hint"}
    assert call(serving, "status", {}, 5)["guard"] == "g1"


@pytest.mark.parametrize(
    ("verb", "document"),
    [
        ("nonsense", {}),
        ("status", {"extra": 1}),
        ("events", {"since": "0"}),
        ("events", {"since": -1}),
        ("save", {"job": "x"}),
        ("save", {"job": "x", "request": "r", "wait_s": "long"}),
        ("save", {"job": "unknown", "request": "r"}),
        ("stop", {"job": "x", "request": "r", "final_save": 1}),
        ("protect", {"request": "r", "job": {"name": "../x", "node": "n"}, "grant": {}}),
        ("set", {"job": "x"}),
        ("thaw", {"job": "x", "word": " "}),
        ("examine", {"job": {"name": "a", "node": "n"}, "pid": -4}),
    ],
)
def test_wrong_documents_are_refused(guard: Guard, verb: str, document: dict[str, Any]) -> None:
    with pytest.raises(ReprieveError) as caught:
        Verbs(guard).answer(verb, document)
    assert "\n" not in caught.value.message


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(set(VERBS) - {"facts", "shutdown"})),
    st.dictionaries(
        st.sampled_from(
            ["request", "job", "grant", "wait_s", "since", "limit", "upto", "changes", "word", "pid"]
        ),
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=8)
        | st.dictionaries(st.text(max_size=4), st.integers()),
        max_size=4,
    ),
)
def test_any_document_is_answered_or_refused(guard: Guard, verb: str, document: dict[str, Any]) -> None:
    try:
        Verbs(guard).answer(verb, document)
    except ReprieveError:
        return


def test_events_and_acknowledge(guard: Guard) -> None:
    for number in range(3):
        guard.tools.spool.add("k", str(number))
    verbs = Verbs(guard)
    answer = verbs.answer("events", {"since": 0, "limit": 2})
    assert [event["text"] for event in answer["events"]] == ["0", "1"]
    assert answer["next"] == 3
    assert verbs.answer("acknowledge", {"upto": 3}) == {}
    assert verbs.answer("status", {})["events_next"] == 4


def test_shutdown_marks_that_the_end_is_meant(guard: Guard) -> None:
    Verbs(guard).answer("shutdown", {})
    assert guard.tools.layout.ended.exists()


def test_a_refusal_names_what_is_wrong(guard: Guard) -> None:
    with pytest.raises(UsageError, match="'nonsense' is not known to this guard"):
        Verbs(guard).answer("nonsense", {})
    with pytest.raises(DamagedError, match="unknown field 'extra'"):
        Verbs(guard).answer("status", {"extra": 1})


# The node command


def run(root: Path, verb: str, document: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "REPRIEVE_NODE_ROOT": str(root), "PYTHONPATH": str(REPOSITORY)}
    argv = [sys.executable, "-m", "backends.guard.entry", verb]
    return subprocess.run(
        argv, input=document, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_command_answers_in_one_document(guard: Guard, serving: Path) -> None:
    result = run(guard.tools.layout.root, "status", "{}")
    assert result.returncode == 0
    assert json.loads(result.stdout)["guard"] == "g1"
    refused = run(guard.tools.layout.root, "events", '{"since": -1}')
    assert refused.returncode == 0
    assert json.loads(refused.stdout)["error"]["kind"] == "usage"
    broken = run(guard.tools.layout.root, "events", "{")
    assert json.loads(broken.stdout)["error"]["kind"] == "damaged"


def test_it_attends_a_line_for_a_line(guard: Guard, serving: Path) -> None:
    lines = (
        '{"verb": "status", "document": {}}',
        '{"verb": "save", "document": {}}',
        "{",
        '{"verb": "events", "document": {"since": 0, "limit": 1}}',
    )
    result = run(guard.tools.layout.root, "attend", "\n".join(lines) + "\n")
    assert result.returncode == 0, result.stderr
    status, refused, broken, events = (json.loads(line) for line in result.stdout.splitlines())
    assert status["guard"] == "g1"
    assert refused["error"]["kind"] == "usage"
    assert broken["error"]["kind"] == "damaged"
    assert "events" in events


def test_attending_outlives_the_guard(tmp_path: Path) -> None:
    result = run(tmp_path, "attend", '{"verb": "status", "document": {}}\n')
    assert result.returncode == 0
    assert json.loads(result.stdout)["error"]["kind"] == "unreachable"


def test_without_a_guard_the_call_did_not_happen(tmp_path: Path) -> None:
    result = run(tmp_path, "status", "{}")
    assert result.returncode == 5
    assert result.stdout == ""
    assert "does not answer" in result.stderr


def test_facts_work_without_a_guard(tmp_path: Path) -> None:
    result = run(tmp_path, "facts", '{"paths": ["/bin/sh"]}')
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["arch"]


def test_an_unknown_verb_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rm -rf"]) == 2
    assert main([]) == 2
    assert "is expected" in capsys.readouterr().err


def test_what_a_guard_loads() -> None:
    code = (
        "import sys; import backends.guard.entry, backends.guard.wiring, backends.guard.watchdog;"
        "print([m for m in ('asyncssh','numpy','textual','rich','console','backends.ledger','backends.clouds',"
        "'backends.nodes') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() == "[]"


def test_serve_detached_outlives_its_terminal_and_is_found_running(tmp_path: Path) -> None:
    environment = {**os.environ, "REPRIEVE_NODE_ROOT": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    environment["REPRIEVE_METADATA_URL"] = "http://127.0.0.1:1"
    argv = [sys.executable, "-m", "backends.guard.entry", "serve", "--detach"]
    layout = Layout(tmp_path)
    try:
        first = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert first.returncode == 0, first.stderr + (layout.run / "guard.log").read_text()
        assert json.loads(first.stdout)["already_running"] is False
        pid = int(layout.lock.read_text().split()[0])
        os.kill(pid, 1)  # SIGHUP: the terminal is gone
        second = subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert json.loads(second.stdout)["already_running"] is True
        assert os.getsid(pid) == pid
        for number in (0, 1, 2):
            assert not str(Path(f"/proc/{pid}/fd/{number}").readlink()).startswith(("/dev/pts", "pipe"))
        foreground = subprocess.run(
            argv[:-1], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert foreground.returncode == 2
        assert "a guard runs already" in foreground.stderr
    finally:
        call(layout.socket, "shutdown", {}, 10)
        ended = threading.Event()
        for _ in range(200):
            if not layout.socket.exists():
                break
            ended.wait(0.05)
    assert not layout.socket.exists()
