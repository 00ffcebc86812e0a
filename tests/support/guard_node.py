"""A node of tests: a root directory, a guard process, a store, a fleet's key; and calls to the guard."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from backends.clock import SystemClock
from backends.errors import ReprieveError, UnreachableError
from backends.guard.disk.layout import Layout
from backends.guard.server import call
from backends.guard.spawn import is_held
from backends.guard.watchdog import watchdog_lock
from backends.ids import CheckpointId, new_nonce, new_uid
from backends.records.lineage import Proof
from backends.records.strict import to_document
from backends.store.fleetkey import FleetKey
from backends.store.open import open_store
from backends.store.sealing import JobKey
from backends.store.takeover import Choice, Taker, begin, claim_next, settle, write_continues
from tests.support.guard_engine import command

REPOSITORY = Path(__file__).parents[2]
LIMIT_S = 20.0


def wait_for(what: str, check: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """The first true answer of `check`; fails with `what` after the limit."""
    give_up_at = time.monotonic() + limit_s
    while time.monotonic() < give_up_at:
        found = check()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {limit_s} s: {what}")


class RefusedError(Exception):
    """The guard refused a call."""


class Fleet:
    """One store, one fleet key, one job: what a console holds."""

    def __init__(self, directory: Path) -> None:
        self.store_directory = directory / "store"
        self.url = f"file://{self.store_directory}"
        self.key = FleetKey.new()
        self.job_key = JobKey.new()
        self.uid = new_uid()
        self.state = directory / "state.txt"

    def taker(self, nonce: str | None = None, key: FleetKey | None = None) -> Taker:
        store = open_store(self.url)
        return Taker(store, self.uid, key or self.key, "test", nonce or new_nonce(), SystemClock())

    def genesis(self, guard: str) -> dict[str, Any]:
        """Epoch 1 for that guard; the grant."""
        taker = self.taker()
        begin(taker, "count", "node", guard)
        return self.grant(1, taker.nonce, "genesis")

    def next_epoch(self, guard: str, checkpoint: str) -> dict[str, Any]:
        """Take over from `checkpoint` for that guard; the grant."""
        taker = self.taker()
        lineage = settle(taker)
        current = lineage.current()
        assert current is not None
        proof = Proof(
            "cloud", current.epoch, current.target or "", current.guard or "", "test", "2026-12-01T00:00:00Z"
        )
        claim = claim_next(taker, proof)
        choice = Choice("checkpoint", CheckpointId.parse(checkpoint))
        write_continues(taker, claim, choice, "node", guard)
        return self.grant(claim.epoch, taker.nonce, checkpoint)

    def grant(self, epoch: int, nonce: str, continues: str) -> dict[str, Any]:
        return {
            "store": self.url,
            "epoch": epoch,
            "nonce": nonce,
            "key": self.job_key.hex,
            "verify_key": self.key.verify_key.hex,
            "continues": continues,
        }

    def job(self, **changes: Any) -> dict[str, Any]:
        """The counting job's record."""
        return {
            "name": "count",
            "node": "node",
            "uid": self.uid,
            "command": list(command(self.state)),
            "files": [str(self.state)],
            "engine": "fake",
            "interval_s": 1.0,
            **changes,
        }


class Node:
    """A guard process under its own root."""

    def __init__(self, root: Path, environment: dict[str, str] | None = None) -> None:
        self.layout = Layout(root)
        root.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(REPOSITORY), *(entry for entry in sys.path if entry)])
        self.environment = {
            **os.environ,
            "REPRIEVE_NODE_ROOT": str(root),
            "PYTHONPATH": path,
            **(environment or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Node:
        """Start the guard and wait until it answers."""
        log = (self.layout.root / "log").open("ab")
        argv = [sys.executable, "-m", "tests.support.guard_main"]
        self.process = subprocess.Popen(
            argv,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        self.wait_up()
        return self

    def wait_up(self) -> None:
        def up() -> bool:
            try:
                self.call("status")
            except UnreachableError:
                return False
            return True

        try:
            wait_for("the guard answers", up)
        except AssertionError:
            raise AssertionError((self.layout.root / "log").read_text()) from None

    def call(self, verb: str, **document: Any) -> dict[str, Any]:
        """One call; raises RefusedError for a refusal."""
        answer = call(self.layout.socket, verb, document, 60.0)
        if "error" in answer and isinstance(answer["error"], dict):
            raise RefusedError(answer["error"]["message"])
        return answer

    @property
    def guard(self) -> str:
        return str(self.call("status")["guard"])

    def job(self) -> dict[str, Any]:
        """The status of the one job."""
        jobs = self.call("status")["jobs"]
        assert len(jobs) == 1, jobs
        return dict(jobs[0])

    def state(self) -> str:
        return str(self.job()["state"])

    def checkpoint(self) -> str | None:
        saved = self.job()["saved"]
        return saved["checkpoint"] if saved else None

    def kinds(self) -> list[str]:
        """Kinds of all events so far."""
        return [event["kind"] for event in self.events()]

    def events(self) -> list[dict[str, Any]]:
        return list(self.call("events", since=0, limit=500)["events"])

    def script(self, **told: Any) -> None:
        """Tell the test engine how to behave."""
        path = self.layout.root / "script.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps(told))
        new.replace(path)

    def guard_pid(self) -> int:
        """The guard's process, whoever started it."""
        return int(self.layout.lock.read_text().split()[0])

    def kill(self) -> None:
        """SIGKILL the guard."""
        os.kill(self.guard_pid(), signal.SIGKILL)
        if self.process is not None:
            self.process.wait(10)

    def end(self) -> None:
        """End guard, watchdog and job."""
        pids = []
        try:
            pids = [job["pid"] for job in self.call("status")["jobs"] if job["pid"]]
            self.call("shutdown")
        except (ReprieveError, RefusedError):
            self.layout.ended.write_text("{}")
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for lock in (self.layout.lock, watchdog_lock(self.layout)):
            if lock.exists():
                wait_for(f"{lock.name} is released", partial(released, lock))
        if self.process is not None:
            self.process.wait(10)


def released(lock: Path) -> bool:
    """Whether no live process holds the lock."""
    return not is_held(lock)


def request() -> str:
    """A fresh request id."""
    return uuid.uuid4().hex


def document(record: Any) -> dict[str, Any]:
    """A record as a call's document."""
    return to_document(record)
