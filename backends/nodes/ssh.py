"""Links to nodes over SSH: fixed verbs with JSON on stdin, one lasting connection a node."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh

from backends import errors
from backends.clean import clean
from backends.clock import Clock
from backends.errors import DamagedError, NotInstalledError, ReprieveError, UnreachableError, UsageError
from backends.nodes.attending import ATTENDED, Attending
from backends.nodes.connect import Connection, Connector, Lasting
from backends.nodes.exchange import Completed, exchange, quoted
from backends.nodes.hostkeys import HostKeys
from backends.nodes.inside import root_inside
from backends.nodes.route import route_to
from backends.records.node import Node
from backends.records.strict import STATUS_LIMIT, canonical, loads

# Verbs of docs/internals.md section 2; nothing else is ever put on a remote command line.
VERBS = frozenset({
    "facts", "status", "clock", "events", "acknowledge", "examine", "protect", "start", "save", "hold", "release",
    "restore", "rehearse", "prefetch", "stop", "set", "pause", "resume", "forget", "thaw", "escrow", "decline", "shutdown",
})  # fmt: skip
QUICK = frozenset({"facts", "status", "clock", "events", "acknowledge"})
# sshd allows 10 sessions a connection (MaxSessions); two are kept for the verbs that answer at once.
QUICK_SESSIONS, LONG_SESSIONS = 2, 6

# Constant: the login shell may be any, REPRIEVE_NODE_ROOT is the node's own, the verb comes as an argument, and after it
# the root of a guard inside an allocation.
_NODE_COMMAND = (
    "/bin/sh",
    "-c",
    'p="${2:-${REPRIEVE_NODE_ROOT:-/opt/reprieve}}/bin/reprieve-node"; [ -x "$p" ] || exit 127; exec "$p" "$1"',
    "reprieve-node",
)
# Errors a node may report; host keys and reachability are ours to judge.
_KINDS: dict[str, type[ReprieveError]] = {
    kind.kind: kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, ReprieveError)
    and kind.kind not in ("host_key", "not_installed")
}


class SshLink:
    """One node. Calls may run at the same time; each has its own deadline; none blocks another node's."""

    def __init__(self, node: Node, connector: Connector, *, ssh_config: Path | None, clock: Clock,
                 jitter: Callable[[], float], attend: bool = False) -> None:  # fmt: skip
        self.node = node
        self._connector = connector
        self._ssh_config = ssh_config
        self._lasting = Lasting(self._open, clock, jitter)
        self._quick = asyncio.Semaphore(QUICK_SESSIONS)
        self._long = asyncio.Semaphore(LONG_SESSIONS)
        self._attending: Attending | None = None
        if attend:
            self.attend()
        self._under_way = 0
        self.notes: tuple[str, ...] = ()  # what of ssh_config is not followed; set once connected

    def attend(self) -> None:
        """Keep a channel open for looks."""
        if self._attending is None:
            self._attending = Attending(quoted((*_NODE_COMMAND, "attend")))

    async def call(self, verb: str, document: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Run one verb of docs/internals.md and return its answer.

        Raises:
            UsageError: no such verb.
            NotInstalledError: the node answers but Reprieve is not on it.
            HostKeyError, CredentialsError: the node was refused, or refused us; nothing was sent.
            UnreachableError: no connection or no answer in time.
            DamagedError: the answer is too long, no strict JSON, or speaks for another node.
            ReprieveError: of the kind the node named.
        """
        if verb not in VERBS:
            raise UsageError(f"node verb {clean(verb, limit=40)!r} is not one of {', '.join(sorted(VERBS))}")
        what = f"node {self.node.name}: answer to {verb}"
        root = root_inside(self.node)
        command = quoted((*_NODE_COMMAND, verb, *(() if root is None else (root,))))
        sessions = self._quick if verb in QUICK else self._long
        line = canonical({"verb": verb, "document": document}) + b"\n" if verb in ATTENDED else None
        done = await self._run(
            command, canonical(document), timeout_s=timeout_s, what=what, sessions=sessions, line=line
        )
        if done.status == 127:
            raise NotInstalledError(
                f"node {self.node.name}: Reprieve is not installed there",
                hint=f"run `reprieve fleet install {self.node.name}`",
            )
        if done.status != 0:
            raise UnreachableError(
                f"node {self.node.name}: the call {verb} did not happen: exit {done.status}, "
                f"{clean(done.stderr.strip()[-200:]) or 'no message'}",
                hint=f"if its guard is down: reprieve fleet install {self.node.name}; its jobs run on meanwhile",
            )
        answer = loads(done.stdout, what=what, limit=STATUS_LIMIT)
        self._own(answer, what)
        self.raise_named(answer.get("error"), verb)
        return answer

    async def run_fixed(
        self, argv: tuple[str, ...], stdin: bytes = b"", *, timeout_s: float, limit: int = STATUS_LIMIT
    ) -> Completed:
        """Run `argv`, every argument quoted on its own, for installation; raises as `call` does."""
        what = f"node {self.node.name}: output of {clean(argv[0], limit=40)}"
        return await self._run(
            quoted(argv), stdin, timeout_s=timeout_s, what=what, sessions=self._long, limit=limit
        )

    async def close(self) -> None:
        """Drop the connection."""
        await self._lasting.drop()

    async def _open(self) -> Connection:
        route = await asyncio.to_thread(route_to, self.node, self._ssh_config)
        self.notes = route.notes
        return await self._connector.open(route, self.node.host_key)

    async def _run(
        self, command: str, stdin: bytes, *, timeout_s: float, what: str, sessions: asyncio.Semaphore,
        limit: int = STATUS_LIMIT, line: bytes | None = None,
    ) -> Completed:  # fmt: skip
        """Run `command`, or ask `line` on the lasting channel where the node has one."""
        connected = False
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._lasting.get()
                connected = True
                self._under_way += 1
                try:
                    if line is not None and self._attending is not None:
                        answer = await self._attending.ask(connection, line, limit=limit, what=what)
                        if answer is not None:
                            return Completed(0, answer, b"")
                    async with sessions:
                        return await exchange(connection, command, stdin, limit=limit, what=what)
                finally:
                    self._under_way -= 1
        except TimeoutError:
            if connected and self._under_way == 0:
                await self._lasting.drop()  # maybe a dead path: keepalives would take longer to find out
            raise self._late(connected, what, timeout_s) from None
        except UnreachableError as error:
            raise type(error)(f"node {self.node.name}: {error.message}", hint=error.hint) from None
        except (asyncssh.Error, OSError) as error:
            raise UnreachableError(
                f"{what}: the connection broke: {clean(error) or type(error).__name__}"
            ) from None

    def _late(self, connected: bool, what: str, timeout_s: float) -> UnreachableError:
        last = self._lasting.last_error
        if connected or last is None:
            return UnreachableError(f"{what}: none within {timeout_s:g} s")
        return UnreachableError(
            f"node {self.node.name}: no connection within {timeout_s:g} s; last try: {last.message}"
        )

    def _own(self, answer: dict[str, Any], what: str) -> None:
        """A connection speaks for its own node only (reliability T3)."""
        claims = [answer.get("node")]
        events = answer.get("events")
        if isinstance(events, list):
            claims += [event.get("node") for event in events if isinstance(event, dict)]
        for claim in claims:
            if claim is not None and claim != self.node.name:
                raise DamagedError(
                    f"{what}: it speaks for {clean(claim, limit=80)!r}, not for this node; nothing of it is used",
                    hint=f"if the node was renamed, run `reprieve fleet install {self.node.name}` again",
                )

    def raise_named(self, error: object, verb: str) -> None:
        """Raise the error document of an answer as the kind it names, with this node in front."""
        if not isinstance(error, dict):
            return
        kind = _KINDS.get(str(error.get("kind")), ReprieveError)
        hint = error.get("hint")
        raise kind(
            f"node {self.node.name}: {clean(error.get('message') or f'{verb} failed')}",
            hint=None if hint is None else clean(hint),
        )


class LinkPool:
    """All links of one program: shared jump hosts, shared limits, one host-key policy. Used in one event loop."""

    def __init__(
        self,
        *,
        known_hosts: tuple[Path, ...],
        clock: Clock,
        ssh_config: Path | None = None,
        jitter: Callable[[], float] = random.random,
        attend: bool = False,
    ) -> None:
        """`known_hosts`: the context's file, then the user's; `ssh_config` None reads none.

        `attend` keeps a channel open on each node for looks (`backends.nodes.attending`).
        """
        self._attend = attend
        self.host_keys = HostKeys(known_hosts)
        self.connector = Connector(self.host_keys, clock, jitter)
        self.ssh_config = ssh_config
        self._clock = clock
        self._jitter = jitter
        self._links: dict[str, SshLink] = {}

    async def link(self, node: Node) -> SshLink:
        """The link to `node`, kept; a changed record gets a new one. Connects at the first call only."""
        known = self._links.get(node.name)
        if known is not None and _same_way(known.node, node):
            return known
        if known is not None:
            await known.close()
        self._links[node.name] = SshLink(
            node, self.connector, ssh_config=self.ssh_config, clock=self._clock, jitter=self._jitter,
            attend=self._attend,
        )  # fmt: skip
        return self._links[node.name]

    async def lasting(self) -> None:
        """From now on keep a channel open on each node for looks, links that are there already included."""
        self._attend = True
        for link in self._links.values():
            link.attend()

    async def close(self) -> None:
        """Close every link and jump host."""
        links, self._links = list(self._links.values()), {}
        await asyncio.gather(*(link.close() for link in links))
        await self.connector.close()


def user_pool(known_hosts: Path, clock: Clock) -> LinkPool:
    """The links of this user: `known_hosts` of the context first, then the user's own; aliases of ~/.ssh/config."""
    own = Path.home() / ".ssh"
    return LinkPool(known_hosts=(known_hosts, own / "known_hosts"), clock=clock, ssh_config=own / "config")


def _same_way(one: Node, other: Node) -> bool:
    return (one.ssh, one.identity_file, one.host_key, one.provider, root_inside(one)) == (
        other.ssh, other.identity_file, other.host_key, other.provider, root_inside(other),
    )  # fmt: skip
