"""First contact with a host: which key it shows, whether a Python ≥ 3.11 is there, whether we may install."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from backends.clean import clean
from backends.errors import CredentialsError, DamagedError, HostKeyError, IncompatibleError, ReprieveError
from backends.nodes import bootstrap
from backends.nodes.exchange import Completed
from backends.nodes.hostkeys import fingerprint, key_line
from backends.nodes.inside import root_inside
from backends.nodes.route import route_to
from backends.nodes.ssh import LinkPool, SshLink
from backends.records.node import Node
from backends.records.strict import canonical, loads, read

LOOK_S = 30.0
# Constant: the first interpreter of these that is new enough runs the program given as $1.
_FINDER = """
for p in python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3 /usr/local/bin/python3 /opt/python3/bin/python3; do
  command -v "$p" >/dev/null 2>&1 || continue
  "$p" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 </dev/null || continue
  exec "$p" -I -c "$1"
done
exit 40
"""
_NO_PYTHON = 40
_GLIBC = re.compile(r"glibc (\d{1,3})\.(\d{1,3})")


@dataclass(frozen=True)
class KeyOffer:
    """The host key that a node shows, and what we know of it."""

    line: str  # for the node record's `host_key`
    fingerprint: str  # SHA256:…
    kind: str  # ssh-ed25519
    known: Literal["trusted", "new", "changed"]


@dataclass(frozen=True)
class Look:
    """What a host says of itself before an installation."""

    python: str
    version: tuple[int, ...]
    implementation: str
    machine: str
    libc: str | None
    system: str
    uid: int
    root: str
    writable: bool
    free_bytes: int
    noexec: bool
    systemd: bool
    bundle: str | None  # digest of what is installed
    guard: str | None
    node: str | None
    sudo: bool = False  # these answers were given to root, by sudo

    @property
    def glibc(self) -> tuple[int, int] | None:
        """(2, 36); None for another C library."""
        match = _GLIBC.fullmatch(self.libc or "")
        return (int(match.group(1)), int(match.group(2))) if match else None


async def offered_key(pool: LinkPool, node: Node) -> KeyOffer:
    """The key `node` shows, without logging in; the hops before it are held to the usual policy."""
    route = route_to(node, pool.ssh_config)
    trust = pool.host_keys.trust(route.hops[-1], node.host_key)
    key = await pool.connector.shown_key(route, trust)
    known: Literal["trusted", "new", "changed"] = "new"
    if any(key == item for item in trust.keys):
        known = "trusted"
    elif any(key == item for item in trust.revoked) or (trust.keys and trust.exact):
        known = "changed"
    return KeyOffer(key_line(key), fingerprint(key), key.get_algorithm(), known)


async def probe(pool: LinkPool, node: Node, *, accept_new: bool) -> tuple[Node, Look]:
    """`node` with its host key pinned, and what is there.

    With `accept_new`, the fleet's policy, a key that nothing is known of is pinned; a changed one never is.

    Raises:
        HostKeyError: the key is changed, or new and not accepted.
        CredentialsError: the login is refused, or is neither root nor may sudo.
        IncompatibleError: no Python ≥ 3.11, or another operating system.
        UnreachableError: no answer.
    """
    offer = await offered_key(pool, node)
    if offer.known == "changed" or (offer.known == "new" and not accept_new):
        word = "host key changed" if offer.known == "changed" else "host key unknown"
        raise HostKeyError(
            f"node {node.name}: {word}: it shows {offer.kind} {offer.fingerprint}; nothing was sent",
            hint=f"compare it with the console output of the machine, then give it as host_key = {offer.line!r}",
        )
    pinned = replace(node, host_key=offer.line)
    return pinned, await look(await pool.link(pinned))


async def look(link: SshLink) -> Look:
    """What an installation needs to know of the host behind `link`; changes nothing; raises as `probe` does."""
    found = _read(link, await run_bootstrap(link, {"do": "look"}))
    if not found.writable and found.uid != 0:
        try:
            answer = await run_bootstrap(link, {"do": "look"}, sudo=True)
        except ReprieveError as error:
            raise CredentialsError(
                f"node {link.node.name}: user {found.uid} is not root, cannot write {found.root}, and sudo does not "
                f"work without a password ({clean(error.message)})",
                hint="log in as root, or as a user who may sudo without a password",
            ) from None
        found = replace(_read(link, answer), sudo=True)
    if found.system != "Linux":
        raise IncompatibleError(f"node {link.node.name} runs {found.system}; Linux is needed")
    return found


def _read(link: SshLink, answer: dict[str, Any]) -> Look:
    cleaned = {key: clean(value) if isinstance(value, str) else value for key, value in answer.items()}
    return read(Look, cleaned, what=f"node {link.node.name}: look")


async def run_bootstrap(
    link: SshLink,
    header: dict[str, Any],
    payload: bytes = b"",
    *,
    sudo: bool = False,
    timeout_s: float = LOOK_S,
) -> dict[str, Any]:
    """Send the constant program, a header and a payload; return its answer or raise what it refused."""
    argv = (*(("sudo", "-n", "--") if sudo else ()), "/bin/sh", "-c", _FINDER, "reprieve-install", program())
    root = root_inside(link.node)
    data = canonical(header if root is None else {**header, "root": root})
    done = await link.run_fixed(argv, len(data).to_bytes(8, "big") + data + payload, timeout_s=timeout_s)
    if done.status == _NO_PYTHON:
        raise IncompatibleError(
            f"node {link.node.name}: no Python 3.11 or newer is there (looked for python3, python3.11 to 3.14)",
            hint="install one; nothing else is needed on the node",
        )
    if done.status != 0:
        raise ReprieveError(
            f"node {link.node.name}: the installer did not run: exit {done.status}, {_said(done)}"
        )
    what = f"node {link.node.name}: answer of the installer"
    answer = loads(done.stdout, what=what)
    link.raise_named(answer.get("error"), "install")
    return answer


def program() -> str:
    """The text of `backends.nodes.bootstrap`, the same for every node."""
    path = Path(bootstrap.__file__ or "")
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise DamagedError(
            f"{path} cannot be read: {error.strerror}; reinstall reprieve for {sys.executable}"
        ) from None


def _said(done: Completed) -> str:
    return clean((done.stderr or done.stdout).strip()[-200:]) or "no message"
