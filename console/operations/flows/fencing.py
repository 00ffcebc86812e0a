"""Turning machines off: by the controller where a node's record asks for it, or on an operator's command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from backends.clouds.fence import can_end
from backends.clouds.port import InstanceState, Terminator
from backends.errors import ReprieveError, UnreachableError, UsageError
from backends.records.node import Node
from console.operations.common.witness import ENDED, ask_node
from console.operations.decide.fence import Suspect, to_fence
from console.operations.fleet import Fleet
from console.operations.polling import Poller

CONFIRM_S = 300.0  # how long an operator's command waits for the confirmation
POLL_S = 2.0
OFF = ("terminated", "stopped")


class Fencer:
    """The controller's hand on the switch; every act is in the history before it is done."""

    def __init__(self, fleet: Fleet, say: Callable[..., None], alert: Callable[[str, str], None]) -> None:
        self.fleet, self.say, self.alert = fleet, say, alert
        self.asked: dict[str, float] = {}  # node → monotonic time of the last request
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def act(self, poller: Poller, *, store_answers: bool) -> None:
        """Begin to turn off what is due now; `poller` holds what is known of every node."""
        if not any(each.node.on_unreachable == "terminate" for each in poller.known.values()):
            return
        found = to_fence(self._suspects(poller), store_answers=store_answers)
        if found.held_back:
            self.alert("fence", f"no silent node is turned off: {found.held_back}")
        for name, reason in found.nodes.items():
            self.asked[name] = self.fleet.clock.monotonic()
            self.say(f"node {name}: turning it off: {reason}", "news", "node.fencing", node=name)
            self._tasks[name] = asyncio.create_task(self._end(self.fleet.node(name), reason))

    def _suspects(self, poller: Poller) -> list[Suspect]:
        fleet, now = self.fleet, self.fleet.clock.monotonic()
        living: dict[str, int] = {}
        current = fleet.ledger.jobs()
        for job in fleet.jobs().values():
            known = current.get(job.uid)
            if job.uid and (known is None or known.state not in (*ENDED, "unprotected")):
                living[job.node] = living.get(job.node, 0) + 1
        suspects = []
        for name, each in poller.known.items():
            wanted = each.node.on_unreachable == "terminate"
            asked = self.asked.get(name)
            suspects.append(
                Suspect(
                    name,
                    poller.verdict(each).state,
                    poller.silence_s(each),
                    each.node.terminate_after_s if wanted else None,
                    living.get(name, 0),
                    wanted and can_end(fleet.cloud_of(each.node), each.node),
                    None if asked is None else now - asked,
                )
            )
        return suspects

    async def _end(self, node: Node, reason: str) -> None:
        try:
            await end(self.fleet, node, reason)
        except ReprieveError as error:
            self.alert(node.name, f"node {node.name} could not be turned off: {error.message}")

    async def close(self) -> None:
        """Let requests under way go; whether they worked is seen by the next look at the provider."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def end(fleet: Fleet, node: Node, reason: str) -> None:
    """Ask the provider, or the fence command, to end the machine of `node`.

    Raises:
        UsageError: nobody can. UnreachableError, CredentialsError: the request failed.
    """
    cloud: object = fleet.cloud_of(node)
    if not isinstance(cloud, Terminator) or not can_end(cloud, node):
        raise UsageError(
            f"node {node.name}: nobody can turn it off from here: it has no fence command, and no provider that is asked",
            hint=f'set it in the fleet file: [nodes.{node.name}] fence = {{ command = ["…"] }}',
        )
    fleet.tell("node.fencing", f"{node.name} is being turned off: {reason}", node=node.name)
    await fleet.blocking(cloud.terminate, node)


async def fence(
    fleet: Fleet, node: Node, on_step: Callable[[str], None], *, limit_s: float = CONFIRM_S
) -> InstanceState:
    """Turn `node` off on an operator's word and wait until that is confirmed.

    Raises:
        UsageError: its guard answers, or nobody can turn it off.
        UnreachableError: it was asked, and nothing has confirmed it in `limit_s`.
    """
    status, verdict = await ask_node(fleet, node)
    if status is not None or verdict.state == "not_ready":
        raise UsageError(
            f"node {node.name} answers: nothing was turned off",
            hint="move or stop its jobs instead: reprieve jobs move NAME --to NODE",
        )
    await end(fleet, node, f"{fleet.who} asked for it")
    on_step(f"{node.name}: waiting for the word that it is off")
    start = fleet.clock.monotonic()
    while True:
        said = await fleet.instance(node)
        if said is not None and said.state in OFF:
            fleet.tell("node.fenced", f"{node.name} is off: {said.source} says {said.state}", node=node.name)
            return said
        if fleet.clock.monotonic() - start > limit_s:
            word = "nobody can be asked" if said is None else f"{said.source} says {said.state}"
            raise UnreachableError(
                f"node {node.name} was asked to end {limit_s:.0f} s ago and nothing confirms it ({word}); nothing is proven",
                hint=f"look at the machine; `reprieve fleet fence {node.name}` asks again",
            )
        await fleet.clock.pause(POLL_S)
