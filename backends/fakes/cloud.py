"""A provider that says what a test tells it to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from backends.clock import Clock, format_utc
from backends.clouds.port import InstanceState, Market, Replacement
from backends.errors import UnreachableError
from backends.records.node import Node

State = Literal["running", "stopping", "stopped", "terminated", "unknown"]


class FakeCloud:
    """Instances by id; replacements are made by a callback after a delay, once per token."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.states: dict[str, State] = {}
        self.silent = False  # the interface does not answer
        self.capacity = 1_000_000
        self.delay_s = 5.0
        self.make: Callable[[str], Node] | None = None
        self.rented: list[tuple[str, Market, float]] = []
        self.asked_tokens: list[str] = []  # of `rent`, each once, in order
        self.cancelled: list[str] = []
        self.short: set[tuple[str, Market]] = set()
        self.ended: list[str] = []  # instances that somebody asked to end
        self.on_terminate: Callable[[str], None] = lambda instance: None
        self.asked: dict[str, float] = {}  # token → when
        self.given: dict[str, Node] = {}
        self.ended_at: dict[str, str] = {}  # instance → when it was gone, where this provider tells

    def instance(self, node: Node) -> InstanceState:
        """The state told for this node's instance; an unknown id is `unknown`, never `terminated`."""
        if self.silent:
            raise UnreachableError("fake cloud does not answer")
        state = self.states.get(node.instance or "", "unknown")
        return InstanceState(state, "told by the test", format_utc(self._clock.wall()), "fake",
                             self.ended_at.get(node.instance or ""))  # fmt: skip

    def terminate(self, node: Node) -> None:
        """End the instance; the test says through `on_terminate` what becomes of its node, and may change `states`."""
        if self.silent:
            raise UnreachableError("fake cloud does not answer")
        self.ended.append(node.instance or "")
        self.states[node.instance or ""] = "terminated"
        self.on_terminate(node.instance or "")

    def rent(self, pool: str, token: str, *, market: Market, max_usd: float) -> Replacement:
        """As `replace`; `short` names markets of pools that have nothing."""
        self.rented.append((pool, market, max_usd))
        if token not in self.asked_tokens:
            self.asked_tokens.append(token)
        if (pool, market) in self.short:
            return Replacement(token, "failed", None, f"no {market} capacity in {pool}")
        return self.replace(pool, token)

    def cancel(self, token: str) -> None:
        """Give a pending request up."""
        self.cancelled.append(token)
        if self.asked.pop(token, None) is not None and token not in self.given:
            self.capacity += 1

    def replace(self, pool: str, token: str) -> Replacement:
        """One node per token after `delay_s`, while capacity lasts."""
        if self.silent:
            raise UnreachableError("fake cloud does not answer")
        if token in self.given:
            return Replacement(token, "ready", self.given[token])
        if token not in self.asked:
            if self.capacity <= 0 or self.make is None:
                return Replacement(token, "failed", None, f"no capacity in {pool}")
            self.capacity -= 1
            self.asked[token] = self._clock.monotonic()
        if self._clock.monotonic() - self.asked[token] < self.delay_s or self.make is None:
            return Replacement(token, "pending")
        self.given[token] = self.make(pool)
        return Replacement(token, "ready", self.given[token])
