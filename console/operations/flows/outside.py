"""Listening to what providers tell outside of the machines: a second way to a notice, where a node cannot read its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from backends.clock import parse_utc
from backends.clouds.aws.queue import Answer, Message
from backends.clouds.outside import Word, before, take, worth_a_save
from backends.errors import ReprieveError
from backends.records.node import Node
from backends.records.status import JobStatus
from console.operations.common.witness import ENDED
from console.operations.fleet import Fleet

KINDS = {
    "hint": "hint.outside",
    "notice": "notice.outside",
    "loss": "instance.ended",
    "alive": "instance.alive",
}
EMPTY_S = 1.0  # after a look that brought nothing, in case the queue does not wait
PAUSE_S, MOST_S = 5.0, 300.0  # after the first failed look, and at most
STATUS_S = 5.0


class Source(Protocol):
    """A queue of words."""

    name: str

    def receive(self, wait_s: int = ...) -> Answer:
        """What has come."""
        ...

    def delete(self, handles: list[str]) -> None:
        """What need not come again."""
        ...


class Listener:
    """Takes words in, tells what is news, and asks for a save where a guard does not know of its notice."""

    def __init__(
        self, fleet: Fleet, source: Source, say: Callable[..., None], alert: Callable[[str, str], None]
    ) -> None:
        self.fleet, self.source, self.say, self.alert = fleet, source, say, alert
        self.heard = before(_words(fleet))
        self.bad: set[str] = set()  # ids of messages that cannot be read
        self.others: set[str] = set()  # … that are about no node of this fleet
        self.failures = 0

    async def run(self) -> None:
        """Listen until cancelled; a queue that cannot be read is an alert, and is tried again."""
        while True:
            try:
                if not await self.look():
                    await self.fleet.clock.pause(EMPTY_S)
                self.failures = 0
            except ReprieveError as error:
                self.failures += 1
                self.alert(
                    self.source.name,
                    f"notices from outside cannot be read ({error.message}); nodes read their own still",
                )
                await self.fleet.clock.pause(min(MOST_S, PAUSE_S * 2.0 ** min(self.failures - 1, 10)))

    async def look(self, wait_s: int | None = None) -> int:
        """One answer of the queue taken in; how many messages it held."""
        waiting = () if wait_s is None else (wait_s,)
        answer = await self.fleet.blocking(self.source.receive, *waiting)
        nodes = {node.instance: node for node in self.fleet.records.nodes().values() if node.instance}
        done = await asyncio.gather(
            *(self._one(each, nodes, answer.provider_now) for each in answer.messages)
        )
        handles = [each.handle for each, fine in zip(answer.messages, done, strict=True) if fine]
        if handles:
            await self.fleet.blocking(self.source.delete, handles)
        return len(answer.messages)

    async def _one(self, message: Message, nodes: dict[str, Node], provider_now: float) -> bool:
        """Whether the message need not come again."""
        if message.bad:
            if message.id not in self.bad:
                self.bad.add(message.id)
                text = f"{self.source.name}: {len(self.bad)} messages that cannot be read were left there: {message.bad}"
                self.alert(self.source.name, text)
            return False
        node = nodes.get(message.word.instance) if message.word is not None else None
        if message.word is None or node is None:
            self.others.add(message.id)
            return False
        self.heard, news = take(self.heard, message.word)
        if news:
            await self._tell(message.word, node, provider_now)
        return True

    async def _tell(self, word: Word, node: Node, provider_now: float) -> None:
        left_s = word.left_s(provider_now)
        text = {
            "hint": f"{node.name}: AWS sees a higher risk of a reclaim: a hint, nothing is moved",
            "notice": f"{node.name} will be taken ({word.text}) in {max(0.0, left_s):.0f} s, as told outside of it",
            "loss": f"{node.name} is {word.text}, as told outside of it; that alone proves nothing",
            "alive": f"{node.name} runs again ({word.text}), as told outside of it",
        }[word.kind]
        data = {"instance": word.instance, "text": word.text, "at": word.at, "window_s": word.window_s}
        self.say(text, "alert" if word.kind == "notice" else "news", KINDS[word.kind], node=node.name)
        self.fleet.tell(KINDS[word.kind], text, node=node.name, data=data)
        if word.kind == "notice":
            await self._saves(word, node, left_s)

    async def _saves(self, word: Word, node: Node, left_s: float) -> None:
        """A save of each job there, unless its guard knows of the notice or it would not fit."""
        try:
            status = await self.fleet.status(node, timeout_s=STATUS_S)
        except ReprieveError as error:
            self.say(
                f"{node.name}: no save can be asked for: {error.message}",
                "news",
                "notice.no_final_save",
                node=node.name,
            )
            return
        for job in status.jobs:
            if job.state in ENDED:
                continue
            asked, why = worth_a_save(left_s, _cost_s(job), guard_knows=status.notice == "notice")
            kind = "notice.final_save" if asked else "notice.no_final_save"
            text = f"{job.name}: {'a save is asked for' if asked else 'no save is asked for'}: {why}"
            self.say(text, "news", kind, node=node.name, job=job.name)
            self.fleet.tell(kind, text, node=node.name, job=job.name)
            if asked:
                document = {
                    "request": f"notice-{word.instance}-{job.uid}-{job.epoch}",
                    "job": job.name,
                    "wait_s": 0,
                }
                try:
                    await self.fleet.ask(node, "save", document)
                except ReprieveError as error:
                    self.say(
                        f"{job.name}: the save was not begun: {error.message}",
                        "news",
                        kind,
                        node=node.name,
                        job=job.name,
                    )


def _cost_s(job: JobStatus) -> float | None:
    """Measured time of the newest save, upload included; None without one."""
    return None if job.saved is None else job.saved.freeze_s + job.saved.upload_s


def _words(fleet: Fleet) -> list[Word]:
    """What an earlier controller took in."""
    found: list[Word] = []
    kinds: dict[str, Any] = {value: key for key, value in KINDS.items()}
    for _, event in fleet.ledger.events(limit=2000, kinds=tuple(kinds)):
        data = event.data
        if isinstance(data.get("instance"), str):
            at = data.get("at")
            when = float(at) if isinstance(at, (int, float)) else parse_utc(event.time)
            found.append(Word(kinds[event.kind], data["instance"], when, str(data.get("text", ""))))
    return found
