"""One `criu dump --leave-running`, with the job's files captured inside its freeze and a veto for every failure.

CRIU calls an action script after the images are written and before the job goes on. The script, a few lines of
shell, reaches two pipes of ours through criu's own descriptors: it says that the dump is done, and waits for our
word. So the capture runs in this process with nothing to start up, and when this process dies the script reads the
end of the pipe, vetoes, and criu lets the job go on.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.engines import profile
from backends.engines.criu_tool import DUMP_DONE, CriuTool, Ended, last_line, read_tail, run_bounded
from backends.engines.explain import explain
from backends.engines.open_files import Captured, Plan, capture, check_size, plan_capture, read_mounts
from backends.engines.port import Saved, SaveRequest, alive
from backends.engines.proc import Tree, read_stat, read_tree, status_fields
from backends.engines.system import trees
from backends.engines.system.copying import reflink
from backends.engines.system.images import DumpStats, missing_parts, parse_stats, tighten
from backends.engines.system.sockets import Socket, among_themselves, listening_addresses, tree_sockets
from backends.errors import EngineError

_SCRIPT = """#!/bin/sh
[ "$CRTOOLS_SCRIPT_ACTION" = post-dump ] || exit 0
echo dumped >"/proc/$PPID/fd/$REPRIEVE_SAY" || exit 1
read -r answer <"/proc/$PPID/fd/$REPRIEVE_HEAR" || exit 1
[ "$answer" = keep ]
"""
_COLLECT_S = 30  # how long criu may take to bring all tasks to a stop
_LOOK_S, _WAIT_S = (
    0.002,
    0.02,
)  # between looks for the freeze, and for limits while frozen; the word comes at once


class Dump:
    """One save under way."""

    def __init__(self, tool: CriuTool, request: SaveRequest, clock: Clock, copy_limit_bytes: int) -> None:
        self.tool = tool
        self.request = request
        self.clock = clock
        self.copy_limit_bytes = copy_limit_bytes
        self.images = request.directory / "images"
        self.files = request.directory / "files"
        self.control = request.directory / "control"
        self.log = self.control / "dump.log"
        self.frozen_at: tuple[float, float] | None = None  # wall, monotonic: when first seen standing still
        self.answered_at: tuple[float, float] | None = None
        self.captured: tuple[Captured, Tree, profile.Options] | None = None
        self.listening: list[str] = []
        self.failure: EngineError | None = None

    def run(self, frozen: Callable[[], None]) -> Saved:
        """The whole save; EngineError when it failed, with the job running and only partial files left."""
        for directory in (self.images, self.files, self.control):
            directory.mkdir(mode=0o700)
        tree, sockets, plan = self._look()
        options = profile.choose(tree, sockets)
        self._check_room(tree, plan)
        started = self.clock.monotonic()
        try:
            ended = self._dump(options, frozen)
        finally:
            trees.detach(self.request.process, self.clock)
        dump_s = self.clock.monotonic() - started
        self._judge(ended)
        saved = self._saved(dump_s)
        shutil.rmtree(self.control, ignore_errors=True)
        return saved

    def _look(self) -> tuple[Tree, tuple[Socket, ...], Plan]:
        tree = read_tree(self.request.process.pid)
        if not tree.members or not alive(self.request.process):
            raise EngineError(f"process {self.request.process.pid} of job {self.request.job.name} is gone")
        job = self.request.job
        mounts = read_mounts(tree.root.outer_pid)
        plan = plan_capture(tree, job.files, mounts, rollback=job.rollback, base=job.cwd or tree.root.cwd)
        return tree, tree_sockets(tree), plan

    def _check_room(self, tree: Tree, plan: Plan) -> None:
        """Refuse before the freeze what cannot fit or would pause the job too long."""
        shared = bool(plan.size_bytes > self.copy_limit_bytes and self._reflinks(plan))
        check_size(plan, self.copy_limit_bytes, reflinks=shared)
        needed = profile.needed_bytes(tree, plan, shared=shared)
        facts = os.statvfs(self.request.directory)
        free = facts.f_bavail * facts.f_frsize
        if free < needed:
            raise EngineError(
                f"the staging disk {clean(self.request.directory)} has {free / 2**20:.0f} MiB free, this save needs "
                f"{needed / 2**20:.0f} MiB",
                hint="free space there, or move the node's root directory to a larger disk",
            )

    def _reflinks(self, plan: Plan) -> bool:
        """Whether the largest files can share their blocks with the staging disk (tried on each file system)."""
        probe = self.control / "reflink"
        for item in plan.files:
            with contextlib.suppress(OSError), item.source.open("rb") as source, probe.open("wb") as target:
                if source.seek(0, os.SEEK_END) > 1 << 20 and not reflink(source.fileno(), target.fileno()):
                    return False
        probe.unlink(missing_ok=True)
        return True

    def _command(self, options: profile.Options) -> list[str]:
        process = self.request.process
        script = self.control / "action.sh"
        script.write_text(_SCRIPT, "ascii")
        script.chmod(0o700)
        argv = self.tool.command(
            "dump", "--tree", str(process.inner_pid or process.pid), "--images-dir", str(self.images),
            "--work-dir", str(self.control), "--log-file", "dump.log", "-v3", "--timeout", str(_COLLECT_S),
            "--action-script", str(script), *options.dump(),
        )  # fmt: skip
        if process.init_pid is not None:
            argv = ["nsenter", "--target", str(process.init_pid), "--pid", "--mount", *argv]
        return argv

    def _dump(self, options: profile.Options, frozen: Callable[[], None]) -> Ended:
        say, told = os.pipe2(os.O_CLOEXEC)
        hear, answer = os.pipe2(os.O_CLOEXEC)
        environment = {
            **self.tool.environment, "REPRIEVE_SAY": str(told), "REPRIEVE_HEAR": str(hear),
        }  # fmt: skip
        try:
            return run_bounded(
                self._command(options),
                log=self.log,
                deadline_s=self.request.deadline_s,
                clock=self.clock,
                environment=environment,
                keep=(told, hear),
                pause_s=0.0005,
                before_kill=lambda: trees.detach(self.request.process, self.clock),
                tick=lambda: self._tick(say, answer, options, frozen),
            )
        finally:
            for handle in (say, told, hear, answer):
                os.close(handle)

    def _tick(
        self, say: int, answer: int, options: profile.Options, frozen: Callable[[], None]
    ) -> str | None:
        """Watch for the freeze and for criu's word that the images are written; a text ends the dump."""
        if self.frozen_at is None and self._stands_still():
            self.frozen_at = (self.clock.wall(), self.clock.monotonic())
            frozen()
        wait_s = _LOOK_S if self.frozen_at is None else _WAIT_S
        if self.answered_at is None and select.select([say], [], [], wait_s)[0]:
            if self.frozen_at is None:
                self.frozen_at = (self.clock.wall(), self.clock.monotonic())
                frozen()
            self._capture(options)
            self.answered_at = (self.clock.wall(), self.clock.monotonic())
            os.write(answer, b"keep\n" if self.failure is None else b"veto\n")
        if self.frozen_at is not None and self.answered_at is None:
            return self._too_long()
        return None

    def _too_long(self) -> str | None:
        if self.frozen_at is None or self.clock.monotonic() - self.frozen_at[1] <= self.request.max_freeze_s:
            return None
        return f"the job stood still longer than its max_freeze of {self.request.max_freeze_s:g} s"

    def _stands_still(self) -> bool:
        pid = self.request.process.pid
        found = read_stat(pid)
        return found is not None and (found.state == "t" or status_fields(pid).get("TracerPid", "0") != "0")

    def _capture(self, options: profile.Options) -> None:
        """Copy what travels while the job stands still; a failure is kept for the veto."""
        try:
            tree, sockets, plan = self._look()
            base = Path(self.request.job.cwd or tree.root.cwd)
            declared = [str(base / text) for text in self.request.job.files]
            taken = capture(plan, self.files, tree, sockets, declared, self._check_freeze)
            self._check_freeze()
            self.listening = listening_addresses(sockets)
            # A connection to the outside that came just before the freeze: all come back closed.
            options = replace(options, own_tcp=options.own_tcp and among_themselves(sockets))
        except EngineError as error:
            self.failure = error
            return
        except OSError as error:
            self.failure = EngineError(f"the job's files cannot be captured: {clean(error.strerror)}")
            return
        self.captured = (taken, tree, options)

    def _check_freeze(self) -> None:
        if (late := self._too_long()) is not None:
            raise EngineError(late, hint="raise max_freeze, or declare fewer files")

    def _judge(self, ended: Ended) -> None:
        """Raise EngineError unless criu says and shows that the dump is whole."""
        log = read_tail(self.log)
        if self.failure is not None:
            raise self.failure
        if ended.stopped is not None:
            raise EngineError(
                f"the save was ended: {ended.stopped}", hint="the job runs on; the older save stands"
            )
        if ended.code != 0 or DUMP_DONE not in last_line(log):
            cause = explain(log)
            raise EngineError(
                f"the save failed: {cause.text}" if ended.code >= 0 else _killed(ended), hint=cause.remedy
            )
        missing = missing_parts(self.images)
        if missing or self.captured is None:
            raise EngineError(f"the save is incomplete: {', '.join(missing) or 'no files captured'}")

    def _saved(self, dump_s: float) -> Saved:
        if self.captured is None or self.answered_at is None or self.frozen_at is None:
            raise EngineError("the save is incomplete")
        taken, tree, options = self.captured
        stats: DumpStats | None = None
        with contextlib.suppress(FileNotFoundError):
            stats = parse_stats((self.control / "stats-dump").read_bytes())
        frozen_s = self.answered_at[1] - self.frozen_at[1] if stats is None else stats.frozen_s
        size = tighten(self.images) + tighten(self.files)
        details: dict[str, Any] = {
            "options": options.document(),
            "root_pid": tree.root.pid,
            "pids": sorted({n for m in tree.members for n in (*m.threads, m.pid, m.session, m.group) if n}),
            "listening": self.listening,
            "surroundings": taken.surroundings,
            "skipped": [list(item) for item in taken.skipped],
            "freezing_s": None if stats is None else stats.freezing_s,
            "copied_bytes": taken.copied_bytes,
        }
        return Saved(
            # never later than the freeze itself: the answer was given inside the freeze
            frozen_at=min(self.frozen_at[0], self.answered_at[0] - frozen_s),
            frozen_at_monotonic=min(self.frozen_at[1], self.answered_at[1] - frozen_s),
            frozen_s=frozen_s,
            dump_s=dump_s,
            size_bytes=size,
            files=taken.files,
            processes=tuple(
                {"pid": m.pid, "tids": list(m.threads), "name": m.name, "command": m.name}
                for m in tree.members
            ),
            versions={"criu": self.tool.version, "kernel": os.uname().release},
            details=details,
        )


def _killed(ended: Ended) -> str:
    return f"criu was ended by signal {-ended.code}"
