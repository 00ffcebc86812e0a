"""Two more implementations of the store's file operations: one fails at call n, one replays crashes.

`SimulatedOps` is a file system in memory that knows what is durable: a crash keeps everything synced and any choice of
the rest. `FailingOps` wraps any implementation and makes its nth call fail, crash, or time out after all. Together
they stop the real commit, retention and takeover code between any two operations.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from backends.store.fileops import FileOps, Stat

T = TypeVar("T")
FaultKind = Literal["crash_before", "crash_after", "ENOSPC", "EDQUOT", "EIO", "timed_out_but_done"]
FAULTS: tuple[FaultKind, ...] = (
    "crash_before",
    "crash_after",
    "ENOSPC",
    "EDQUOT",
    "EIO",
    "timed_out_but_done",
)
_TORN = 3  # ways in which unsynced bytes may survive: none, half, all


class Crashed(BaseException):
    """The process died here: no cleanup runs afterwards."""


class FailingOps:
    """Counts calls and makes the `at`-th one go wrong, once or from then on; `at` 0 only counts."""

    def __init__(
        self, inner: FileOps, at: int = 0, kind: FaultKind = "EIO", *, for_good: bool = False
    ) -> None:
        self.inner = inner
        self.calls: list[str] = []
        self._at = at
        self._kind = kind
        self._for_good = for_good
        self._dead = False

    def mkdir(self, path: str) -> None:
        """Make a directory."""
        self._call(f"mkdir {path}", lambda: self.inner.mkdir(path))

    def create(self, path: str) -> int:
        """Make a file."""
        return self._call(f"create {path}", lambda: self.inner.create(path))

    def open(self, path: str) -> int:
        """Open a file."""
        return self._call(f"open {path}", lambda: self.inner.open(path))

    def write(self, handle: int, data: bytes | bytearray | memoryview) -> None:
        """Append."""
        self._call("write", lambda: self.inner.write(handle, data))

    def read(self, handle: int, length: int, offset: int) -> bytes:
        """Read."""
        return self._call("read", lambda: self.inner.read(handle, length, offset))

    def sync(self, handle: int) -> None:
        """Sync a file."""
        self._call("sync", lambda: self.inner.sync(handle))

    def forget(self, handle: int) -> None:
        """Nothing that could fail."""

    def close(self, handle: int) -> None:
        """Give the handle back; never fails."""
        self.inner.close(handle)

    def link(self, source: str, target: str) -> None:
        """Link."""
        self._call(f"link {target}", lambda: self.inner.link(source, target))

    def rename(self, source: str, target: str) -> None:
        """Rename."""
        self._call(f"rename {target}", lambda: self.inner.rename(source, target))

    def unlink(self, path: str) -> None:
        """Unlink."""
        self._call(f"unlink {path}", lambda: self.inner.unlink(path))

    def sync_dir(self, path: str) -> None:
        """Sync a directory."""
        self._call(f"sync_dir {path}", lambda: self.inner.sync_dir(path))

    def list(self, path: str) -> list[tuple[str, Stat]]:
        """List."""
        return self._call(f"list {path}", lambda: self.inner.list(path))

    def stat(self, path: str) -> Stat | None:
        """Look up."""
        return self._call(f"stat {path}", lambda: self.inner.stat(path))

    def _call(self, name: str, action: Callable[[], T]) -> T:
        if self._dead:
            raise Crashed(name)
        self.calls.append(name)
        number = len(self.calls)
        if not self._at or number < self._at or (number > self._at and not self._for_good):
            return action()
        if self._kind == "crash_before":
            self._dead = True
            raise Crashed(name)
        if self._kind == "crash_after":
            self._dead = True
            action()
            raise Crashed(name)
        if self._kind == "timed_out_but_done":
            action()
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), name)
        code = {"ENOSPC": errno.ENOSPC, "EDQUOT": errno.EDQUOT, "EIO": errno.EIO}[self._kind]
        raise OSError(code, os.strerror(code), name)


@dataclass
class _File:
    data: bytes = b""
    durable: bytes = b""


@dataclass(frozen=True)
class _Change:
    """A change of a directory that is not yet durable: names set to nodes; None removes."""

    names: tuple[tuple[str, int | None], ...]


@dataclass
class _Directory:
    entries: dict[str, int] = field(default_factory=dict)
    durable: dict[str, int] = field(default_factory=dict)
    pending: list[_Change] = field(default_factory=list)


class SimulatedOps:
    """A file system in memory with durable and merely visible state; its root exists."""

    def __init__(self, nodes: dict[int, _File | _Directory] | None = None) -> None:
        self.now = 0.0
        self._nodes: dict[int, _File | _Directory] = nodes if nodes is not None else {0: _Directory()}
        self._handles: dict[int, _File] = {}
        self._next = itertools.count(1 + max(self._nodes))

    def mkdir(self, path: str) -> None:
        """Make a directory."""
        self._add(path, _Directory())

    def create(self, path: str) -> int:
        """Make a file."""
        node = _File()
        self._add(path, node)
        return self._handle(node)

    def open(self, path: str) -> int:
        """Open a file."""
        node = self._find(path)
        if not isinstance(node, _File):
            raise _error(errno.EISDIR, path)
        return self._handle(node)

    def write(self, handle: int, data: bytes | bytearray | memoryview) -> None:
        """Append."""
        self._handles[handle].data += bytes(data)

    def read(self, handle: int, length: int, offset: int) -> bytes:
        """Read."""
        return self._handles[handle].data[offset : offset + length]

    def sync(self, handle: int) -> None:
        """Make the bytes durable."""
        node = self._handles[handle]
        node.durable = node.data

    def forget(self, handle: int) -> None:
        """There is no cache."""

    def close(self, handle: int) -> None:
        """Give the handle back."""
        self._handles.pop(handle, None)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name."""
        number = self._number(source)
        above, name = self._above(target)
        if name in above.entries:
            raise _error(errno.EEXIST, target)
        self._change(above, ((name, number),))

    def rename(self, source: str, target: str) -> None:
        """Move a name over another in the same directory, atomically."""
        number = self._number(source)
        above, old = self._above(source)
        below, new = self._above(target)
        if above is not below:
            raise _error(errno.EXDEV, target)
        self._change(above, ((old, None), (new, number)))

    def unlink(self, path: str) -> None:
        """Remove a name."""
        above, name = self._above(path)
        if name not in above.entries:
            raise _error(errno.ENOENT, path)
        self._change(above, ((name, None),))

    def sync_dir(self, path: str) -> None:
        """Make a directory's entries durable."""
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise _error(errno.ENOTDIR, path)
        node.durable = dict(node.entries)
        node.pending.clear()

    def list(self, path: str) -> list[tuple[str, Stat]]:
        """List."""
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise _error(errno.ENOTDIR, path)
        return [(name, self._stat(self._nodes[number])) for name, number in node.entries.items()]

    def stat(self, path: str) -> Stat | None:
        """Look up."""
        try:
            return self._stat(self._find(path))
        except FileNotFoundError:
            return None

    def survivals(self, limit: int, seed: int) -> Iterator[SimulatedOps]:
        """File systems that a power cut now may leave: all of them when they are at most `limit`, else a sample.

        The sample always holds the two ends, nothing unsynced kept and all of it.
        """
        ways = [2] * sum(len(d.pending) for d in self._directories()) + [_TORN] * len(self._torn())
        total = 1
        for count in ways:
            total *= count
        if total <= limit:
            for choice in itertools.product(*(range(count) for count in ways)):
                yield self._after(choice)
            return
        chance = random.Random(seed)  # noqa: S311 - a sample, to be repeated by its seed
        yield self._after(tuple(0 for _ in ways))
        yield self._after(tuple(count - 1 for count in ways))
        for _ in range(limit - 2):
            yield self._after(tuple(chance.randrange(count) for count in ways))

    def copy(self) -> SimulatedOps:
        """The same state, durable or not, on its own: a killed process leaves exactly this."""
        nodes: dict[int, _File | _Directory] = {}
        for number, node in self._nodes.items():
            if isinstance(node, _File):
                nodes[number] = _File(node.data, node.durable)
            else:
                nodes[number] = _Directory(dict(node.entries), dict(node.durable), list(node.pending))
        result = SimulatedOps(nodes)
        result.now = self.now
        return result

    def corrupt(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """Damage a file as a bad disk would."""
        node = self._find(path)
        if isinstance(node, _File):
            node.data = node.durable = change(node.data)

    def _after(self, choice: tuple[int, ...]) -> SimulatedOps:
        picks = iter(choice)
        nodes: dict[int, _File | _Directory] = {}
        for number, node in self._nodes.items():
            if isinstance(node, _Directory):
                entries = dict(node.durable)
                for change in node.pending:
                    if next(picks):
                        _apply(entries, change)
                nodes[number] = _Directory(dict(entries), dict(entries))
        for number, node in self._nodes.items():
            if isinstance(node, _File):
                data = node.durable
                if node.data != node.durable:
                    rest = node.data[len(node.durable) :]
                    data += rest[: len(rest) * next(picks) // (_TORN - 1)]
                nodes[number] = _File(data, data)
        result = SimulatedOps(nodes)
        result.now = self.now
        return result

    def _directories(self) -> tuple[_Directory, ...]:
        return tuple(node for node in self._nodes.values() if isinstance(node, _Directory))

    def _torn(self) -> tuple[_File, ...]:
        files = (node for node in self._nodes.values() if isinstance(node, _File))
        return tuple(node for node in files if node.data != node.durable)

    def _add(self, path: str, node: _File | _Directory) -> None:
        if not path:
            raise _error(errno.EEXIST, path)
        above, name = self._above(path)
        if name in above.entries:
            raise _error(errno.EEXIST, path)
        number = next(self._next)
        self._nodes[number] = node
        self._change(above, ((name, number),))

    def _change(self, directory: _Directory, names: tuple[tuple[str, int | None], ...]) -> None:
        change = _Change(names)
        _apply(directory.entries, change)
        directory.pending.append(change)

    def _handle(self, node: _File) -> int:
        number = next(self._next)
        self._handles[number] = node
        return number

    def _number(self, path: str) -> int:
        number = 0
        for part in path.split("/") if path else ():
            node = self._nodes[number]
            if not isinstance(node, _Directory):
                raise _error(errno.ENOTDIR, path)
            if part not in node.entries:
                raise _error(errno.ENOENT, path)
            number = node.entries[part]
        return number

    def _find(self, path: str) -> _File | _Directory:
        return self._nodes[self._number(path)]

    def _above(self, path: str) -> tuple[_Directory, str]:
        above, _, name = path.rpartition("/")
        node = self._find(above)
        if not isinstance(node, _Directory):
            raise _error(errno.ENOTDIR, path)
        return node, name

    def _stat(self, node: _File | _Directory) -> Stat:
        if isinstance(node, _File):
            return Stat("file", len(node.data), self.now, 0o600)
        return Stat("directory", 0, self.now, 0o700)


def _apply(entries: dict[str, int], change: _Change) -> None:
    for name, number in change.names:
        if number is None:
            entries.pop(name, None)
        else:
            entries[name] = number


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
