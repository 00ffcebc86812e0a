"""The engine `criu`: whole process trees, saved and brought back without their knowing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from backends.clean import clean
from backends.clock import Clock
from backends.engines import canary, profile
from backends.engines.criu_tool import CriuTool, read_tail
from backends.engines.dump import Dump
from backends.engines.explain import explain
from backends.engines.launch import Launched, launch
from backends.engines.open_files import COPY_LIMIT_BYTES, plan_capture, read_mounts
from backends.engines.port import Process, RestoreRequest, Saved, SaveRequest, Verdict, alive
from backends.engines.proc import CAP_SYS_RESOURCE, Tree, has_capability, parse_arguments, read_tree
from backends.engines.system import trees
from backends.engines.system.places import incarnation, outcome, remember, remove_empty, scratch_plan, told
from backends.engines.system.rollback import Rollback
from backends.engines.system.sockets import node_conflicts, tree_sockets
from backends.errors import EngineError
from backends.records.job import Job

_PORTS_S = 2.0
LINGER_S = 65.0  # Linux keeps closed connections for 60 s


class CriuEngine:
    """Saves with `criu dump --leave-running`, restores into a fresh PID namespace under `nsinit`.

    Args:
        tool: the criu to use.
        run: directory (made 0700) for what a living job needs: its namespace's log and how it ended.
        copy_limit_bytes: files beyond this are copied in a freeze only where blocks can be shared.
    """

    name = "criu"

    def __init__(
        self, tool: CriuTool, run: Path, clock: Clock, *, copy_limit_bytes: int = COPY_LIMIT_BYTES
    ) -> None:
        self.tool = tool
        self.run = run
        self.clock = clock
        self.copy_limit_bytes = copy_limit_bytes
        self._unready: Verdict | None = None
        self._launched: list[Launched] = []  # reaped when they end

    def ready(self) -> Verdict:
        """A real dump and restore of a tiny process with sockets; success is remembered per tool and kernel."""
        if self._unready is None:
            verdict = canary.ready(self, self.tool, self.run, self.clock)
            if verdict.answer == "ok":
                return verdict
            self._unready = verdict  # tried again when the guard starts again
        return self._unready

    def examine(self, job: Job, process: Process) -> Verdict:
        """Will this job save and come back? Looks only."""
        if not alive(process):
            return Verdict("impossible", (f"process {process.pid} is gone",), None, self.name)
        tree = read_tree(process.pid)
        if not tree.members:
            return Verdict("impossible", (f"process {process.pid} is gone",), None, self.name)
        return self._judged(job, process, tree)

    def _judged(self, job: Job, process: Process, tree: Tree) -> Verdict:
        plan = plan_capture(
            tree, job.files, read_mounts(process.pid), rollback=job.rollback, base=job.cwd or tree.root.cwd
        )
        return profile.judge(
            job,
            tree,
            tree_sockets(tree),
            plan,
            namespaces=_namespaces(process),
            arguments=self._words(process),
            copy_limit_bytes=self.copy_limit_bytes,
            resource_right=has_capability(CAP_SYS_RESOURCE),
            free_bytes=self._free_bytes(),
            store_free_bytes=store_free_bytes(job.store),
        )

    @staticmethod
    def _words(process: Process) -> list[str]:
        """The root's command line."""
        try:
            data = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        except OSError:
            return []
        return [word.decode("utf-8", "replace") for word in parse_arguments(data)]

    def _free_bytes(self) -> int | None:
        """Free bytes on the disk of `run`, which is that of the staging directory; None when unknown."""
        return _free_bytes(self.run if self.run.is_dir() else self.run.parent)

    def save(self, request: SaveRequest, frozen: Callable[[], None]) -> Saved:
        """Save the tree; see the port. The dump is vetoed and the job goes on when anything fails."""
        if not alive(request.process):
            raise EngineError(f"process {request.process.pid} of job {request.job.name} is gone")
        with told("the save"):
            return Dump(self.tool, request, self.clock, self.copy_limit_bytes).run(frozen)

    def restore(self, request: RestoreRequest) -> Process:
        """Bring the job back into a fresh PID namespace; see the port."""
        with told("the restore"):
            return self._restore(request)

    def _restore(self, request: RestoreRequest) -> Process:
        images = request.directory / "images"
        if not (images / "inventory.img").is_file():
            raise EngineError(f"the checkpoint in {clean(images)} holds no inventory.img: it is incomplete")
        self._reap()
        self._check_ports(request)
        place = incarnation(self.run, request)
        rollback = Rollback(
            aside=request.aside,
            root=None if request.scratch is None else request.scratch / "tree",
            rollback_network=request.job.rollback,
        )
        surroundings = request.details.get("surroundings", {})
        rollback.put_back(request.files, request.directory / "files", surroundings)
        made: list[str] = []
        try:
            spec, made = self._spec(request, images, place)
            process = self._persist(request, spec, place)
        except BaseException:
            rollback.undo()
            raise
        finally:
            remove_empty(made)
        return process

    def _spec(self, request: RestoreRequest, images: Path, place: Path) -> tuple[dict[str, Any], list[str]]:
        options = profile.Options.of_document(request.details.get("options", {}))
        argv = self.tool.command(
            "restore", "--images-dir", str(images), "--work-dir", str(place), "--log-file", "restore.log", "-v3",
            "--restore-detached", "--pidfile", str(place / "root.pid"), *options.restore(),
        )  # fmt: skip
        spec: dict[str, Any] = {
            "argv": argv,
            "pids": request.details.get("pids", []),
            "pid_file": str(place / "root.pid"),
            "exit_file": str(place / "exit.json"),
            "terminal": str(place / "terminal.log") if options.shell_job else None,
        }
        made: list[str] = []
        if request.scratch is not None:
            spec["scratch"], made = scratch_plan(request)
        return spec, made

    def _check_ports(self, request: RestoreRequest) -> None:
        """EngineError when the job's ports stay in use; threads of a process that was killed let go a moment after it."""
        addresses = [str(address) for address in request.details.get("listening", [])]
        if not addresses or request.scratch is not None:
            return
        end = self.clock.monotonic() + _PORTS_S
        while (taken := node_conflicts(addresses)[0]) and self.clock.monotonic() < end:
            self.clock.sleep(0.05)
        if taken:
            ports = ", ".join(map(str, sorted(taken)))
            raise EngineError(
                f"port {ports}, on which job {request.job.name} listens, is in use on this node",
                hint="end the program that holds it, or restore on another node",
            )

    def _persist(self, request: RestoreRequest, spec: dict[str, Any], place: Path) -> Process:
        """Bring the job back; where only connections of its earlier life hold a port, wait for them to vanish."""
        deadline = self.clock.monotonic() + min(request.deadline_s, LINGER_S)
        while True:
            try:
                return self._bring_back(request, spec, place)
            except EngineError as error:
                lingering = node_conflicts([str(a) for a in request.details.get("listening", [])])[1]
                if "Address already in use" not in error.message or not lingering:
                    raise
                if self.clock.monotonic() > deadline:
                    raise
            self.clock.sleep(1.0)

    def _bring_back(self, request: RestoreRequest, spec: dict[str, Any], place: Path) -> Process:
        log = place / "restore.log"
        launched = launch(spec, place, network=request.scratch is None)
        try:
            try:
                process = launched.wait(log, request.deadline_s, self.clock)
            except EngineError as error:
                raise self._explained(error, log, place) from None
            self._woken(request, process)
            if (seen := trees.sample(process)) is not None and seen.state == "T":
                trees.go_on(process, self.clock)  # one that was saved while stopped comes back stopped
            _prove(process, self.clock)
            if request.scratch is not None:  # a rehearsal ends with the proof
                launched.kill()
                return process
            launched.keep()
        except BaseException:
            launched.kill()
            raise
        remember(place, process)
        self._launched.append(launched)
        return process

    def _woken(self, request: RestoreRequest, process: Process) -> None:
        """For engines that build on this one: the image is back in memory, nothing is proven yet."""

    def _explained(self, error: EngineError, log: Path, place: Path) -> EngineError:
        text = read_tail(log)
        if not text:
            said = clean(read_tail(place / "init.log").strip()[-200:])
            return EngineError(f"{error.message} ({said})" if said else error.message)
        cause = explain(text)
        if error.message.startswith("criu restore ended"):
            return EngineError(f"the restore failed: {cause.text}", hint=cause.remedy)
        return EngineError(f"{error.message}: {cause.text}", hint=cause.remedy)

    def freeze(self, process: Process) -> None:
        """Stop the whole tree (SIGSTOP, verified)."""
        trees.stop(process, self.clock)

    def thaw(self, process: Process) -> None:
        """Let the tree run, ending a criu that holds it."""
        trees.go_on(process, self.clock)

    def end(self, process: Process) -> None:
        """Kill the tree, with its PID namespace when it has its own."""
        trees.end(process, self.clock)
        self._reap()

    def outcome(self, process: Process) -> int | None:
        """Exit code of a job that was restored here and ended since; None when unknown or still running."""
        return outcome(self.run, process)

    def _reap(self) -> None:
        self._launched = [each for each in self._launched if each.child.poll() is None]


def _prove(process: Process, clock: Clock) -> None:
    """Proof of life; a job that finished well in the moment after it came back counts as alive."""
    try:
        trees.prove_life(process, clock)
    except EngineError:
        if not trees.ended_well(process):
            raise


def _namespaces(process: Process) -> dict[str, str]:
    """The namespaces the job must live in: those of its own init after a restore, else ours."""
    base = Path("/proc") / (str(process.init_pid) if process.init_pid else "self") / "ns"
    found = {}
    for name in ("mnt", "pid", "net", "ipc", "user"):
        with contextlib.suppress(OSError):
            found[name] = str((base / name).readlink())
    return found


def _free_bytes(path: Path) -> int | None:
    """Free bytes on the disk of `path`; None when unknown."""
    try:
        facts = os.statvfs(path)
    except OSError:
        return None
    return facts.f_bavail * facts.f_frsize


def store_free_bytes(url: str) -> int | None:
    """Free bytes on the disk of a store in a directory, made or yet to be made; None for any other store."""
    if not url.startswith("file:///"):
        return None
    place = Path(unquote(url.removeprefix("file://")))
    while not place.exists() and place != place.parent:
        place = place.parent
    return _free_bytes(place)
