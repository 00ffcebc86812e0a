"""The real SSH server of namespace hosts: where it comes from, its configuration, the keys of hosts and fleet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from backends.nodes.closures import sshd_closure
from backends.xdg import private

MACHINE_SSHD = Path("/usr/sbin/sshd")
TREE = "/opt/practice-sshd"  # where hosts see an unpacked sshd
LIBRARIES = "/opt/practice-sshd-libraries"

# Parts of the C library: always the machine's own, which its loader fits.
_C_LIBRARY = ("libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libresolv.so", "libutil.so",
              "libanl.so", "libmvec.so", "libthread_db.so", "libnss_", "ld-linux", "libnsl.so.1", "libmemusage",
              "libpcprofile", "libc_malloc", "libBrokenLocale")  # fmt: skip


@dataclass(frozen=True)
class Sshd:
    """An SSH server that hosts can run."""

    program: str  # path inside a host
    tree: Path | None  # directory bound at TREE; None: the machine's own sshd in /usr
    libraries: Path | None  # the tree's shared libraries
    extra: tuple[str, ...]  # configuration lines that this version knows and needs

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the server itself; sessions do not inherit it."""
        base = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        return base if self.tree is None else {**base, "LD_LIBRARY_PATH": LIBRARIES}


def find_sshd(cache: Path, machine_sshd: Path = MACHINE_SSHD) -> Sshd:
    """The machine's sshd, else Debian's unpacked into `cache`; raises ClosureError when neither can be had."""
    if machine_sshd.exists():
        return Sshd(str(machine_sshd), None, None, _extra(machine_sshd, ""))
    closure = sshd_closure(cache)
    program = closure.root / "usr/sbin/sshd"
    return Sshd(f"{TREE}/usr/sbin/sshd", closure.root, closure.libraries, _extra(program, TREE))


def _extra(program: Path, prefix: str) -> tuple[str, ...]:
    """Lines for newer servers; an unknown keyword is fatal to older ones, so look what the program knows."""
    session = program.parent.parent / "lib/openssh/sshd-session"
    known = program.read_bytes() + (session.read_bytes() if session.exists() else b"")
    lines = []
    if b"persourcepenalties" in known.lower():
        lines.append("PerSourcePenalties no")  # all clients come from the relay's address
    if prefix and b"sshdsessionpath" in known:
        lines.append(f"SshdSessionPath {prefix}/usr/lib/openssh/sshd-session")
    if prefix and b"sshdauthpath" in known:
        lines.append(f"SshdAuthPath {prefix}/usr/lib/openssh/sshd-auth")
    return tuple(lines)


def link_libraries(sshd: Sshd, directory: Path) -> None:
    """Fill `directory` with links to the tree's libraries, as hosts see them, the C library left out."""
    directory.mkdir(parents=True, exist_ok=True)
    if sshd.libraries is None or sshd.tree is None:
        return
    inside = f"{TREE}/{sshd.libraries.relative_to(sshd.tree)}"
    for path in sshd.libraries.glob("*.so*"):
        if not path.name.startswith(_C_LIBRARY):
            (directory / path.name).symlink_to(f"{inside}/{path.name}")


def configuration(sshd: Sshd, address: str, environment: dict[str, str]) -> str:
    """sshd_config of a host that listens at `address`; sessions get `environment`."""
    pairs = " ".join(f'"{key}={value}"' for key, value in environment.items())
    lines = (
        f"ListenAddress {address}",
        "HostKey /etc/ssh/ssh_host_ed25519_key",
        "AuthorizedKeysFile /etc/ssh/authorized_keys",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "UseDNS no",
        "PidFile none",
        "PrintMotd no",
        "MaxStartups 200:30:400",
        "MaxSessions 200",
        "Subsystem sftp internal-sftp",
        f"SetEnv {pairs}",
        *sshd.extra,
    )
    return "\n".join(lines) + "\n"


def new_key(path: Path, comment: str) -> str:
    """Write a fresh ed25519 private key (0600) to `path` and return its public line, `ssh-ed25519 AAAA… comment`."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    private(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{public.decode()} {comment}"
