"""Operations started here: they belong to the application, outlive every screen, and fail without ending it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from backends.clock import Clock
from backends.errors import ReprieveError
from console.tui.model.incoming import Doorman, safe
from console.tui.model.plans import Step, changed
from console.tui.source import FleetSource

KEPT = 100  # finished operations remembered


@dataclass
class Operation:
    """One running or finished operation of this console."""

    number: int
    words: str
    job: str
    command: str
    started_at: float  # wall
    state: str = "running"  # running | done | failed | cancelled
    step: str = "looking again"
    ended_at: float | None = None

    @property
    def kind(self) -> str:
        """The verb: `save`, as the journal names it."""
        return self.words.rpartition(" ")[2]


class Tasks:
    """Starts operations and remembers them. `changed` is called, in the event loop, after every step."""

    def __init__(self, source: FleetSource, clock: Clock, report: Callable[[Operation], None]) -> None:
        self.operations: list[Operation] = []
        self._source = source
        self._clock = clock
        self._report = report
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._next = 1

    @property
    def running(self) -> int:
        """How many are under way."""
        return sum(1 for operation in self.operations if operation.state == "running")

    def start(self, step: Step) -> Operation:
        """Begin one step in the background."""
        operation = Operation(self._next, step.words, step.job, step.command, self._clock.wall())
        self._next += 1
        self.operations.append(operation)
        finished = [item for item in self.operations if item.state != "running"]
        for old in finished[: max(0, len(finished) - KEPT)]:
            self.operations.remove(old)
        self._tasks[operation.number] = asyncio.create_task(self._run(operation, step))
        return operation

    async def _run(self, operation: Operation, step: Step) -> None:
        loop = asyncio.get_running_loop()

        def note(words: str) -> None:
            loop.call_soon_threadsafe(self._note, operation, words)

        try:
            difference = changed(step.identity, Doorman().admit(await self._source.view()), step.job)
            if difference is not None:
                raise ReprieveError(f"not done, {step.job} changed since you looked: {difference}")
            self._end(operation, "done", await self._source.perform(step.words, step.arguments, note))
        except asyncio.CancelledError:
            self._end(operation, "cancelled", "given up here; what a node has begun it ends by itself")
            raise
        except ReprieveError as error:
            hint = f" ({error.hint})" if error.hint else ""
            self._end(operation, "failed", f"{error.message}{hint}")
        except Exception as error:  # noqa: BLE001 - an operation's fault never ends the console
            self._end(operation, "failed", f"{type(error).__name__}: {error}")
        finally:
            self._tasks.pop(operation.number, None)

    def _note(self, operation: Operation, words: str) -> None:
        if operation.state == "running":
            operation.step = safe(words)
            self._report(operation)

    def _end(self, operation: Operation, state: str, words: str) -> None:
        operation.state, operation.step = state, safe(words)
        operation.ended_at = self._clock.wall()
        self._report(operation)

    def cancel(self, number: int) -> None:
        """Stop following an operation of this console; nothing happens when it has ended."""
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Cancel what still runs and wait until it has let go."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
