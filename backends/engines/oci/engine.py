"""Saves a container with `RUNTIME checkpoint --leave-running`, restores it with `RUNTIME restore` from its own bundle.

The tree is stopped around dump and capture, so that memory and files are of one instant. The container's root file
system is not saved: it must lie at the same place on the other node; what the container writes there travels.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.engines import profile
from backends.engines.criu import CriuEngine
from backends.engines.oci.bundle import Bundle, parse_bundle, read_bundle
from backends.engines.oci.runtime import Container, Runtime
from backends.engines.open_files import COPY_LIMIT_BYTES, Plan, capture, plan_capture, read_mounts
from backends.engines.port import Process, RestoreRequest, Saved, SaveRequest, Verdict, alive, process_of
from backends.engines.proc import CAP_SYS_RESOURCE, Tree, has_capability, read_tree
from backends.engines.system import trees
from backends.engines.system.images import missing_parts, tighten
from backends.engines.system.places import incarnation, remember, told
from backends.engines.system.rollback import Rollback
from backends.engines.system.sockets import tree_sockets
from backends.errors import EngineError
from backends.records.job import Job

_TCP = ("--tcp-established",)  # neither runtime can close connections; they live on only at the same address


class OciEngine:
    """One runtime. `criu` tells whether CRIU works on this node; `run` is a directory for what living jobs need."""

    def __init__(self, runtime: Runtime, criu: CriuEngine, run: Path, clock: Clock) -> None:
        self.runtime = runtime
        self.name = runtime.name
        self.criu = criu
        self.run = run
        self.clock = clock

    def ready(self) -> Verdict:
        """CRIU's canary, and a runtime that can call it."""
        verdict = dataclasses.replace(self.criu.ready(), engine=self.name)
        if verdict.answer == "ok" and (problem := self.runtime.problem()):
            return Verdict("impossible", (problem,), None, self.name)
        return verdict

    def examine(self, job: Job, process: Process) -> Verdict:
        """Is it a container of this runtime, and does CRIU mind nothing in it?"""
        if not alive(process):
            return Verdict("impossible", (f"process {process.pid} is gone",), None, self.name)
        try:
            bundle = read_bundle(self._container(process).bundle)
        except EngineError as error:
            return Verdict("impossible", (error.message,), None, self.name)
        tree = read_tree(process.pid)
        if not tree.members:
            return Verdict("impossible", (f"process {process.pid} is gone",), None, self.name)
        plan = self._plan(job, tree, bundle)
        verdict = profile.judge(
            job, tree, tree_sockets(tree), plan, namespaces=tree.root.namespaces, arguments=[],
            copy_limit_bytes=COPY_LIMIT_BYTES, resource_right=has_capability(CAP_SYS_RESOURCE),
        )  # fmt: skip
        outside = list(_outside_output(tree))
        if outside:
            reason = (
                f"its output goes to {', '.join(outside)} of the host, which no runtime can put back: start the "
                f"container with stdin, stdout and stderr from /dev/null"
            )
            return Verdict("needs_restart", (reason, *verdict.reasons), None, self.name)
        return dataclasses.replace(verdict, engine=self.name, restart_line=None)

    def save(self, request: SaveRequest, frozen: Callable[[], None]) -> Saved:
        """Stop, dump, capture, run on; see the port."""
        process = request.process
        if not alive(process):
            raise EngineError(f"process {process.pid} of job {request.job.name} is gone")
        container = self._container(process)
        bundle = read_bundle(container.bundle)
        with told("the save"):
            for name in ("images", "files", "control"):
                (request.directory / name).mkdir(mode=0o700)
            return self._save(request, container, bundle, frozen)

    def _save(
        self, request: SaveRequest, container: Container, bundle: Bundle, frozen: Callable[[], None]
    ) -> Saved:
        tcp = any(s.family == "tcp" and s.connected for s in tree_sockets(read_tree(request.process.pid)))
        process, images, control = (
            request.process,
            request.directory / "images",
            request.directory / "control",
        )
        log, started = control / "dump.log", (self.clock.wall(), self.clock.monotonic())
        try:
            trees.stop(process, self.clock)
            frozen()
            ended = self.runtime.run(
                "checkpoint", "--image-path", str(images), "--work-path", str(control), "--leave-running",
                "--file-locks", *_TCP[:tcp], container.name,
                log=log, deadline_s=min(request.deadline_s, request.max_freeze_s), clock=self.clock,
                before_kill=lambda: trees.detach(process, self.clock),
            )  # fmt: skip
            if ended.code != 0 or ended.stopped is not None:
                raise self.runtime.failure("save", ended, log)
            tree = read_tree(process.pid)
            taken = capture(
                self._plan(request.job, tree, bundle),
                request.directory / "files",
                Tree(()),
                (),
                list(request.job.files),
            )
        finally:
            trees.detach(process, self.clock)
            trees.go_on(process, self.clock)
        frozen_s = self.clock.monotonic() - started[1]
        missing = missing_parts(images)
        if missing:
            raise EngineError(f"the save is incomplete: {', '.join(missing)}")
        details: dict[str, Any] = {
            "container": container.name,
            "bundle": container.bundle,
            "config": json.dumps(bundle.config),
            "tcp": tcp,
            "surroundings": taken.surroundings,
            "skipped": [list(item) for item in taken.skipped],
        }
        return Saved(
            frozen_at=started[0],
            frozen_at_monotonic=started[1],
            frozen_s=frozen_s,
            dump_s=frozen_s,
            size_bytes=tighten(images) + tighten(request.directory / "files"),
            files=taken.files,
            processes=tuple({"pid": m.pid, "tids": list(m.threads), "name": m.name} for m in tree.members),
            versions={
                self.name: self.runtime.version(),
                "criu": self.criu.tool.version,
                "kernel": os.uname().release,
            },
            details=details,
        )

    def restore(self, request: RestoreRequest) -> Process:
        """Put the files back and let the runtime restore the container; see the port."""
        with told("the restore"):
            name, bundle = _told_by(request)
            images = request.directory / "images"
            if not (images / "inventory.img").is_file():
                raise EngineError(
                    f"the checkpoint in {clean(images)} holds no inventory.img: it is incomplete"
                )
            if not Path(bundle.rootfs).is_dir():
                raise EngineError(
                    f"the container's root file system {clean(bundle.rootfs)} is not on this node",
                    hint="unpack the same image there first",
                )
            self._make_room(name)
            if request.scratch is not None:
                return self._rehearse(request, request.scratch, name, bundle)
            return self._restore(request, name, bundle, {})

    def _restore(self, request: RestoreRequest, name: str, bundle: Bundle, places: dict[str, str]) -> Process:
        """With `places`, on copies: files go below the replaced places."""
        place = incarnation(self.run, request)
        rollback = Rollback(aside=request.aside, rollback_network=request.job.rollback)
        files = tuple(dataclasses.replace(file, path=_moved(file.path, places)) for file in request.files)
        surroundings = {} if places else request.details.get("surroundings", {})
        rollback.put_back(files, request.directory / "files", surroundings)
        try:
            here = place / "bundle"
            here.mkdir(mode=0o700, exist_ok=True)
            (here / "config.json").write_text(json.dumps(bundle.moved(places)), "utf-8")
            process = self._start(request, name, here, place, alone=bool(places))
        except BaseException:
            self.runtime.remove(name)
            rollback.undo()
            raise
        remember(place, process)
        return process

    def _start(
        self, request: RestoreRequest, name: str, bundle: Path, place: Path, *, alone: bool
    ) -> Process:
        log, pid_file = place / "restore.log", place / "container.pid"
        pid_file.unlink(missing_ok=True)
        ended = self.runtime.run(
            "restore", "--detach", "--bundle", str(bundle), "--image-path", str(request.directory / "images"),
            "--work-path", str(place), "--pid-file", str(pid_file), "--file-locks",
            *_TCP[: bool(request.details.get("tcp"))], name,
            log=log, deadline_s=request.deadline_s, clock=self.clock, alone=alone,
        )  # fmt: skip
        if ended.code != 0 or ended.stopped is not None:
            raise self.runtime.failure("restore", ended, log)
        with contextlib.suppress(OSError, ValueError):
            process = process_of(int(pid_file.read_text("ascii")))
            if process is not None:
                trees.go_on(process, self.clock)  # it was saved while stopped
                trees.prove_life(process, self.clock)
                return process
        raise EngineError("the container ended right after it came back", hint="use the previous checkpoint")

    def _rehearse(self, request: RestoreRequest, scratch: Path, name: str, bundle: Bundle) -> Process:
        """On overlays over everything it may write, without network; killed after the proof.

        Under the container's own name, because its control group's name is in the image.
        """
        with _overlays(bundle.writable(), scratch) as places:
            process = self._restore(request, name, bundle, places)
            self.runtime.remove(name)
            trees.end(process, self.clock)
        return process

    def freeze(self, process: Process) -> None:
        """Stop the whole tree (SIGSTOP, verified)."""
        trees.stop(process, self.clock)

    def thaw(self, process: Process) -> None:
        """Let the tree run, ending a criu that holds it."""
        trees.go_on(process, self.clock)

    def end(self, process: Process) -> None:
        """Kill the tree; the runtime forgets the container."""
        names = [each.name for each in self.runtime.containers() if each.pid == process.pid]
        trees.end(process, self.clock)
        for name in names:
            self.runtime.remove(name)

    def first_pid(self, container: str) -> int | None:
        """The first process of a living container of this name; see `port.HoldsContainers`."""
        found = (
            each for each in self.runtime.containers() if each.name == container and each.status != "stopped"
        )
        return next((each.pid for each in found), None)

    def _container(self, process: Process) -> Container:
        """The container whose first process this is."""
        for container in self.runtime.containers():
            if container.pid == process.pid and container.status != "stopped":
                return container
        raise EngineError(f"process {process.pid} is not the first process of a container of {self.name}")

    def _make_room(self, name: str) -> None:
        """Forget an ended container of that name; EngineError for one that lives."""
        for container in self.runtime.containers():
            if container.name == name and container.status != "stopped":
                raise EngineError(
                    f"a container {clean(name)} lives on this node: process {container.pid}",
                    hint="end it first",
                )
        self.runtime.remove(name)

    def _plan(self, job: Job, tree: Tree, bundle: Bundle) -> Plan:
        """What travels, by its place on the host: files the container writes, and the job's `files`."""
        inside = plan_capture(tree, (), read_mounts(tree.root.outer_pid), rollback=job.rollback)
        declared = plan_capture(Tree(()), job.files, read_mounts(), rollback=job.rollback, base=bundle.rootfs)
        files = {path: item for item in inside.files if (path := bundle.host_path(item.path))}
        moved = [dataclasses.replace(item, path=path) for path, item in files.items()]
        known = {item.path for item in moved}
        return Plan(
            (*moved, *(item for item in declared.files if item.path not in known)),
            inside.skipped + declared.skipped,
            inside.size_bytes + declared.size_bytes,
        )


