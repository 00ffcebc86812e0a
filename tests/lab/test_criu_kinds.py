"""Every kind of job that is marked ok in the lab tables is saved and brought back without naming a flag.

Between the two everything the job had on disk is moved away: what comes back comes from the save.
"""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.engines.criu import CriuEngine
from backends.engines.launch import identify
from backends.engines.port import Process, RestoreRequest, Saved, SaveRequest
from backends.engines.proc import CAP_SYS_RESOURCE, has_capability
from backends.errors import EngineError
from backends.records.job import Job
from tests.support.engines import begin, criu_or_skip, end_all, goes_on, lines_of, spawn, until
from tests.support.kinds import KINDS, PRELUDE

pytestmark = pytest.mark.lab
JOB = Job("kind", "here")
ECHO = """
import socketserver as s
class Echo(s.StreamRequestHandler):
    def handle(self):
        for line in self.rfile: self.wfile.write(line)
class Server(s.ThreadingTCPServer): daemon_threads = True
server = Server(("127.0.0.1", 0), Echo); print(server.server_address[1], flush=True); server.serve_forever()
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[CriuEngine]:
    yield CriuEngine(criu_or_skip(), tmp_path / "run", SystemClock())
    end_all(tmp_path)


def save(engine: CriuEngine, process: Process, directory: Path, job: Job = JOB) -> Saved:
    directory.mkdir(mode=0o700)
    return engine.save(SaveRequest(job, process, directory, 20.0, 20.0), lambda: None)


def restore(engine: CriuEngine, saved: Saved, directory: Path, job: Job = JOB) -> Process:
    return engine.restore(
        RestoreRequest(job, directory, saved.files, saved.details, 20.0, directory.with_suffix(".aside"))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_it_survives_twice(kind: str, engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = begin(home, KINDS[kind], "-s", "-S")
    try:
        assert engine.examine(JOB, process).answer == "ok"
        for number in range(2):
            saved = save(engine, process, tmp_path / f"save{number}")
            goes_on(home)
            engine.end(process)
            home.rename(tmp_path / f"old{number}")
            for path in Path("/dev/shm").glob(f"*reprieve*{process.inner_pid or process.pid}*"):
                path.unlink()
            process = restore(engine, saved, tmp_path / f"save{number}")
            goes_on(home)
    finally:
        engine.end(process)
        for path in Path("/dev/shm").glob(f"*reprieve*{process.inner_pid or process.pid}*"):
            path.unlink()
    assert not list(Path("/dev/shm").glob("link_remap.*"))


def test_a_numpy_job_survives(engine: CriuEngine, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    source = """
import numpy as np
rng = np.random.default_rng(1); a = rng.standard_normal((200, 200)); total = a.copy()
def check(step):
    global total
    total = np.tanh(total @ a * 0.01 + step)
    assert np.isfinite(total).all()
run(check)
"""
    home = tmp_path / "home"
    process = begin(home, source)
    saved = save(engine, process, tmp_path / "save")
    assert len(saved.processes) == 1
    engine.end(process)
    process = restore(engine, saved, tmp_path / "save")
    goes_on(home)
    engine.end(process)


def test_a_connection_comes_back_closed_and_the_job_reconnects(engine: CriuEngine, tmp_path: Path) -> None:
    server = subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline())
        source = f"""
link, opened = None, 0
def check(step):
    global link, opened
    while True:
        try:
            if link is None:
                link = socket.create_connection(("127.0.0.1", {port}), 2); opened += 1
            link.sendall(b"x\\n")
            if link.recv(2) == b"x\\n": break
            raise OSError("closed")
        except OSError:
            link.close(); link = None
    (home / "opened").write_text(str(opened))
