"""The guard's loop: looks at processes and time, reads notices, keeps a heartbeat and a watchdog."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

from backends.clock import format_utc
from backends.errors import UsageError
from backends.guard import watchdog
from backends.guard.decide.interval import wake_at
from backends.guard.decide.model import NoticeIs, Report, Tick
from backends.guard.disk import durable
from backends.guard.disk.requests import Requests
from backends.guard.jobs.book import Book
from backends.guard.jobs.recovery import recover
from backends.guard.jobs.tools import Tools, trouble
from backends.guard.jobs.unit import JobUnit
from backends.guard.jobs.watching import check_process
from backends.guard.notices.port import NoticeSource
from backends.guard.noticing import Noticing
from backends.guard.probes.nvml import GpuWatch
from backends.guard.server import Server
from backends.guard.spawn import code_place, detached, holder, is_held, take_lock, unmoved
from backends.guard.verbs import Verbs
from backends.records.status import NodeStatus

LOOP_S = 1.0
SHORTEST_S = 0.02
HEARTBEAT_S = 5.0
WATCHDOG_S = 2.0
COMPLAIN_S = 600.0
ENDING_S = 10.0  # how long a dump under way is waited for when the guard is told to end


class Guard:
    """One node's guard. `run` returns when it was told to end; jobs run on."""

    def __init__(
        self,
        tools: Tools,
        source: NoticeSource | None,
        engines: str,
        respawn: Sequence[str],
        gpus: GpuWatch | None = None,
    ) -> None:
        self.tools = tools
        self.book = Book(tools)
        self.requests = Requests(tools.layout.requests, tools.clock)
        self._gpus = gpus
        self.noticing = Noticing(source, tools.clock, self._noticed, self._kept_going)
        self._engines = engines
        self._respawn = list(respawn)
        self._stop = threading.Event()
        self._began_at = tools.clock.monotonic()
        self._complained: dict[str, float] = {}
        self._beat_at = self._watched_at = float("-inf")

    def run(self) -> None:
        """Serve until `end` is called.

        Raises:
            UsageError: another guard serves this root.
            DamagedError: the state on disk cannot be understood.
        """
        layout = self.tools.layout
        lock = take_lock(layout.lock)
        if lock is None:
            raise UsageError(f"a guard runs already at {layout.root}; one serves each root")
        try:
            durable.remove(layout.ended)
            self.requests.forget_old()
            recover(self.book)
            server = Server(layout.socket, Verbs(self).answer)
            server.start()
            if self._gpus is not None:
                self._gpus.begin()
            self.noticing.start(self._stop, self.end, self._settled)
            self.tools.spool.add("guard.started", f"guard {self.tools.identity.guard} serves")
            while not self._stop.wait(self._turn()):
                pass
            server.close()
            if self._gpus is not None:
                self._gpus.end()
            self._wind_down()
        finally:
            os.close(lock)

    def end(self) -> None:
        """Let `run` return; the watchdog is told that this is meant."""
        try:
            durable.write(self.tools.layout.ended, {"time": format_utc(self.tools.clock.wall())})
        finally:
            self._stop.set()

    def obey_signals(self) -> None:
        """SIGINT ends the guard; SIGTERM too, unless it announces a reclaim; SIGHUP (a session that goes) does nothing."""

        def told(number: int, frame: FrameType | None) -> None:
            if number == signal.SIGTERM:
                self.noticing.signal()
            else:
                self.end()

        signal.signal(signal.SIGTERM, told)
        signal.signal(signal.SIGINT, told)
        unmoved()

    def status(self) -> NodeStatus:
        """The answer of the node verb `status`."""
        tools = self.tools
        notice, now = self.noticing.notice, tools.clock.monotonic()
        deadline = notice.deadline_at
        gpus, gpu_reason = (None, "") if self._gpus is None else self._gpus.now()
        return NodeStatus(
            guard=tools.identity.guard,
            node=tools.identity.node,
            boot_id=tools.boot_id,
            time=format_utc(tools.clock.wall()),
            uptime_s=now - self._began_at,
            notice=notice.state,
            notice_deadline_s=None if deadline is None else max(0.0, deadline - now),
            jobs=tuple(unit.status() for unit in self.book.all()),
            events_next=tools.spool.next,
            version=tools.identity.version,
            bundle=tools.identity.bundle,
            gpus=gpus,
            gpu_reason=gpu_reason,
        )

    def _turn(self) -> float:
        """One look at everything; how many seconds until the next."""
        now = self.tools.clock.monotonic()
        wait_s = LOOP_S
        with self._kept_going():
            self._tell_notice()  # jobs that came since the last reading
        for unit in self.book.all():
            with self._kept_going():
                self._look_at(unit)
                if unit.mind.phase == "running":
                    wait_s = min(wait_s, wake_at(unit.mind, now) - now)
        with self._kept_going():
            self._beat(now)
        with self._kept_going():
            self._keep_watchdog(now)
        return max(SHORTEST_S, wait_s)

    def _tell_notice(self) -> None:
        notice = self.noticing.notice
        for unit in self.book.all():
            if unit.mind.notice != notice:
                unit.take(NoticeIs(notice))

    def _look_at(self, unit: JobUnit) -> None:
        check_process(unit, self.book.children.get(unit.record.job.uid))
        if unit.mind.phase == "running":
            unit.take(Tick())

    @contextlib.contextmanager
    def _kept_going(self) -> Iterator[None]:
        """Nothing that goes wrong with one job, a full disk or a full process table ends the guard; its log says it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see above
            self._complain(trouble(error).message)

    def _complain(self, text: str) -> None:
        """A line in the guard's own log; the same one at most once in ten minutes."""
        now = self.tools.clock.monotonic()
        if now - self._complained.get(text, float("-inf")) > COMPLAIN_S:
            self._complained = {**dict(list(self._complained.items())[-20:]), text: now}
            sys.stderr.write(f"{text}\n")

    def _beat(self, now: float) -> None:
        if now - self._beat_at < HEARTBEAT_S:
            return
        self._beat_at = now
        contacts = {unit.record.job.uid: unit.mind.contact_at for unit in self.book.all()}
        document = {
            "guard": self.tools.identity.guard,
            "boot_id": self.tools.boot_id,
            "monotonic": now,
            "time": format_utc(self.tools.clock.wall()),
            "pid": os.getpid(),
            "contacts": contacts,
        }
        durable.write(self.tools.layout.heartbeat, document, synced=False)

    def _keep_watchdog(self, now: float) -> None:
        if now - self._watched_at < WATCHDOG_S:
            return
        self._watched_at = now
        layout = self.tools.layout
        lock = watchdog.watchdog_lock(layout)
        found = holder(lock)
        if found is not None and found[1] != code_place():  # one of another bundle: an upgrade
            os.kill(found[0], signal.SIGTERM)
        if not is_held(lock):
            child = detached(watchdog.argv(layout, self._engines, self._respawn), layout.run / "watchdog.log")
            threading.Thread(target=child.wait, name="watchdog", daemon=True).start()

    def _noticed(self, reports: tuple[Report, ...]) -> None:
        self._tell_notice()
        for report in reports:
            self.tools.spool.add(report.kind, report.text, None, dict(report.data))

    def _settled(self) -> bool:
        return all(unit.mind.saving_since is None for unit in self.book.all())

    def _wind_down(self) -> None:
        """Withdraw leases, and let a dump under way end, so that no job is left standing still."""
        give_up_at = self.tools.clock.monotonic() + ENDING_S
        for unit in self.book.all():
            unit.leaving = True
            unit.look_now.set()
        while self.tools.clock.monotonic() < give_up_at:
            bounded = [entry for entry in self.tools.freezes.entries() if entry.reason in ("save", "stop")]
            held = any(unit.mind.lease is not None and unit.silence is None for unit in self.book.all())
            if not bounded and not held:
                return
            self.tools.clock.sleep(0.05)
