"""One host-key policy for every hop: the pinned key, else known_hosts, never nothing.

An unknown key is refused until someone vouches for it; a key that differs from the stored one is a hard stop.
Nothing stored is ever removed or rewritten here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from backends.clean import clean
from backends.errors import HostKeyError, UsageError
from backends.nodes.route import Hop

_SIZE_LIMIT = 16 << 20  # bytes of one known_hosts file


@dataclass(frozen=True)
class Trust:
    """Which keys a host may show. `exact`: these were stored for this very host and port."""

    keys: tuple[asyncssh.SSHKey, ...]
    authorities: tuple[asyncssh.SSHKey, ...] = ()
    revoked: tuple[asyncssh.SSHKey, ...] = ()
    exact: bool = False
    source: str = "known_hosts"

    def known_hosts(self) -> tuple[list[asyncssh.SSHKey], list[asyncssh.SSHKey], list[asyncssh.SSHKey]]:
        """The form asyncssh takes; three empty lists trust nobody."""
        return list(self.keys), list(self.authorities), list(self.revoked)


@dataclass
class Shown(asyncssh.SSHClient):
    """Notes the key of a host that is not trusted and refuses it."""

    key: asyncssh.SSHKey | None = field(default=None)

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called for a key that no trusted list holds: remember it, refuse it."""
        self.key = key
        return False


class HostKeys:
    """The stored keys: those pinned in node records, then the given known_hosts files."""

    def __init__(self, files: tuple[Path, ...]) -> None:
        self.files = files
        self._read: dict[Path, tuple[tuple[int, int], asyncssh.SSHKnownHosts]] = {}

    def trust(self, hop: Hop, pinned: str | None) -> Trust:
        """What `hop` may show; `pinned` is the node record's public key line, for the last hop only.

        Raises:
            UsageError: the pinned line is no public key, or a known_hosts file is unreadable.
        """
        if pinned is not None:
            return Trust((pinned_key(pinned),), exact=True, source="the fleet's file")
        name = hop.host_key_alias or hop.host
        keys: list[asyncssh.SSHKey] = []
        authorities: list[asyncssh.SSHKey] = []
        revoked: list[asyncssh.SSHKey] = []
        exact = False
        # An alias stands for the machine, whatever address it has today: it is looked up without a port too.
        place = name if hop.port == 22 or hop.host_key_alias else f"[{name}]:{hop.port}"
        for path in self.files:
            stored = self._stored(path)
            if stored is None:
                continue
            found = stored.match(place, "", None)
            exact = exact or bool(found[0])
            if place != name and not found[0]:
                found = stored.match(name, "", None)
            keys += found[0]
            authorities += found[1]
            revoked += found[2]
        return Trust(tuple(keys), tuple(authorities), tuple(revoked), exact)

    def _stored(self, path: Path) -> asyncssh.SSHKnownHosts | None:
        try:
            info = path.stat()
            stamp = (info.st_mtime_ns, info.st_size)
            if path in self._read and self._read[path][0] == stamp:
                return self._read[path][1]
            if info.st_size > _SIZE_LIMIT:
                raise UsageError(f"{path} is larger than {_SIZE_LIMIT} bytes")
            text = path.read_text("utf-8", "surrogateescape")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror}; host keys are checked against it"
            ) from None
        self._read[path] = (stamp, _parse(text))
        return self._read[path][1]


def _parse(text: str) -> asyncssh.SSHKnownHosts:
    try:
        return asyncssh.import_known_hosts(text)
    except ValueError:
        pass
    stored = asyncssh.SSHKnownHosts()
    for line in text.splitlines():  # one bad line must not hide the others
        try:
            stored.load(line)
        except ValueError:
            continue
    return stored


def pinned_key(line: str) -> asyncssh.SSHKey:
    """The public key of a node record's `host_key` line; raise UsageError when it is none."""
    try:
        return asyncssh.import_public_key(line)
    except (asyncssh.KeyImportError, ValueError):
        raise UsageError(
            f"host_key {clean(line, limit=60)!r} is no public key line; expected such as 'ssh-ed25519 AAAA…'"
        ) from None


def key_line(key: asyncssh.SSHKey) -> str:
    """The key as a node record's `host_key` holds it: type and base64, no comment."""
    return " ".join(key.export_public_key("openssh").decode("ascii").split()[:2])


def fingerprint(key: asyncssh.SSHKey) -> str:
    """SHA256:… as ssh-keygen -l prints it."""
    return key.get_fingerprint("sha256")


def refusal(hop: Hop, trust: Trust, shown: asyncssh.SSHKey | None) -> HostKeyError:
    """The plain message for a host whose key is not accepted."""
    seen = (
        "a key that was revoked or cannot be read"
        if shown is None
        else f"{shown.get_algorithm()} {fingerprint(shown)}"
    )
    if trust.keys and trust.exact:
        stored = ", ".join(fingerprint(key) for key in trust.keys)
        return HostKeyError(
            f"host key changed: {hop.shown} shows {seen}, {trust.source} has {stored}; nothing was sent",
            hint="compare with the console output of the machine; a new machine at an old address needs a new "
            "`reprieve fleet add`, an unchanged machine should not show another key",
        )
    return HostKeyError(
        f"host key unknown: {hop.shown} shows {seen}, which nobody vouched for; nothing was sent",
        hint="compare it with the console output of the machine, then accept it with `reprieve fleet add`, "
        "or add it to known_hosts",
    )
