"""What screens asked beside the snapshot: the last good answer of each question, its age, and what went wrong since."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from backends.clock import Clock
from backends.errors import ReprieveError
from console.tui.model.incoming import safe, safe_value
from console.tui.source import FleetSource

Document = dict[str, Any]
KEPT = 64  # questions remembered
PATIENCE_S = 60.0  # for one answer
LARGE = 500  # items from which an answer is cleaned off the event loop


@dataclass
class Looked:
    """One question: the newest good answer stays when a later attempt fails, and says so."""

    words: str
    arguments: Document = field(default_factory=dict)
    document: Document | None = None
    failure: str | None = None  # of the newest attempt
    at: float | None = None  # monotonic, of the good answer
    tried_at: float | None = None
    asking: bool = False

    def age_s(self, now: float) -> float | None:
        """Seconds since the good answer; None when there was none."""
        return None if self.at is None else max(0.0, now - self.at)

    def items(self, kind: str = "items") -> list[Document]:
        """The documents under a key of the answer; none yet: empty."""
        found = (self.document or {}).get(kind)
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


class Looks:
    """Asks in the background. `changed` is called in the event loop after every answer."""

    def __init__(self, source: FleetSource, clock: Clock, changed: Callable[[], None]) -> None:
        self._source = source
        self._clock = clock
        self._changed = changed
        self._known: OrderedDict[str, Looked] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def known(self, words: str, **arguments: Any) -> Looked:
        """What is known of a question; asks nothing."""
        key = f"{words} {json.dumps(arguments, sort_keys=True)}"
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Looked(words, arguments)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return found

    def want(self, words: str, max_age_s: float, **arguments: Any) -> Looked:
        """What is known; asked again when the last attempt is older than `max_age_s`."""
        found = self.known(words, **arguments)
        now = self._clock.monotonic()
        if not found.asking and (found.tried_at is None or now - found.tried_at >= max_age_s):
            found.asking, found.tried_at = True, now
            task = asyncio.create_task(self._ask(found))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return found

    async def _ask(self, question: Looked) -> None:
        try:
            asking = asyncio.ensure_future(self._source.ask(question.words, question.arguments))
            patience = asyncio.ensure_future(self._clock.pause(PATIENCE_S))
            try:
                await asyncio.wait({asking, patience}, return_when=asyncio.FIRST_COMPLETED)
                if not asking.done():
                    question.failure = f"no answer for {PATIENCE_S:.0f} s"
                    return
                answer = asking.result()
            finally:
                asking.cancel()
                patience.cancel()
            large = len(answer.get("items", ())) > LARGE
            question.document = await asyncio.to_thread(safe_value, answer) if large else safe_value(answer)
            question.at, question.failure = self._clock.monotonic(), None
        except ReprieveError as error:
            question.failure = safe(error.message + (f" ({error.hint})" if error.hint else ""))
        except Exception as error:  # noqa: BLE001 - whatever the source does, the console stays
            question.failure = safe(f"{type(error).__name__}: {error}")
        finally:
            question.asking = False
            self._changed()

    async def close(self) -> None:
        """Ask nothing more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
