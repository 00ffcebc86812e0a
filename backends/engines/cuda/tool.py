"""The program `cuda-checkpoint`.

A step under way is never killed and has no time limit, but for `lock`, which takes one of its own: a killed
checkpoint or restore leaves the process unusable. Questions change nothing and are limited.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backends.clean import clean
from backends.engines.criu_tool import WIDEST
from backends.engines.cuda.states import State, Step, parse_state
from backends.errors import EngineError

QUESTION_S = 30.0
_TAIL_BYTES = 4096
_VERSION = re.compile(r"^Version[: ]+(\d+(?:\.\d+)*)", re.MULTILINE | re.IGNORECASE)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")

# pattern in the program's words, what it means, what to do
_KNOWN = (
    (
        r"OS call failed or operation not supported on this OS",
        "the driver cannot save what it uses (managed memory, CUDA IPC, NCCL's P2P or NVLS), a restore failed before, or it is not root",
        "start it with NCCL_P2P_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_SHM_DISABLE=1 and without managed memory",
    ),
    (
        r"time[d]?[ -]?out|timeout",
        "the process's GPU work did not come to an end in time",
        "raise max_freeze, or save between long kernels",
    ),
    (
        r"out of memory|memory allocation",
        "there is not enough free GPU memory",
        "end what else uses the GPU; a process whose restore ran out of GPU memory is lost",
    ),
    (
        r"invalid argument",
        "the device map is wrong, or the process imported another's GPU memory",
        "every GPU of both nodes must be in the map; start the job without CUDA IPC",
    ),
    (r"not (?:found|initiali[sz]ed)|no CUDA", "the process uses no CUDA any more", "save it with the engine criu"),
    (r"permission|not permitted", "cuda-checkpoint may not look into the process", "run the guard as root"),
    (r"not supported", "this driver or GPU does not support it", "let the job save itself (engine signal)"),
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """How one call ended."""

    code: int
    text: str

    @property
    def cause(self) -> str:
        """What the program's words mean and what to do, in one line."""
        said = clean(self.text.strip().splitlines()[-1] if self.text.strip() else "", limit=200)
        for pattern, reason, remedy in _KNOWN:
            if re.search(pattern, self.text, re.IGNORECASE):
                return f"{reason}: {remedy} (cuda-checkpoint: {said})"
        return f"cuda-checkpoint ended with {self.code}" + (f": {said}" if said else " without a word")


class CudaTool:
    """One program; `run` is a directory for locks and for what it says."""

    def __init__(self, program: Path, run: Path) -> None:
        self.program = program
        self.run = run
        self._told: str | None = None

    def options(self) -> frozenset[str]:
        """The options in its help."""
        return frozenset(_OPTION.findall(self._help()))

    def _help(self) -> str:
        """What it says of itself, asked once."""
        if self._told is None:
            self._told = self._ask("--help").text
        return self._told

    def version(self) -> str | None:
        """The version in its help, such as 570.86.10; None when it names none."""
        found = _VERSION.search(self._help())
        return found.group(1) if found is not None else None

    def uses_cuda(self, pid: int) -> bool:
        """Whether the process has CUDA state: the question for its state matches mere coordinators too."""
        return self._ask("--get-restore-tid", "--pid", str(pid)).code == 0

    def state(self, pid: int) -> State:
        """What the driver says of the process now."""
        answer = self._ask("--get-state", "--pid", str(pid))
        return parse_state(answer.text) if answer.code == 0 else "unknown"

    @contextlib.contextmanager
    def turn(self, root: int) -> Iterator[Turn | None]:
        """The right to take steps with the job of process `root`; None while somebody else has it.

        A step that outlives a guard that died keeps the right until it ends.
        """
        self.run.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.run / f"cuda-{root}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            yield None
            return
        try:
            yield Turn(self, handle)
        finally:
            os.close(handle)

    def start(self, words: list[str], out: int, keep: int = -1) -> subprocess.Popen[bytes]:
        """Start the program; the child inherits the descriptor `keep`."""
        try:
            return subprocess.Popen(
                [str(self.program), *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=() if keep < 0 else (keep,),
            )
        except OSError as error:
            raise EngineError(
                f"{clean(self.program)} could not be started: {clean(error.strerror)}"
            ) from None

    def _ask(self, *words: str) -> Answer:
        child = self.start(list(words), subprocess.PIPE)
        try:
            data, _ = child.communicate(timeout=QUESTION_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return Answer(-9, f"no answer within {QUESTION_S:g} s")
        return Answer(child.returncode, clean(data[-_TAIL_BYTES:], limit=WIDEST * _TAIL_BYTES, lines=True))


@dataclass(frozen=True)
class Turn:
    """Steps with the processes of one job, one at a time."""

    tool: CudaTool
    handle: int

    def state(self, pid: int) -> State:
        """As `CudaTool.state`."""
        return self.tool.state(pid)

    def act(self, step: Step, *, lock_ms: int | None = None, device_map: str | None = None) -> Answer:
        """Take one step and wait for its end, however long that takes."""
        words = ["--action", step.action, "--pid", str(step.pid)]
        if step.action == "lock" and lock_ms is not None:
            words += ["--timeout", str(lock_ms)]
        if step.action == "restore" and device_map is not None:
            words += ["--device-map", device_map]
        log = self.tool.run / f"cuda-{step.pid}.log"
        with log.open("wb") as out:
            child = self.tool.start(words, out.fileno(), self.handle)
            code = child.wait()
        with log.open("rb") as said:
            said.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = clean(said.read(_TAIL_BYTES), limit=WIDEST * _TAIL_BYTES, lines=True)
        log.unlink()
        return Answer(code, text)
