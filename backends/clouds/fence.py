"""A fence command as a provider: it turns one machine off, and says whether it is (a BMC's tool, a power switch).

The operator's argv is run with one more word: `off`, or `status`, which prints `off` or `on`. Only a status of `off` is
proof; an exit status of 0 after `off` is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.clouds.commands import run_command
from backends.clouds.port import Cloud, InstanceState, Replacement, Terminator
from backends.errors import CredentialsError, UnreachableError
from backends.records.node import Node

KEEP_S = 10.0  # a switch is not asked more often than this, however often a silent node is looked at

Run = Callable[[tuple[str, ...], dict[str, str]], tuple[int, str]]


class FencedCloud:
    """The provider of a node with a fence command beside it: either may prove that the machine is off."""

    def __init__(self, clock: Clock, provider: Cloud | None, *, run: Run = run_command) -> None:
        self._clock, self._provider, self._run = clock, provider, run
        self._kept: tuple[float, InstanceState] | None = None

    def instance(self, node: Node) -> InstanceState:
        """The provider's word where it proves an end, else the fence command's."""
        said: InstanceState | None = None
        if self._provider is not None:
            try:
                said = self._provider.instance(node)
            except (UnreachableError, CredentialsError) as error:
                said = InstanceState("unknown", error.message, format_utc(self._clock.wall()), node.provider)
            if said.state in ("terminated", "stopped"):
                return said
        fenced = self._status(node)
        return said if said is not None and fenced.state == "unknown" else fenced

    def terminate(self, node: Node) -> None:
        """Turn the machine off by the command; raises UnreachableError when the command fails."""
        self._kept = None
        status, text = self._call(node, "off")
        if status != 0:
            raise UnreachableError(
                f"{node.fence[0]} off: exit {status}: {clean(text, limit=200) or 'no reason given'}"
            )

    def replace(self, pool: str, token: str) -> Replacement:
        """The provider's; a fence command rents nothing."""
        if self._provider is None:
            return Replacement(token, "failed", reason="a fence command rents nothing")
        return self._provider.replace(pool, token)

    def _status(self, node: Node) -> InstanceState:
        now = self._clock.monotonic()
        if self._kept is not None and now - self._kept[0] < KEEP_S:
            return self._kept[1]
        asked = format_utc(self._clock.wall())
        source = f"fence command {node.fence[0]}"
        state: Literal["stopped", "running", "unknown"] = "unknown"
        try:
            status, text = self._call(node, "status")
            first = text.partition("\n")[0].strip()
            if status == 0 and first.lower() in ("off", "on"):
                state = "stopped" if first.lower() == "off" else "running"
            reason = f"it says {clean(first, limit=60)!r}" + ("" if status == 0 else f", exit {status}")
        except UnreachableError as error:
            reason = error.message
        found = InstanceState(state, reason, asked, source)
        self._kept = (now, found)
        return found

    def _call(self, node: Node, word: str) -> tuple[int, str]:
        return self._run(
            (*node.fence, word), {"REPRIEVE_NODE": node.name, "REPRIEVE_INSTANCE": node.instance or ""}
        )


def can_end(cloud: object, node: Node) -> bool:
    """Whether the machine of `node` can be ended from here: by its fence command, or by its provider."""
    return isinstance(cloud, Terminator) and bool(node.fence or node.instance)
