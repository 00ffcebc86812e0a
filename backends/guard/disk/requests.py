"""What became of each request: a repeated request gets the first one's outcome, over a crash of the guard too.

A request that a crash cut off is carried out again when it is repeated: every verb looks first at what is there
(`started/`, the job's record), so that nothing starts twice.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.errors import ReprieveError, UsageError
from backends.guard.disk import durable
from backends.records.strict import canonical

KEPT_S = 30 * 86400.0
_REQUEST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z")

Answer = dict[str, Any]


class Task:
    """One request under way. Until `begin` it has changed nothing: a refusal is then forgotten."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self.noted: Answer = {}
        self.done = threading.Event()
        self.answer: Answer = {}
        self.refusal: ReprieveError | None = None
        self.begun = False
        self._begin = begin

    def begin(self) -> None:
        """Write down, synced, that the request is being carried out."""
        self._begin()
        self.begun = True

    def note(self, **fields: object) -> None:
        """Say how far it is; shown by answers with state `running`."""
        self.noted = {**self.noted, **fields}


class Requests:
    """The table of requests, one file each under `state/requests`."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._tasks: dict[str, Task] = {}
        self._lock = threading.Lock()

    def run(
        self, request: str, verb: str, document: Answer, work: Callable[[Task], Answer], wait_s: float
    ) -> Answer:
        """Carry a request out once and return its answer, or `{"state": "running", …}` after `wait_s`.

        Raises:
            ReprieveError: the request was refused before it changed anything (it may be repeated), or its id
                was used for something else.
        """
        if not _REQUEST.match(request):
            raise UsageError(f"request id {clean(request, limit=80)!r} is not one")
        mark = _mark(verb, document)
        with self._lock:
            task = self._tasks.get(request)
            known = durable.read(self._path(request))
            if known is not None and known["mark"] != mark:
                raise UsageError(
                    f"request id {request} was used for another {clean(known['verb'], limit=32)}"
                )
            if task is None and known is not None and known["answer"] is not None:
                return dict(known["answer"])
            if task is None:
                task = Task(lambda: self._write(request, verb, mark, None))
                self._tasks[request] = task
                arguments = (request, verb, mark, task, work)
                threading.Thread(
                    target=self._work, args=arguments, name=f"{verb}-{request}", daemon=True
                ).start()
        if not task.done.wait(max(0.0, wait_s)):
            return {"state": "running", **task.noted}
        if task.refusal is not None:
            raise task.refusal
        return task.answer

    def forget_old(self) -> None:
        """Drop outcomes older than 30 days."""
        for path in self._directory.glob("*.json"):
            if self._clock.wall() - path.stat().st_mtime > KEPT_S:
                durable.remove(path)

    def _work(self, request: str, verb: str, mark: str, task: Task, work: Callable[[Task], Answer]) -> None:
        try:
            task.answer = work(task)
        except ReprieveError as error:
            self._failed(request, task, error)
        except Exception as error:  # noqa: BLE001 - a caller must hear of it instead of waiting for ever
            failure = ReprieveError(f"{verb}: unexpected {type(error).__name__}: {clean(error)}")
            self._failed(request, task, failure)
        try:
            if task.begun:
                self._write(request, verb, mark, task.answer)
        except ReprieveError:
            pass  # the disk is full: the answer is still given, and a later repeat looks again
        finally:
            with self._lock:
                del self._tasks[request]
            task.done.set()

    def _failed(self, request: str, task: Task, error: ReprieveError) -> None:
        if task.begun:
            task.answer = {"error": error.document()}
        else:
            task.refusal = error

    def _write(self, request: str, verb: str, mark: str, answer: Answer | None) -> None:
        durable.write(self._path(request), {"verb": verb, "mark": mark, "answer": answer})

    def _path(self, request: str) -> Path:
        return self._directory / f"{request}.json"


def _mark(verb: str, document: Answer) -> str:
    """What was asked of which job, so that an id used twice by mistake is noticed; holds no secret.

    Settings are left out: a caller that comes back after a crash may hold a newer record of the same job.
    """
    job, grant = document.get("job"), document.get("grant")
    name = job.get("name") if isinstance(job, dict) else job
    epoch = grant.get("epoch") if isinstance(grant, dict) else None
    return canonical([verb, name, epoch, document.get("checkpoint")]).decode()