run(check)
"""
        home = tmp_path / "home"
        process = begin(home, source)
        saved = save(engine, process, tmp_path / "save")
        goes_on(home)
        until(lambda: (home / "opened").read_text() == "1", "one connection: saving must not disturb it")
        engine.end(process)
        process = restore(engine, saved, tmp_path / "save")
        goes_on(home)
        until(lambda: (home / "opened").read_text() == "2", "the second connection")
        engine.end(process)
    finally:
        server.kill()
        server.communicate()


def test_a_job_on_somebody_elses_terminal_survives(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    source = PRELUDE + 'run(lambda step: print("step", step, flush=True))'
    pid, master = pty.fork()
    if pid == 0:
        os.closerange(3, 256)  # what these tests were started with is none of the job's
        os.execv(sys.executable, [sys.executable, "-S", "-s", "-c", source, str(home)])
    try:
        until(lambda: len(lines_of(home / "log.txt")) > 2, "the job's first steps")
        process = identify(pid)
        assert process is not None
        assert engine.examine(JOB, process).answer == "ok"
        for number in range(2):
            saved = save(engine, process, tmp_path / f"save{number}")
            assert saved.details["options"]["shell_job"] is True
            engine.end(process)
            process = restore(engine, saved, tmp_path / f"save{number}")
            goes_on(home)
        engine.end(process)
        assert "step" in (tmp_path / "run" / "kind.2" / "terminal.log").read_text()
    finally:
        os.close(master)


# As gloo with USE_LIBUV=0 does it: two processes that exchange their state over the loopback at every step.
PAIR = r"""
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen(); port = server.getsockname()[1]
if os.fork() == 0:
    server.close()
    link = socket.create_connection(("127.0.0.1", port))
    while True:
        data = link.recv(8)
        if not data: os._exit(3)
        link.sendall(struct.pack("q", struct.unpack("q", data)[0] * 3))
link, _ = server.accept(); server.close()
def check(step):
    link.sendall(struct.pack("q", step))
    assert struct.unpack("q", link.recv(8))[0] == 3 * step
run(check)
"""


def test_connections_among_its_own_processes_go_on(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = begin(home, PAIR, "-S", "-s")
    verdict = engine.examine(JOB, process)
    assert verdict.answer == "ok"
    assert any("among its own processes go on" in reason for reason in verdict.reasons)
    for number in range(2):
        saved = save(engine, process, tmp_path / f"save{number}")
        assert saved.details["options"]["own_tcp"] is True
        goes_on(home)
        engine.end(process)
        process = restore(engine, saved, tmp_path / f"save{number}")
        goes_on(home)
    engine.end(process)


def test_a_job_that_leads_no_session_survives(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    source = PRELUDE + "(home / 'pid').write_text(str(os.getpid())); run()"
    line = shlex.join([sys.executable, "-S", "-s", "-c", source, str(home)])
    # A shell leads the session, as in a job script; the one of these tests may be begun outside of this namespace.
    leader = spawn(["sh", "-c", f"{line} & wait; sleep 600"], tmp_path)
    until(lambda: len(lines_of(home / "log.txt")) > 2, "the job's first steps")
    process = identify(int((home / "pid").read_text()))
    assert process is not None
    try:
        assert engine.examine(JOB, process).answer == "ok"
        for number in range(2):
            saved = save(engine, process, tmp_path / f"save{number}")
            assert saved.details["options"]["shell_job"] is True
            engine.end(process)
            process = restore(engine, saved, tmp_path / f"save{number}")
            goes_on(home)
        engine.end(process)
    finally:
        engine.end(leader)


def test_a_job_of_another_user_survives_with_its_rights(engine: CriuEngine, tmp_path: Path) -> None:
    if not has_capability(CAP_SYS_RESOURCE):
        pytest.skip("no CAP_SYS_RESOURCE: CRIU cannot read another user's limits here")
    for place in (tmp_path, *tmp_path.parents[:2]):
        place.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    process = spawn(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-S", "-s", "-c",
         PRELUDE + "run(lambda step: open(home / 'mine', 'w').close())", str(home)], home,
    )  # fmt: skip
    until(lambda: len(lines_of(home / "log.txt")) > 2, "the job's first steps")
    saved = save(engine, process, tmp_path / "save")
    engine.end(process)
    home.rename(tmp_path / "old")
    process = restore(engine, saved, tmp_path / "save")
    goes_on(home)
    assert home.stat().st_uid == (home / "log.txt").stat().st_uid == (home / "mine").stat().st_uid == 65534
    engine.end(process)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux on this machine")
def test_a_whole_tmux_server_survives(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = shlex.join([sys.executable, "-S", "-s", "-c", PRELUDE + "run()", str(home)])
    tmux = ["tmux", "-f", "/dev/null", "-S", str(home / "socket")]
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "LANG": "C.UTF-8", "HOME": str(home)}
    subprocess.run([*tmux, "new-session", "-d", command], check=True, env=environment, cwd=home)
    shown = subprocess.run(
        [*tmux, "display-message", "-p", "#{pid}"], check=True, capture_output=True, env=environment
    )
    until(lambda: len(lines_of(home / "log.txt")) > 2, "the job's first steps")
    process = identify(int(shown.stdout))
    assert process is not None
    verdict = engine.examine(JOB, process)
    assert verdict.answer == "ok", verdict.reasons
    saved = save(engine, process, tmp_path / "save")
    assert saved.details["options"]["shell_job"] is False
    engine.end(process)
    process = restore(engine, saved, tmp_path / "save")
    goes_on(home)
    listed = subprocess.run([*tmux, "list-sessions"], check=True, capture_output=True, env=environment)
    assert listed.stdout.startswith(b"0:")
    engine.end(process)


INSIDE = """
import sys
from pathlib import Path
from backends.clock import SystemClock
from backends.engines.criu import CriuEngine
from backends.engines.port import RestoreRequest, SaveRequest
from backends.records.job import Job
from tests.support.engines import begin, criu_or_skip, goes_on
from tests.support.kinds import KINDS
home, place = Path(sys.argv[1]) / "home", Path(sys.argv[1])
process = begin(home, KINDS["child tree with pipes"], "-S", "-s")
engine, job = CriuEngine(criu_or_skip(), place / "run", SystemClock()), Job("kind", "here")
assert process.pid < 5
for number in range(2):
    save = place / f"save{number}"; save.mkdir(mode=0o700)
    saved = engine.save(SaveRequest(job, process, save, 20.0, 20.0), lambda: None)
    assert max(saved.details["pids"]) < 100, saved.details["pids"]
    engine.end(process)
    process = engine.restore(RestoreRequest(job, save, saved.files, saved.details, 20.0, place / f"aside{number}"))
    goes_on(home)
