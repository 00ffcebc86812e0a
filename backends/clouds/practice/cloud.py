"""The practice fleet as a provider: the `Cloud` port on the daemon's control socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.clouds.port import InstanceState, Replacement
from backends.clouds.practice.client import PracticeClient
from backends.errors import DamagedError, UnreachableError
from backends.records.node import Node

IDENTITY = "keys/id_ed25519"  # beside the control socket: the private key that all hosts accept
_STATES: dict[str, Literal["running", "terminated", "unknown"]] = {
    "running": "running",
    "terminated": "terminated",
    "unknown": "unknown",
}


class PracticeCloud:
    """Asks the practice daemon; see `port.Cloud`."""

    def __init__(
        self, control: Path, clock: Clock, *, identity_file: Path | None = None, timeout_s: float = 10.0
    ) -> None:
        self._client = PracticeClient(control, timeout_s=timeout_s)
        self._identity_file = identity_file or control.parent / IDENTITY
        self._clock = clock

    def instance(self, node: Node) -> InstanceState:
        """What the daemon says of this node's instance; `unknown` when it doesn't answer or doesn't know it."""
        asked = format_utc(self._clock.wall())
        if node.instance is None:
            return InstanceState("unknown", f"node {node.name} has no instance id", asked, "practice")
        try:
            answer = self._client.call("instance", instance=node.instance)
        except (UnreachableError, DamagedError) as error:
            return InstanceState("unknown", error.message, asked, "practice")
        state = _STATES.get(str(answer.get("state")), "unknown")
        ended = answer.get("ended_at")
        ended_at = clean(ended, limit=40) if isinstance(ended, str) and ended else None
        return InstanceState(state, clean(answer.get("reason", "")), asked, "practice/instance", ended_at)

    def replace(self, pool: str, token: str) -> Replacement:
        """Ask for a bare host, or look at an earlier request; raises UnreachableError when nobody answers."""
        answer = self._client.call("replace", pool=pool, token=token)
        reason = clean(answer.get("reason", ""))
        state = answer.get("state")
        if state == "ready":
            return Replacement(token, "ready", node_of(answer["host"], self._identity_file))
        return Replacement(token, "pending" if state == "pending" else "failed", reason=reason)

    def terminate(self, node: Node) -> None:
        """End the host as its provider would, without a notice; raises UnreachableError when nobody answers."""
        self._client.call("reclaim", host=node.name)


def node_of(host: dict[str, Any], identity_file: Path) -> Node:
    """The node record of a host that the daemon describes."""
    try:
        return Node(
            name=str(host["name"]),
            ssh=str(host["ssh"]),
            provider="practice",
            pool=str(host["pool"]),
            instance=str(host["instance"]),
            identity_file=str(identity_file),
            host_key=str(host["host_key"]),
        )
    except KeyError as error:
        raise DamagedError(f"practice fleet: a host is described without {error}") from None
