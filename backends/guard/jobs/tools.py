"""What every job's work needs: the node's layout, identity, clock, engines, stores, spool and freeze ledger."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass

from backends.clean import clean
from backends.clock import Clock
from backends.engines.port import Engine
from backends.errors import FullError, ReprieveError
from backends.guard.disk.freezes import Freezes
from backends.guard.disk.layout import Identity, Layout
from backends.guard.disk.offset import ControllerClock
from backends.guard.disk.spool import Spool
from backends.guard.vault import VaultOpener


@dataclass(frozen=True)
class Tools:
    """Handed to every part of the guard; tests put fakes in."""

    layout: Layout
    identity: Identity
    boot_id: str
    clock: Clock
    engines: Mapping[str, Engine]
    open_vault: VaultOpener
    spool: Spool
    freezes: Freezes
    controller: ControllerClock | None = None  # the controller's clock, as grants tell it


def trouble(error: Exception) -> ReprieveError:
    """Any exception as one that has a line for people; what nobody expected is named as such."""
    if isinstance(error, ReprieveError):
        return error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return FullError(f"{clean(error.filename or 'the disk')}: {error.strerror}; the save is given up")
    if isinstance(error, OSError):
        return ReprieveError(
            f"{clean(error.filename or 'the system')}: {error.strerror or type(error).__name__}"
        )
    return ReprieveError(f"unexpected {type(error).__name__}: {clean(error)}")