def _told_by(request: RestoreRequest) -> tuple[str, Bundle]:
    """Name and bundle of the saved container."""
    found = [request.details.get(key) for key in ("container", "bundle", "config")]
    if not all(isinstance(value, str) for value in found):
        raise EngineError("the checkpoint says nothing of its container: it is incomplete")
    return str(found[0]), parse_bundle(str(found[1]), str(found[2]))


def _outside_output(tree: Tree) -> Iterator[str]:
    """Files and terminals that the container got as stdin, stdout or stderr from the host."""
    for member in tree.members:
        root = Path(f"/proc/{member.outer_pid}/root")
        for each in member.descriptors:
            if each.number > 2 or each.kind not in ("file", "tty"):
                continue
            with contextlib.suppress(OSError):
                if (root / each.path.lstrip("/")).lstat().st_ino == each.inode:
                    continue
            yield clean(each.path)


def _moved(path: str, places: dict[str, str]) -> str:
    for old, new in sorted(places.items(), key=lambda item: -len(item[0])):
        if path == old or path.startswith(old.rstrip("/") + "/"):
            return new + path[len(old.rstrip("/")) :]
    return path


@contextlib.contextmanager
def _overlays(places: list[str], scratch: Path) -> Iterator[dict[str, str]]:
    """A writable view of each place below `scratch`, gone at the end; EngineError when there can be none."""
    made: dict[str, str] = {}
    try:
        for number, place in enumerate(dict.fromkeys(places)):
            upper, work, merged = (scratch / f"{number}.{kind}" for kind in ("upper", "work", "merged"))
            for directory in (upper, work, merged):
                directory.mkdir(mode=0o755)
            options = f"lowerdir={place},upperdir={upper},workdir={work}"
            argv = ["mount", "-t", "overlay", "overlay", "-o", options, str(merged)]
            done = subprocess.run(argv, capture_output=True, check=False, stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                raise EngineError(
                    f"no overlay can be made over {clean(place)}: {clean(done.stderr, limit=200)}"
                )
            made[place] = str(merged)
        yield made
    finally:
        for merged_path in made.values():
            subprocess.run(["umount", "-l", merged_path], capture_output=True, check=False)
