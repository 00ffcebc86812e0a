"""How a node is addressed: host and user names that are safe to use, and the forms of `ssh = …` (contract section 4)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from backends.clean import clean
from backends.errors import UsageError
from backends.nodes.transports import Transport, is_transport
from backends.nodes.transports import read as read_transport

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}\$?\Z")
_ZONE = re.compile(r"[A-Za-z0-9._-]{1,15}\Z")
_HOST_EXTRA = frozenset("._-")
HOST_LIMIT = 253  # characters of a DNS name (RFC 1035)


@dataclass(frozen=True)
class Target:
    """What the fleet's file says: a host or alias, and what it fixes beside it. None: ssh_config or the default."""

    host: str
    user: str | None = None
    port: int | None = None
    transport: Transport | None = None  # the tunnel that leads there; None: TCP


def is_address(value: str) -> bool:
    """Whether `value` is an IPv4 or IPv6 literal, a zone (`fe80::1%eth0`) allowed."""
    bare, _, zone = value.partition("%")
    if zone and not _ZONE.match(zone):
        return False
    try:
        parsed = ipaddress.ip_address(bare)
    except ValueError:
        return False
    return not value.endswith("%") and (not zone or parsed.version == 6)


def check_host(value: str) -> str:
    """Return `value` when it may be a host name, alias or address; raise UsageError otherwise.

    Letters (of any script), digits, `.`, `_` and `-`, at most 253, starting with a letter, digit or `_`, or an
    IP literal. Nothing that a shell or an option parser could read as anything else (CVE-2023-51385).
    """
    if is_address(value):
        return value
    fine = (
        0 < len(value) <= HOST_LIMIT
        and (value[0].isalnum() or value[0] == "_")
        and all(char.isalnum() or char in _HOST_EXTRA for char in value)
    )
    if not fine:
        raise UsageError(
            f"host {clean(value, limit=80)!r} is not allowed: letters, digits, '.', '_' and '-', at most "
            f"{HOST_LIMIT}, starting with a letter or digit, or an IP address"
        )
    return value


def check_user(value: str) -> str:
    """Return `value` when it may be a login name; raise UsageError otherwise."""
    if not _USER.match(value):
        raise UsageError(
            f"SSH user {clean(value, limit=80)!r} is not allowed: letters, digits and . _ @ + -, at most 64, "
            f"starting with a letter or digit"
        )
    return value


def check_port(value: str) -> int:
    """Return the port in `value`; raise UsageError unless it is 1–65535."""
    if value.isascii() and value.isdigit() and len(value) <= 5 and 1 <= int(value) <= 65535:
        return int(value)
    raise UsageError(f"SSH port {clean(value, limit=20)!r} is not one: 1 to 65535 expected")


def parse_target(text: str) -> Target:
    """Read `alias`, `user@host`, `host:port`, `user@[v6]:port`, a bare IPv6 literal or `[user@]aws-ssm:…`; raise UsageError otherwise."""
    user, at, rest = text.rpartition("@")
    name = check_user(user) if at else None
    if is_transport(rest):
        tunnel = read_transport(rest)
        return Target(tunnel.host, name, transport=tunnel)
    if rest.startswith("["):
        host, bracket, tail = rest[1:].partition("]")
        if not bracket or not is_address(host) or (tail and not tail.startswith(":")):
            raise UsageError(f"ssh = {clean(text, limit=80)!r}: [address]:port expected after the user")
        return Target(host, name, check_port(tail[1:]) if tail else None)
    if is_address(rest):
        return Target(rest, name)
    host, colon, port = rest.partition(":")
    return Target(check_host(host), name, check_port(port) if colon else None)


def join(host: str, port: int) -> str:
    """Host and port for people: brackets around an IPv6 literal, no port when it is 22."""
    shown = f"[{host}]" if ":" in host and port != 22 else host
    return shown if port == 22 else f"{shown}:{port}"
