"""A node: one machine of the fleet, reached over SSH."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from backends.ids import check_name

NodeState = Literal["ok", "late", "unreachable", "lost", "not_ready", "cordoned"]
NoticeState = Literal["none", "hint", "notice", "unreadable"]
PROVIDERS = ("aws", "gcp", "azure", "runpod", "vast", "slurm", "kubernetes", "practice", "none")


@dataclass(frozen=True)
class Node:
    """One node's record, as the fleet's TOML has it."""

    name: str
    ssh: str  # alias from ~/.ssh/config, or user@host:port
    provider: str = "none"
    pool: str | None = None  # provider/region/type/os
    instance: str | None = None  # the provider's id of the machine, where there is one
    identity_file: str | None = None  # private key used for this node; None: agent and ssh_config
    host_key: str | None = None  # pinned public host key line; None: known_hosts
    cordoned: bool = False  # nothing is placed here
    fence: tuple[str, ...] = ()  # argv that takes `off` or `status` as its last word (a BMC's tool, for one)
    on_unreachable: Literal["wait", "terminate"] = "wait"  # terminate: the controller turns it off by itself
    terminate_after_s: float = 900.0  # … after so much silence
    labels: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("node", self.name)
        if self.provider not in PROVIDERS:
            raise ValueError(f"provider {self.provider!r} is not one of {', '.join(PROVIDERS)}")
        if self.on_unreachable not in ("wait", "terminate"):
            raise ValueError(f"on_unreachable {self.on_unreachable!r} is not one of wait, terminate")
        if not self.terminate_after_s >= 60:
            raise ValueError(f"terminate_after is {self.terminate_after_s:g} s; at least 60 s are needed")
