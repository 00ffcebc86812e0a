"""Putting the guard on nodes and taking it off, on `backends.nodes`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from backends.errors import HostKeyError
from backends.nodes import install as installing
from backends.nodes.bundle import Bundle
from backends.nodes.probe import Look, look, offered_key
from backends.nodes.ssh import LinkPool
from backends.records.node import Node


class SshInstaller:
    """Installs over the fleet's own connections."""

    def __init__(self, pool: LinkPool, cache: Path, version: str) -> None:
        self._pool, self._cache, self._version = pool, cache, version
        self._building = asyncio.Lock()  # nodes alike share one bundle: it is built once, not once a node
        self._turns: dict[
            str, asyncio.Lock
        ] = {}  # two jobs that wait for one new node both ask for its guard

    async def _bundle(self, found: Look) -> tuple[Bundle, str | None]:
        async with self._building:
            return await asyncio.to_thread(installing.bundle_for, found, self._cache, version=self._version)

    async def plan(self, node: Node) -> tuple[str, ...]:
        """Every file, unit and start line that `install` would make, one a line."""
        found = await look(await self._pool.link(node))
        bundle, missing = await self._bundle(found)
        lines = installing.plan_install(found, bundle).lines()
        return lines if missing is None else (*lines, f"no CRIU in the bundle: {missing}")

    async def install(self, node: Node) -> None:
        """Install or upgrade; the guard's id and state are kept, jobs run on."""
        async with self._turns.setdefault(node.name, asyncio.Lock()):
            link = await self._pool.link(node)
            found = await look(link)
            bundle, _ = await self._bundle(found)
            await installing.install(link, bundle, found=found)

    async def uninstall(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Reverse it; what was removed, and what was found there that is not ours."""
        removed = await installing.uninstall(await self._pool.link(node))
        return removed.removed, removed.left

    async def pin(self, node: Node) -> tuple[Node, str]:
        """The node with the host key it shows, and a line for people to compare; HostKeyError for a changed one."""
        if node.host_key is not None:
            return node, "host key: as given"
        offer = await offered_key(self._pool, node)
        if offer.known == "changed":
            raise HostKeyError(
                f"node {node.name}: host key changed: it shows {offer.kind} {offer.fingerprint}; nothing was sent",
                hint=f"compare it with the machine's console, then give it: --host-key {offer.line!r}",
            )
        word = "known" if offer.known == "trusted" else "new: compare it with the machine's console"
        return replace(node, host_key=offer.line), f"host key {offer.kind} {offer.fingerprint} ({word})"
