"""The guard's ears: one thread that reads the provider's notices, one that answers SIGTERM."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from backends.clock import Clock
from backends.guard.decide.model import Notice, Report
from backends.guard.decide.notices import NoticeMind, observe
from backends.guard.notices.port import NoticeSource, Reading

SETTLED_EVERY_S = 0.2
TROUBLE_S = 1.0  # after a reading that went wrong in a way nobody thought of


class Noticing:
    """Keeps the node's notice; `changed` is called after each reading, with what is to be told."""

    def __init__(
        self,
        source: NoticeSource | None,
        clock: Clock,
        changed: Callable[[tuple[Report, ...]], None],
        kept_going: Callable[[], AbstractContextManager[None]],
    ) -> None:
        # A node whose provider announces nothing has no notice; any other is unreadable until it is read.
        self._mind = NoticeMind() if source is not None else NoticeMind(notice=Notice("none"))
        self._source = source
        self._clock = clock
        self._changed = changed
        self._kept_going = kept_going  # nothing that goes wrong with one reading ends a thread
        self._lock = threading.Lock()
        self._signals: queue.SimpleQueue[None] = queue.SimpleQueue()  # its `put` may interrupt itself

    @property
    def notice(self) -> Notice:
        """The node's notice as it is now."""
        return self._mind.notice

    def signal(self) -> None:
        """SIGTERM came; safe in a signal handler."""
        self._signals.put(None)

    def start(self, stop: threading.Event, end: Callable[[], None], settled: Callable[[], bool]) -> None:
        """Read until `stop`.

        Args:
            stop: set when the guard ends.
            end: ends the guard; called for a SIGTERM that is the operator's word, and once all is done when the system
                goes down.
            settled: whether no job is being saved.
        """
        if self._source is not None:
            threading.Thread(
                target=self._read, args=(self._source, stop), name="notices", daemon=True
            ).start()
        threading.Thread(target=self._hear, args=(stop, end, settled), name="signals", daemon=True).start()

    def take(self, reading: Reading) -> None:
        """Take in one reading made now."""
        with self._lock:
            self._mind, reports = observe(self._mind, reading, self._clock.monotonic())
        self._changed(reports)

    def _read(self, source: NoticeSource, stop: threading.Event) -> None:
        while not stop.is_set():
            period_s = TROUBLE_S
            with self._kept_going():
                self.take(source.read())
                period_s = source.period_s
            stop.wait(period_s)

    def _hear(self, stop: threading.Event, end: Callable[[], None], settled: Callable[[], bool]) -> None:
        while True:
            self._signals.get()
            with self._kept_going():
                reading = self._source.signalled() if self._source is not None else None
                if reading is None:
                    end()
                    return
                self.take(reading)
                if reading.last:
                    give_up_at = self._clock.monotonic() + reading.window_s
                    while not settled() and self._clock.monotonic() < give_up_at:
                        stop.wait(SETTLED_EVERY_S)
                    end()
                    return
