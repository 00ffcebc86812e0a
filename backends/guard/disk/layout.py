"""Where things lie under a node's root, and who this guard is (docs/internals.md section 2)."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from backends.guard.disk import durable
from backends.ids import new_uid
from backends.records.strict import read

ROOT_VARIABLE = "REPRIEVE_NODE_ROOT"
DEFAULT_ROOT = "/opt/reprieve"


@dataclass(frozen=True)
class Layout:
    """The directories of one node root; `prepare` makes them, readable by the owner only."""

    root: Path

    @property
    def state(self) -> Path:
        """Identity, desired state, keys, spool, lock and socket."""
        return self.root / "state"

    @property
    def desired(self) -> Path:
        """One record per job, `<uid>.json`."""
        return self.state / "desired"

    @property
    def started(self) -> Path:
        """`<uid>.<epoch>`: made before anything of that epoch is started."""
        return self.state / "started"

    @property
    def keys(self) -> Path:
        """One grant per job, `<uid>.json`."""
        return self.state / "keys"

    @property
    def spool(self) -> Path:
        """Events until they are acknowledged."""
        return self.state / "spool"

    @property
    def requests(self) -> Path:
        """What became of each request."""
        return self.state / "requests"

    @property
    def frozen(self) -> Path:
        """The freeze ledger: what may stand still now, and why."""
        return self.state / "frozen"

    @property
    def pages(self) -> Path:
        """Page tables: what the next save of a job is compared with. May be lost at any time."""
        return self.state / "pages"

    @property
    def staging(self) -> Path:
        """Saves and restores under way."""
        return self.root / "staging"

    @property
    def run(self) -> Path:
        """Logs, pid files, files set aside by restores."""
        return self.root / "run"

    @property
    def engines(self) -> Path:
        """What engines keep of the jobs they brought back; they make a directory for each."""
        return self.run / "engines"

    @property
    def lock(self) -> Path:
        """Held by the one guard of this root."""
        return self.state / "lock"

    @property
    def socket(self) -> Path:
        """Where the guard answers."""
        return self.state / "guard.sock"

    @property
    def heartbeat(self) -> Path:
        """When the guard and each store were last heard of."""
        return self.state / "heartbeat.json"

    @property
    def controller_clock(self) -> Path:
        """What was heard of the controller's clock."""
        return self.state / "clock.json"

    @property
    def ended(self) -> Path:
        """Present while the guard is meant not to run: the watchdog then leaves it alone."""
        return self.state / "ended"

    def prepare(self) -> None:
        """Make every directory that is missing, 0700."""
        self.root.mkdir(parents=True, exist_ok=True)
        for path in (
            self.state, self.desired, self.started, self.keys, self.spool, self.requests, self.frozen,
            self.pages, self.staging, self.run,
        ):  # fmt: skip
            path.mkdir(mode=0o700, exist_ok=True)
            path.chmod(0o700)


def layout_here() -> Layout:
    """The layout that the environment names, else /opt/reprieve."""
    return Layout(Path(os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT))


@dataclass(frozen=True)
class Identity:
    """Who this guard is: `guard` is new at every installation and kept over restarts."""

    guard: str
    node: str
    version: str = ""
    bundle: str = ""
    provider: str | None = None  # where notices come from; None: not told


def identity(layout: Layout) -> Identity:
    """Read `state/guard.json`, made by the installation; where there is none, make one."""
    path = layout.state / "guard.json"
    document = durable.read(path)
    if document is None:
        durable.create(path, {"guard": new_uid(), "node": socket.gethostname()})
        document = durable.read(path)
    return read(Identity, document, what=str(path), ignore_unknown=True)


def boot_id() -> str:
    """The kernel's mark of this boot: boot-clock instants compare only under the same one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
