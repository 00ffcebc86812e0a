"""The engine `signal`: the program saves itself when asked, and continues from its newest save by itself.

A save is done when a new, complete file or directory matches the job's `marker`, never when the signal was sent.
A match with a temporary name, still growing, or held open for writing is not complete and never chosen.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shlex
import signal as signals
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.engines.launch import Launched, identify, launch
from backends.engines.open_files import capture, plan_capture, read_mounts
from backends.engines.port import Process, RestoreRequest, Saved, SaveRequest, Verdict, alive
from backends.engines.proc import Tree, read_stat, read_tree, status_fields, tree_pids
from backends.engines.system import trees
from backends.engines.system.images import tighten
from backends.engines.system.places import incarnation, remember, remove_empty, scratch_plan, told
from backends.engines.system.rollback import Rollback
from backends.errors import EngineError
from backends.records.job import Job

TEMPORARY = (".tmp", ".temp", ".part", ".partial", ".incomplete", ".writing", ".swp", ".lock", "~")
_POLL_S = 0.05
_STABLE_POLLS = 3  # polls in a row that see the same sizes and times
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ")

Shape = tuple[tuple[str, int, int, int], ...]  # (path, inode, size, mtime in ns) of a match and all below it


def signal_number(text: str) -> int:
    """The number of `USR1`, `SIGUSR1` or `10`; EngineError for anything else."""
    name = text.strip().upper().removeprefix("SIG")
    if name.isdigit() and int(name) in {s.value for s in signals.Signals}:
        return int(name)
    found = getattr(signals.Signals, f"SIG{name}", None)
    if not isinstance(found, signals.Signals):
        raise EngineError(f"signal {clean(text, limit=40)!r} is not one: a name such as USR1 expected")
    return found.value


def is_temporary(name: str) -> bool:
    """Whether a file name says that its content is not finished."""
    return name.startswith((".", "tmp")) or name.lower().endswith(TEMPORARY)


def shape(path: Path) -> Shape | None:
    """What a match looks like now; None when it is gone, a link, holds something unfinished, or holds no file."""
    if path.is_symlink() or is_temporary(path.name):
        return None
    names = [path]
    if path.is_dir():
        names = [Path(folder) / name for folder, _, files in os.walk(path) for name in files]
    rows = []
    for name in sorted(names):
        try:
            facts = name.lstat()
        except OSError:
            return None
        if is_temporary(name.name):
            return None
        rows.append((str(name), facts.st_ino, facts.st_size, facts.st_mtime_ns))
    return tuple(rows) or None


def matching(marker: str, base: str) -> list[str]:
    """Paths of all saves that `marker` names under `base`, finished or not.

    A marker that ends in a plain name below a pattern (`ckpt/*/COMPLETE`) marks its whole directory as the save.
    """
    pattern = Path(glob.escape(base)) / marker
    found = glob.glob(str(pattern), recursive=True)  # noqa: PTH207 - absolute patterns are taken too
    if not glob.has_magic(pattern.name) and glob.has_magic(str(Path(marker).parent)):
        found = [str(Path(path).parent) for path in found]
    return sorted(set(found))


def matches(marker: str, base: str) -> dict[str, Shape]:
    """Everything that matches the marker now and could be a whole save, by path."""
    found = ((path, shape(Path(path))) for path in matching(marker, base))
    return {path: form for path, form in found if form is not None}


def newest(candidates: dict[str, Shape]) -> str | None:
    """The candidate that was written last; None when there is none."""
    return max(candidates, key=lambda path: (max(row[3] for row in candidates[path]), path), default=None)


@dataclass
class Watch:
    """Decides, poll by poll, whether a new complete save is there. Pure."""

    before: dict[str, Shape]  # what matched before the request
    last: dict[str, Shape]
    seen: dict[str, int]  # path → polls in a row without a change

    @classmethod
    def start(cls, before: dict[str, Shape]) -> Watch:
        """A watch for anything that differs from `before`."""
        return cls(before, {}, {})

    def see(self, now: dict[str, Shape], busy: frozenset[str]) -> str | None:
        """Take one look; the newest save that is complete, or None. `busy` are paths open for writing."""
        for path, form in now.items():
            same = self.last.get(path) == form and not any(row[0] in busy for row in form)
            self.seen[path] = self.seen.get(path, 0) + 1 if same else 0
        self.last = now
        fresh = {path: form for path, form in now.items() if self.before.get(path) != form}
        best = newest(fresh)
        return best if best is not None and self.seen[best] >= _STABLE_POLLS else None


class SignalEngine:
    """Saves by asking the program (`job.signal`), restores by starting `job.resume`.

    Needs no root. `run` is a directory (made 0700) for output and records of living jobs.
    """

    name = "signal"

    def __init__(self, run: Path, clock: Clock) -> None:
        self.run = run
        self.clock = clock
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def ready(self) -> Verdict:
        """Always: nothing but signals and files is needed."""
        return Verdict("ok", (), None, self.name)

    def examine(self, job: Job, process: Process) -> Verdict:
        """Does the job say how it saves itself, and does its process listen to the signal?"""
        reasons = []
        if job.marker is None:
            reasons.append(
                "the job names no marker: set marker to a glob that its saves match, such as ckpt/step-*.pt"
            )
        if not (job.resume or job.command):
            reasons.append(
                "the job names no resume command: set resume to the line that continues from its newest save"
            )
        if not alive(process):
            reasons.append(f"process {process.pid} is gone")
        else:
            try:
                self._listener(job, process)
            except EngineError as error:
                reasons.append(error.message)
        return Verdict("impossible" if reasons else "ok", tuple(reasons), None, self.name)

    def _listener(self, job: Job, process: Process) -> int:
        """The pid in the tree that catches the signal; one that does not would be killed by it."""
        bit = 1 << (signal_number(job.signal) - 1)
        for pid in tree_pids(process.pid):
            if int(status_fields(pid).get("SigCgt", "0"), 16) & bit:
                return pid
        raise EngineError(
            f"no process of job {job.name} catches SIG{job.signal.upper().removeprefix('SIG')}, which would end it",
            hint="let the program install its handler first, or name another signal",
        )

    def save(self, request: SaveRequest, frozen: Callable[[], None]) -> Saved:
        """Ask the program to save, wait for a new complete match and copy it; see the port.

        The time from the request to the finished save counts as standing still: it cannot be seen from outside.
        """
        with told("the save"):
            return self._save(request, frozen)

    def _save(self, request: SaveRequest, frozen: Callable[[], None]) -> Saved:
        job, process = request.job, request.process
        if job.marker is None:
            raise EngineError(f"job {job.name} names no marker, so nobody can tell when its save is complete")
        if not alive(process):
            raise EngineError(f"process {process.pid} of job {job.name} is gone")
        for name in ("images", "files"):
            (request.directory / name).mkdir(mode=0o700)
        tree = read_tree(process.pid)
        base = job.cwd or tree.root.cwd
        listener = identify(self._listener(job, process))
        watch = Watch.start(matches(job.marker, base))
        started = (self.clock.wall(), self.clock.monotonic())
        if listener is None or not trees.send(listener.pid, listener.start_ticks, signal_number(job.signal)):
            raise EngineError(f"the process of job {job.name} that saves is gone")
        frozen()
        while True:
            chosen = self._wait(watch, request, base, started[1])
            watched_s = _STABLE_POLLS * _POLL_S  # the save was complete before we were sure of it
            saved_s = max(_POLL_S, self.clock.monotonic() - started[1] - watched_s)
            form = watch.last[chosen]
            captured = capture(
                plan_capture(Tree(()), [chosen, *job.files], read_mounts(), rollback=True, base=base),
                request.directory / "files",
                Tree(()),
                (),
                [str(Path(base) / text) for text in (chosen, *job.files)],
            )
            if shape(Path(chosen)) == form:
                break
            for entry in (
                request.directory / "files"
            ).iterdir():  # it changed while we copied: wait for a quiet one
                entry.unlink()
        details: dict[str, Any] = {
            "cwd": base,
            "chosen": chosen,
            "saved_mtime_ns": max(row[3] for row in form),
            "output": _output(tree),
            "uid": tree.root.uid,
            "gid": tree.root.gid,
            "surroundings": captured.surroundings,
            "skipped": [list(item) for item in captured.skipped],
        }
        return Saved(
            frozen_at=started[0],
            frozen_at_monotonic=started[1],
            frozen_s=saved_s,
            dump_s=self.clock.monotonic() - started[1],
            size_bytes=tighten(request.directory / "files"),
            files=captured.files,
            processes=tuple({"pid": m.pid, "tids": list(m.threads), "name": m.name} for m in tree.members),
            versions={"kernel": os.uname().release},
            details=details,
        )

    def _wait(self, watch: Watch, request: SaveRequest, base: str, started: float) -> str:
        marker = request.job.marker or ""
        while True:
            self.clock.sleep(_POLL_S)
            chosen = watch.see(matches(marker, base), _written_by(request.process))
            if chosen is not None:
                return chosen
            if not alive(request.process):
                raise EngineError(f"job {request.job.name} ended while it was asked to save itself")
            if self.clock.monotonic() - started > request.deadline_s:
                raise EngineError(
                    f"no new complete save matched {clean(marker)} within {request.deadline_s:g} s",
                    hint="check that the program saves on the signal and that the marker names its finished files",
                )

    def restore(self, request: RestoreRequest) -> Process:
        """Put the save back, set newer ones aside, start `resume` and prove that it runs; see the port."""
        with told("the restore"):
            return self._restore(request)

    def _restore(self, request: RestoreRequest) -> Process:
        job = request.job
        if not (job.resume or job.command):
            raise EngineError(f"job {job.name} names no resume command", hint="set resume")
        rollback = Rollback(
            aside=request.aside,
            root=None if request.scratch is None else request.scratch / "tree",
            rollback_network=job.rollback,
        )
        rollback.put_back(request.files, request.directory / "files", request.details.get("surroundings", {}))
        made: list[str] = []
        try:
            if request.scratch is not None:
                plan, made = scratch_plan(request)
                return self._rehearse(request, plan)
            self._set_newer_aside(request, rollback)
            return self._start(request)
        except BaseException:
            rollback.undo()
            raise
        finally:
            remove_empty(made)

    def _set_newer_aside(self, request: RestoreRequest, rollback: Rollback) -> None:
        """The program picks its newest save itself: what is newer than this checkpoint must not be found."""
        marker = request.job.marker
        if marker is None:
            return
        ours = {file.path for file in request.files}
        base = request.job.cwd or str(request.details.get("cwd", "/"))
        newer_than = int(request.details.get("saved_mtime_ns", 0))
        for path in matching(marker, base):
            real = os.path.realpath(path)
            if real in ours or any(name.startswith(real + "/") for name in ours):
                continue
            if Path(real).stat().st_mtime_ns > newer_than or is_temporary(Path(real).name):
                rollback.movable |= {real}
                rollback.set_aside(real)

    def _job(self, request: RestoreRequest, output: str) -> dict[str, Any]:
        details, job = request.details, request.job
        environment = {key: os.environ[key] for key in _KEPT_VARIABLES if key in os.environ}
        as_root = os.geteuid() == 0
        return {
            "argv": list(job.resume or job.command),
            "cwd": job.cwd or str(details.get("cwd", "/")),
            "environment": environment | job.environment,
            "output": output,
            "uid": int(details["uid"]) if as_root and "uid" in details else None,
            "gid": int(details["gid"]) if as_root and "gid" in details else None,
        }

    def _start(self, request: RestoreRequest) -> Process:
        place = incarnation(self.run, request)
        output = request.details.get("output")
        if not isinstance(output, str) or not Path(output).parent.is_dir() or Path(output).is_symlink():
            output = str(place / "output.log")
        job = self._job(request, output)
        try:
            with Path(output).open("ab") as log:
                child = subprocess.Popen(
                    job["argv"],
                    cwd=job["cwd"],
                    env=job["environment"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    user=job["uid"],
                    group=job["gid"],
                    extra_groups=None if job["uid"] is None else [],
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise EngineError(
                f"{shlex.join(job['argv'])[:120]} could not be started: {clean(error)}"
            ) from None
        stat = read_stat(child.pid)  # not reaped yet: there even when it has ended already
        try:
            if stat is None:
                raise EngineError(
                    f"the job ended at once with exit code {child.wait()}", hint=f"see {output}"
                )
            process = Process(child.pid, stat.start_ticks)
            try:
                trees.prove_life(process, self.clock)
            except EngineError:
                if not trees.ended_well(process):  # one that finishes at once is well
                    raise
        except BaseException:
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signals.SIGKILL)
            child.wait()
            raise
        self._children[child.pid] = child
        remember(place, process)
        return process

    def _rehearse(self, request: RestoreRequest, plan: dict[str, Any]) -> Process:
        """Start the program in namespaces of its own on scratch copies, prove that it runs, and end it."""
        place = incarnation(self.run, request)
        spec = {
            "job": self._job(request, str(place / "output.log")),
            "exit_file": str(place / "exit.json"),
            "scratch": plan,
        }
        launched: Launched = launch(spec, place, network=False)
        try:
            process = launched.wait(place / "init.log", request.deadline_s, self.clock)
            trees.prove_life(process, self.clock)
        finally:
            launched.kill()
        return process

    def freeze(self, process: Process) -> None:
        """Stop the whole tree (SIGSTOP, verified)."""
        trees.stop(process, self.clock)

    def thaw(self, process: Process) -> None:
        """Let the tree run."""
        trees.go_on(process, self.clock)

    def end(self, process: Process) -> None:
        """Kill the tree."""
        trees.end(process, self.clock)
        child = self._children.pop(process.pid, None)
        if child is not None:
            child.poll()

    def outcome(self, process: Process) -> int | None:
        """Exit code of a job that was started here and ended since; None when unknown or still running."""
        child = self._children.get(process.pid)
        return None if child is None else child.poll()


def _written_by(process: Process) -> frozenset[str]:
    """Files that the tree holds open for writing now."""
    return frozenset(_writing(process.pid))


def _writing(root: int) -> Iterator[str]:
    for member in read_tree(root).members:
        for descriptor in member.descriptors:
            if descriptor.kind == "file" and descriptor.flags & os.O_ACCMODE != os.O_RDONLY:
                yield descriptor.path


def _output(tree: Tree) -> str | None:
    """Where the program's output goes, when that is a file."""
    for descriptor in tree.root.descriptors:
        if descriptor.number == 1 and descriptor.kind == "file" and not descriptor.deleted:
            return descriptor.path
    return None
