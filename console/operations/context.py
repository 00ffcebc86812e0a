"""A context: which fleet, where its files are, how careful to be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Context:
    """Everything an operation needs to know about where it works. Built by `console.config`."""

    name: str  # `default`, `practice`, or a name from the configuration
    fleet: Path  # TOML file, or directory of TOML files: nodes, jobs, pools (contract section 4)
    state: Path  # 0700: ledger.db, keys/<uid>.key, fleet signing key, known_hosts, last good feeds
    cache: Path
    production: bool = False  # every confirmation one tier up
    read_only: bool = False
    store: str | None = None  # the fleet's default store URL
    ledger: str | None = None  # postgresql:// URL of a ledger that controllers share; None: a file in `state`
    practice_socket: Path | None = None  # control socket of a running practice fleet, its fake cloud


# Files inside `state`, in one place (the ledger's own: backends.ledger.open).
KEYS = "keys"
FLEET_KEY = "fleet.key"
KNOWN_HOSTS = "known_hosts"
