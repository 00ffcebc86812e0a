"""The jobs of this node, by name."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from backends.clean import clean
from backends.errors import NotFoundError, UsageError
from backends.guard.jobs.record import JobRecord, drop, save_grant, save_record
from backends.guard.jobs.saving import save
from backends.guard.jobs.tools import Tools
from backends.guard.jobs.unit import JobUnit
from backends.guard.jobs.watching import watch
from backends.records.grant import Grant
from backends.records.job import Job


class Book:
    """Holds one unit per job. A job whose process lives here is never replaced."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self.children: dict[str, subprocess.Popen[bytes]] = {}  # by uid: processes whose status we will learn
        self._units: dict[str, JobUnit] = {}
        self._arriving: dict[str, Job] = {}  # by uid: jobs that a request is bringing here, no unit yet
        self._lock = threading.RLock()

    def all(self) -> list[JobUnit]:
        """Every unit, by name."""
        with self._lock:
            return [self._units[name] for name in sorted(self._units)]

    def get(self, name: str) -> JobUnit:
        """The unit of a job; NotFoundError when the guard does not know it."""
        with self._lock:
            unit = self._units.get(name)
            if unit is None:
                known = ", ".join(sorted(self._units)) or "none"
                raise NotFoundError(f"job {clean(name, limit=64)} is not on this node; jobs here: {known}")
            return unit

    def running(self, job: Job, epoch: int) -> JobUnit | None:
        """The unit of exactly this job and epoch when it runs here already (an earlier call brought it up)."""
        for unit in self.all():
            record = unit.record
            if record.job.uid == job.uid and record.mind.epoch == epoch and record.mind.phase == "running":
                return unit
        return None

    @contextmanager
    def arriving(self, job: Job) -> Iterator[None]:
        """Until the end of the block, in which the job's unit is opened, no other request brings the job here.

        Raises:
            UsageError: a process of this job, or another job of this name or uid, is here or on its way.
        """
        with self._lock:
            self._check_free(job)
            for other in self._arriving.values():
                if job.name == other.name or job.uid == other.uid:
                    raise UsageError(
                        f"job {other.name} is being brought onto this node by another request; wait until that has ended"
                    )
            self._arriving[job.uid] = job
        try:
            yield
        finally:
            with self._lock:
                del self._arriving[job.uid]

    def _check_free(self, job: Job) -> None:
        if not job.uid:
            raise UsageError(f"job {job.name} has no uid; protect or run it from a console")
        for unit in self.all():
            record = unit.record
            if job.name != record.job.name and job.uid != record.job.uid:
                continue
            if not unit.ended:
                raise UsageError(
                    f"job {record.job.name} is on this node already (epoch {record.mind.epoch}, "
                    f"{unit.status().state}); stop or forget it first"
                )

    def open(self, record: JobRecord, grant: Grant) -> JobUnit:
        """Write a job down and make it live; an ended one of the same name or uid is replaced."""
        with self._lock:
            for unit in self.all():
                old = unit.record.job
                if record.job.name == old.name or record.job.uid == old.uid:
                    unit.close()
                    del self._units[old.name]
                    if old.uid != record.job.uid:
                        drop(self.tools.layout, old.uid)
            self.children.pop(record.job.uid, None)
            save_grant(self.tools.layout, record.job.uid, grant)
            save_record(self.tools.layout, record)
            return self.adopt(record, grant)

    def adopt(self, record: JobRecord, grant: Grant) -> JobUnit:
        """Make a written-down job live."""
        with self._lock:
            unit = JobUnit(self.tools, record, grant, save)
            self._units[record.job.name] = unit
        name = f"watch-{record.job.name}"
        threading.Thread(target=watch, args=(unit,), name=name, daemon=True).start()
        return unit

    def forget(self, name: str) -> None:
        """Close a job and drop its record and key; the process is untouched.

        Raises:
            UsageError: the process is frozen; nobody would thaw it afterwards.
        """
        with self._lock:
            unit = self.get(name)
            frozen = unit.mind.frozen
            if frozen is not None and not unit.ended:
                raise UsageError(f"job {name} is frozen ({frozen}); thaw or stop it before forgetting it")
            unit.close()
            del self._units[name]
            self.children.pop(unit.record.job.uid, None)
            drop(self.tools.layout, unit.record.job.uid)
