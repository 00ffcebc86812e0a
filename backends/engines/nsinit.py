"""Process 1 of a restored job's own PID namespace: restores, reaps for ever, records how the job ended.

Started as `unshare -p -f -m --mount-proc --kill-child PYTHON -S -m backends.engines.nsinit SPEC`. Standard library
only, so that it starts fast and stays small. It speaks lines on an inherited socket:

    → {"state": "restored", "pid": inner pid}    or {"state": "failed", "error": one line, "code": n}
    ← keep                                       anything else, or the end of the guard: everything is killed
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

TTY_LOG_LIMIT_BYTES = 8 << 20


def main(arguments: list[str]) -> int:
    """Run one restore described by the JSON file named in `arguments`; the exit code of the job's root."""
    spec = json.loads(Path(arguments[0]).read_text("utf-8"))
    if spec.get("job"):  # its environment stays in no file
        Path(arguments[0]).unlink()
    link = socket.socket(fileno=int(arguments[1]))
    os.setsid()  # the job's session and terminal are ours when it leads none
    terminal = _terminal() if spec.get("terminal") else None
    try:
        _prepare(spec)
        root = _start(spec, terminal)
    except (OSError, ValueError, RuntimeError) as error:
        _say(link, {"state": "failed", "error": str(error), "code": getattr(error, "errno", None) or 1})
        return 1
    _say(link, {"state": "restored", "pid": root})
    if not _kept(link):
        return 1  # process 1 ends: the kernel kills the whole namespace
    link.close()
    return _reap(root, spec, terminal)


def _say(link: socket.socket, message: dict[str, Any]) -> None:
    link.sendall(json.dumps(message).encode("utf-8") + b"\n")


def _kept(link: socket.socket) -> bool:
    data = b""
    while not data.endswith(b"\n"):
        part = link.recv(64)
        if not part:
            return False
        data += part
    return data == b"keep\n"


def _terminal() -> int:
    """Become the holder of a fresh terminal; returns its master. The slave is our controlling terminal."""
    import fcntl
    import termios

    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    os.set_inheritable(slave, True)
    for number in (0, 1, 2):
        os.dup2(slave, number)
    os.close(slave)
    return master


def _prepare(spec: dict[str, Any]) -> None:
    if spec.get("scratch"):
        from backends.engines.system import scratch

        scratch.enter(spec["scratch"])
    taken = set(spec.get("pids", ()))
    if taken:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(free_start(taken, _pid_max())), "ascii")


def _pid_max() -> int:
    return int(Path("/proc/sys/kernel/pid_max").read_text("ascii"))


def free_start(taken: set[int], pid_max: int, room: int = 64) -> int:
    """A process id after which `room` ids are free, so that helpers never sit on the job's own.

    Raises:
        ValueError: an id of the job is beyond `pid_max`, or no such gap exists.
    """
    highest = max(taken)
    if highest >= pid_max:
        raise ValueError(
            f"the job has process id {highest}, this node's kernel.pid_max is {pid_max}: raise it"
        )
    if highest + room < pid_max:
        return highest
    candidate = 300  # ids below are used only before the first wrap
    for pid in sorted(taken):
        if pid - candidate > room:
            return candidate
        candidate = max(candidate, pid)
    raise ValueError(f"no {room} free process ids in a row below kernel.pid_max {pid_max}: raise it")


def _start(spec: dict[str, Any], terminal: int | None) -> int:
    """Run what brings the job back; its root's pid in this namespace."""
    if spec.get("job"):
        return _start_job(spec["job"])
    stdio = None if terminal is not None else subprocess.DEVNULL
    argv = [str(word) for word in spec["argv"]]
    done = subprocess.run(argv, check=False, stdin=stdio, stdout=stdio, stderr=stdio)
    if done.returncode != 0:
        raise RuntimeError(f"criu restore ended with {done.returncode}")
    return int(Path(spec["pid_file"]).read_text("ascii"))


def _start_job(job: dict[str, Any]) -> int:
    """Start a program (engine signal, rehearsal) and return its pid."""
    with Path(job["output"]).open("ab") as output:
        child = subprocess.Popen(
            [str(word) for word in job["argv"]],
            cwd=job["cwd"],
            env={str(key): str(value) for key, value in job["environment"].items()},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=job.get("uid"),
            group=job.get("gid"),
            extra_groups=[] if job.get("uid") is not None else None,
        )
    child.returncode = 0  # reaped by us, not by subprocess
    return child.pid


def _reap(root: int, spec: dict[str, Any], terminal: int | None) -> int:
    """Collect children until the job's root is gone; write how it ended and return its exit code."""
    if terminal is not None:
        _drain_in_background(terminal, Path(spec["terminal"]))
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            code: int | None = None  # the root vanished without being our child: how it ended is unknown
            break
        if pid == root:
            code = os.waitstatus_to_exitcode(status)
            break
    _record(Path(spec["exit_file"]), code)
    return 0 if code == 0 else 1


def _record(path: Path, code: int | None) -> None:
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump({"code": code}, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)


def _drain_in_background(master: int, log: Path) -> None:
    """Keep the terminal's output flowing into a log of bounded size, so that the job never blocks on it."""
    import threading

    def drain() -> None:
        with log.open("ab", buffering=0) as file:
            while True:
                try:
                    data = os.read(master, 1 << 16)
                except OSError:  # nobody holds the other end now
                    return
                if file.tell() < TTY_LOG_LIMIT_BYTES:
                    file.write(data)

    threading.Thread(target=drain, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
