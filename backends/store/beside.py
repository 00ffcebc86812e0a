"""A second core: a thread that makes calls in order beside the caller, and a digest that is computed there.

Hashing, ciphers and reads of files let go of the interpreter while they work on much data, so a thread is enough. No
call here changes a file or an object: what is written, and in which order, is the caller's business alone.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

T = TypeVar("T")
WORTH = 256 << 10  # bytes; less is done at once, since handing it over costs more than it saves
AHEAD = 2  # pieces of a digest under way


class Task(Generic[T]):
    """A call handed over; `wait` gives what it returned."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call: Callable[[], T] | None = call
        self._done = threading.Event()
        self._value: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Make the call; whatever it raises is kept for `wait`."""
        # What it was given is let go of with the call, not with the answer.
        call, self._call = self._call, None
        try:
            if call is not None:
                self._value.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._error = error
        del call
        self._done.set()

    def wait(self) -> T:
        """What the call returned; raises what it raised."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value[0]


class Beside:
    """One thread for calls in order. It starts with the first call; leaving the block ends it.

    A node whose process table is full still saves: where no thread can be started, calls are made at once.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Task[Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def ended(self) -> bool:
        """Whether nobody waits for the calls any more; a long one asks this from time to time."""
        return self._ended

    def call(self, function: Callable[[], T]) -> Task[T]:
        """Hand a call over."""
        task = Task(function)
        if self._thread is None and not self._ended:
            thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread to be had
                task.run()
                return task
            self._thread = thread
        self._tasks.put(task)
        return task

    def end(self) -> None:
        """Drop what has not begun, and wait for the call under way."""
        self._ended = True
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            if not self._ended:
                task.run()


class Digest(Protocol):
    """What is needed of a hasher."""

    def update(self, data: bytes | bytearray | memoryview, /) -> object:
        """Take more bytes."""
        ...

    def hexdigest(self) -> str:
        """The digest of all of them, in hex."""
        ...


class DigestBeside:
    """A digest of pieces in order, computed beside; at most a few pieces are kept for it."""

    def __init__(self, hasher: Digest, beside: Beside) -> None:
        self._hasher = hasher
        self._beside = beside
        self._under_way: deque[Task[object]] = deque()

    def update(self, data: bytes | bytearray | memoryview) -> None:
        """The next piece; its bytes must not change any more."""
        if len(data) < WORTH and not self._under_way:
            self._hasher.update(data)
            return
        if len(self._under_way) >= AHEAD:
            self._under_way.popleft().wait()
        self._under_way.append(self._beside.call(lambda: self._hasher.update(data)))

    def hexdigest(self) -> str:
        """The digest once all pieces are in."""
        while self._under_way:
            self._under_way.popleft().wait()
        return self._hasher.hexdigest()
