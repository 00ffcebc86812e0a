"""From a node's record to the hops that lead there: each with host, port, user and keys, in the order of opening."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backends.clean import clean
from backends.errors import UsageError
from backends.nodes.address import Target, check_host, check_port, check_user, join, parse_target
from backends.nodes.sshconfig import Line, Settings, expand, local_user, read_lines, settings_for
from backends.records.node import Node

HOP_LIMIT = 8


@dataclass(frozen=True)
class Hop:
    """One SSH server on the way; the last one is the node itself."""

    host: str
    port: int
    user: str
    identity_files: tuple[str, ...] = ()  # empty: the agent and the default keys
    host_key_alias: str | None = None  # name to look the key up by, instead of the address
    tunnel: tuple[str, ...] = ()  # program and arguments of the tunnel that leads there; empty: TCP

    @property
    def shown(self) -> str:
        """user@host:port for messages."""
        return f"{self.user}@{join(self.host, self.port)}"


@dataclass(frozen=True)
class Route:
    """All hops to a node, jump hosts first, and what of ssh_config was not followed."""

    hops: tuple[Hop, ...]
    notes: tuple[str, ...] = ()


def route_to(node: Node, ssh_config: Path | None) -> Route:
    """The hops to `node`; `ssh_config` None (or a practice node) reads no file.

    Raises:
        UsageError: the address, a name in the file or the file itself is not acceptable.
    """
    target = parse_target(node.ssh)
    lines = [] if ssh_config is None or node.provider == "practice" else read_lines(ssh_config)
    hops, notes = _resolve(target, lines, (), allow_jump=True)
    if node.identity_file is not None:
        last = hops[-1]
        own = (str(Path(node.identity_file).expanduser()),)
        hops = (*hops[:-1], Hop(last.host, last.port, last.user, own, last.host_key_alias, last.tunnel))
    return Route(hops, tuple(dict.fromkeys(notes)))


def _resolve(
    target: Target, lines: list[Line], seen: tuple[str, ...], *, allow_jump: bool
) -> tuple[tuple[Hop, ...], list[str]]:
    if target.host in seen or len(seen) >= HOP_LIMIT:
        way = " → ".join([*seen, target.host])
        raise UsageError(f"ProxyJump goes in a circle or over more than {HOP_LIMIT} hops: {clean(way)}")
    found = settings_for(lines, target.host, target.user)
    notes = list(found.notes)
    before: tuple[Hop, ...] = ()
    if target.transport is not None:  # its way is its own: no ProxyCommand, no ProxyJump
        return (_hop(target, found),), notes
    command = found.values.get("proxycommand", "none")
    if allow_jump and command.lower() != "none":
        raise UsageError(
            f"{found.places['proxycommand']}: ProxyCommand for {clean(target.host)} is not run; "
            f"use ProxyJump, whose hops Reprieve opens and checks itself"
        )
    jumps = found.values.get("proxyjump", "none")
    if allow_jump and jumps.lower() != "none":
        for index, item in enumerate(jumps.split(",")):
            # As `ssh -J a,b`: only the first hop may bring hops of its own.
            text = item.strip().removeprefix("ssh://")
            more, added = _resolve(parse_target(text), lines, (*seen, target.host), allow_jump=index == 0)
            before += more
            notes += added
    return (*before, _hop(target, found)), notes


def _hop(target: Target, found: Settings) -> Hop:
    values, places = found.values, found.places
    user = target.user or check_user(values.get("user", local_user()))
    place = places.get("hostname", "ssh_config")
    named = "%h" if target.transport is not None else values.get("hostname", "%h")
    host = expand(named, alias=target.host, host=target.host, user=user, place=place)
    keys = []
    for text in found.identity_files:
        if text.lower() != "none":
            full = expand(text, alias=target.host, host=host, user=user, place="IdentityFile")
            keys.append(str(Path(full).expanduser()))
    alias = values.get("hostkeyalias")
    port = target.port or check_port(values.get("port", "22"))
    return Hop(
        host=check_host(host),
        port=port,
        user=user,
        identity_files=tuple(keys),
        host_key_alias=None if alias is None else check_host(alias),
        tunnel=() if target.transport is None else target.transport.command(port),
    )
