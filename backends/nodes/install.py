"""Putting Reprieve on a node and taking it off again: every file named beforehand, every step repeatable."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from backends.clean import clean
from backends.errors import IncompatibleError
from backends.ids import check_uid, new_uid
from backends.nodes import bootstrap
from backends.nodes.bundle import Bundle, build
from backends.nodes.closures import ClosureError, criu_closure
from backends.nodes.probe import Look, look, run_bootstrap
from backends.nodes.ssh import SshLink
from backends.nodes.wheels import target_of

INSTALL_S = 300.0


@dataclass(frozen=True)
class InstallPlan:
    """What an installation will make on a node, and nothing else; `fleet install --dry-run` shows `lines`."""

    root: str
    files: tuple[str, ...]  # paths, with what they are
    unit: str | None  # path of the systemd unit
    start: str  # how the guard is started
    upload_bytes: int  # 0: the bundle is there already
    replaces: str | None  # digest of the bundle that is there now
    sudo: bool

    def lines(self) -> tuple[str, ...]:
        """One line for each thing."""
        more = [f"unit    {self.unit}"] if self.unit else []
        how = "as root, by sudo" if self.sudo else "as the login user"
        sent = (
            f"{self.upload_bytes / 1e6:.1f} MB are sent"
            if self.upload_bytes
            else "nothing is sent: it is there"
        )
        return (
            *(f"file    {item}" for item in self.files),
            *more,
            f"start   {self.start} ({how})",
            f"upload  {sent}",
        )


@dataclass(frozen=True)
class Installed:
    """What an installation did."""

    node: str
    guard: str  # id, kept over upgrades
    bundle: str  # digest
    before: str | None  # digest of the bundle before
    changed: bool  # False: everything was so already
    root: str
    systemd: bool


@dataclass(frozen=True)
class Removed:
    """What an uninstallation removed, and what it found in the root that is not ours."""

    removed: tuple[str, ...]
    left: tuple[str, ...]


def bundle_for(
    found: Look, cache: Path, *, version: str, requirements: Path | None = None
) -> tuple[Bundle, str | None]:
    """The bundle for a host that was looked at, and why it holds no CRIU (None: it holds one). Blocking.

    A relocatable CRIU goes along wherever it can be used: to root, on this machine's own processor. The guard
    prefers it to the node's, which is often older than its kernel.

    Raises:
        IncompatibleError: no compiled packages for that host.
    """
    criu: Path | None = None
    missing: str | None = None
    if found.uid != 0:
        missing = "the guard will not run as root, which CRIU needs"
    elif found.machine != platform.machine():
        missing = f"this machine cannot fetch a CRIU for {found.machine}; the node's own is used"
    else:
        try:
            criu = criu_closure(cache).root
        except ClosureError as error:
            missing = f"{error.message}; the node's own CRIU is used"
    return build(target_of(found), cache, version=version, criu=criu, requirements=requirements), missing


def plan_install(found: Look, bundle: Bundle) -> InstallPlan:
    """What `install` would make on the host that was looked at."""
    root = found.root
    unit = str(bootstrap.UNIT) if found.systemd else None
    start = (
        "systemctl enable and restart reprieve-guard" if unit else f"{root}/bin/reprieve-node serve --detach"
    )
    return InstallPlan(
        root=root,
        files=(
            f"{root}/bundle/{bundle.digest}/ ({bundle.files} files, {bundle.unpacked_bytes / 1e6:.1f} MB)",
            f"{root}/current -> bundle/{bundle.digest}",
            f"{root}/bin/reprieve-node (the node command)",
            f"{root}/bin/reprieve-helper (for a sudo rule of yours: probe, status, save JOB; no rule is written)",
            f"{root}/state/ (0700: identity, desired state, keys, events)",
            f"{root}/staging/ (0700: saves under way)",
            f"{root}/run/ (0700: logs, pid files)",
        ),
        unit=unit,
        start=start,
        upload_bytes=0 if found.bundle == bundle.digest else bundle.size_bytes,
        replaces=found.bundle,
        sudo=found.sudo,
    )


async def install(
    link: SshLink, bundle: Bundle, *, found: Look | None = None, timeout_s: float = INSTALL_S
) -> Installed:
    """Install or upgrade the node behind `link`; its state and its guard's id are kept, its jobs run on.

    Args:
        link: the node, whose name the guard will bear.
        bundle: built for what `look` found there.
        found: that look, where the caller has one.
        timeout_s: for the transfer and the start together.

    Raises:
        IncompatibleError: the node has no Python ≥ 3.11, or its file system is noexec.
        CredentialsError: neither root nor sudo.
        FullError: no space. DamagedError: the archive was altered on its way; nothing was unpacked.
        ReprieveError: the guard does not start, with what it said.
    """
    seen = found or await look(link)
    if seen.noexec:
        raise IncompatibleError(
            f"node {link.node.name}: {seen.root} would lie on a file system mounted noexec",
            hint="remount it with exec, then install again",
        )
    there = seen.bundle == bundle.digest
    header = {
        "do": "install",
        "digest": bundle.digest,
        "size": 0 if there else bundle.size_bytes,
        "unpacked_bytes": 0 if there else bundle.unpacked_bytes,
        "node": link.node.name,
        "guard": new_uid(),
        "version": bundle.version,
        "provider": link.node.provider,
    }
    payload = b"" if there else bundle.data
    answer = await run_bootstrap(link, header, payload, sudo=seen.sudo, timeout_s=timeout_s)
    return Installed(
        node=link.node.name,
        guard=check_uid(str(answer.get("guard"))),
        bundle=bundle.digest,
        before=seen.bundle,
        changed=answer.get("changed") is True,
        root=seen.root,
        systemd=answer.get("systemd") is True,
    )


async def uninstall(link: SshLink, *, timeout_s: float = INSTALL_S) -> Removed:
    """End the guard and remove exactly what `install` made; jobs and their processes stay untouched."""
    seen = await look(link)
    answer = await run_bootstrap(link, {"do": "uninstall"}, sudo=seen.sudo, timeout_s=timeout_s)
    return Removed(_texts(answer.get("removed")), _texts(answer.get("left")))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(clean(item) for item in value if isinstance(item, str)) if isinstance(value, list) else ()