engine.end(process)
"""


def test_a_young_host_whose_process_ids_are_small(tmp_path: Path) -> None:
    """The ids that criu and its helpers would get in a fresh namespace are those of the job."""
    criu_or_skip()
    done = subprocess.run(
        [
            "unshare",
            "-p",
            "-f",
            "-m",
            "--mount-proc",
            "--kill-child",
            sys.executable,
            "-c",
            INSIDE,
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_rehearsal_works_where_nothing_of_the_job_exists(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = begin(home, KINDS["written file"], "-S", "-s")
    saved = save(engine, process, tmp_path / "save")
    engine.end(process)
    shutil.rmtree(home)
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o700)
    request = RestoreRequest(
        JOB, tmp_path / "save", saved.files, saved.details, 20.0, tmp_path / "aside", scratch
    )
    rehearsed = engine.restore(request)
    assert not home.exists()
    assert identify(rehearsed.pid) is None
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_what_uses_io_uring_is_refused_with_the_line_to_restart(engine: CriuEngine, tmp_path: Path) -> None:
    source = """
import ctypes
params = ctypes.create_string_buffer(120)
ring = ctypes.CDLL(None, use_errno=True).syscall(425, 4, params)
(home / "ring").write_text(str(ring))
run()
"""
    home = tmp_path / "home"
    process = begin(home, source)
    if int((home / "ring").read_text()) < 0:
        engine.end(process)
        pytest.skip("this kernel offers no io_uring")
    verdict = engine.examine(Job("kind", "here", command=("python", "train.py")), process)
    assert verdict.answer == "needs_restart"
    assert verdict.restart_line == "USE_LIBUV=0 UV_USE_IO_URING=0 python train.py"
    with pytest.raises(EngineError, match="io_uring"):
        save(engine, process, tmp_path / "save")
    goes_on(home)
    engine.end(process)
