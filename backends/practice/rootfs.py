"""The root directory of a namespace host: a small tree of its own, the machine's /usr bound read-only.

Nothing of the machine beyond /usr, a few files of /etc and the Python that runs us is visible inside; home
directories, keys and package state stay out of sight.
"""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from backends.practice import syscalls
from backends.xdg import private

_FROM_MACHINE = ("nsswitch.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "protocols",
                 "services", "os-release", "localtime", "debian_version")  # fmt: skip
_SYSTEM_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}
_SHELL = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"

_PASSWD = f"""root:x:0:0:root:/root:{_SHELL}
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
sshd:x:100:65534::/run/sshd:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = "root:x:0:\ndaemon:x:1:\ntty:x:5:\nnogroup:x:65534:\n"


@dataclass(frozen=True)
class Bind:
    """A directory of the machine that a host sees at `target` (the same path when not given)."""

    source: Path
    read_only: bool = True
    target: str | None = None

    def inside(self, root: Path) -> Path:
        """Where it goes under a host's root directory."""
        return root / (self.target or str(self.source)).lstrip("/")


def python_binds(prefixes: tuple[str, ...]) -> tuple[Bind, ...]:
    """Binds that make a Python and its environment visible at their own paths; /usr is there anyway."""
    found: list[Path] = []
    for prefix in sorted({os.path.realpath(item) for item in prefixes} | set(prefixes), key=len):
        path = Path(prefix)
        covered = path.is_relative_to("/usr") or any(path.is_relative_to(other) for other in found)
        if path.is_dir() and not covered and path != Path("/"):
            found.append(path)
    return tuple(Bind(path) for path in found)


def build(root: Path, name: str, hosts: str) -> None:
    """Create a host's own tree at `root`, which must not exist; `hosts` is its /etc/hosts."""
    root.mkdir(parents=True)
    root.chmod(0o755)
    for directory in ("dev", "etc/ssh", "home", "mnt", "opt", "proc", "run", "srv", "sys", "usr", "var/log",
                      "var/lib", "var/cache", "var/spool"):  # fmt: skip
        (root / directory).mkdir(parents=True)
    private(root / "root")
    for directory in ("tmp", "var/tmp"):
        (root / directory).mkdir()
        (root / directory).chmod(0o1777)
    (root / "var/run").symlink_to("/run")
    for link in _SYSTEM_LINKS:
        machine = Path("/") / link
        if machine.is_symlink():
            (root / link).symlink_to(machine.readlink())
        elif machine.is_dir():
            (root / link).mkdir()
    _write_etc(root / "etc", name, hosts)


def _write_etc(etc: Path, name: str, hosts: str) -> None:
    for item in _FROM_MACHINE:
        source = Path("/etc") / item
        if source.is_symlink() and not source.is_dir():
            (etc / item).symlink_to(source.readlink())
        elif source.is_dir():
            shutil.copytree(source, etc / item, symlinks=True)
        elif source.exists():
            shutil.copy2(source, etc / item)
    (etc / "passwd").write_text(_PASSWD)
    (etc / "group").write_text(_GROUP)
    (etc / "hostname").write_text(f"{name}\n")
    (etc / "hosts").write_text(hosts)
    # "*" (no password, not locked): sshd refuses an account that is locked with "!".
    shadow = etc / "shadow"
    shadow.touch(mode=0o600)
    shadow.write_text("root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n")


def enter(root: Path, binds: tuple[Bind, ...]) -> None:
    """Mount everything and make `root` the root; the caller is alone in new mount and PID namespaces.

    Raises:
        OSError: a mount was refused.
    """
    # Slave: mounts that the daemon makes over the store reach the hosts, never the other way.
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_SLAVE)
    syscalls.bind(root, root, read_only=False)
    directories = [Path("/usr"), *(Path("/") / link for link in _SYSTEM_LINKS)]
    for path in directories:
        if path.is_dir() and not path.is_symlink():
            syscalls.bind(path, root / path.name, read_only=True)
    for item in binds:
        target = item.inside(root)
        target.mkdir(parents=True, exist_ok=True)
        syscalls.bind(item.source, target, read_only=item.read_only)
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    syscalls.mount("proc", root / "proc", "proc", flags)
    syscalls.mount("sysfs", root / "sys", "sysfs", flags)
    syscalls.mount("tmpfs", root / "run", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    (root / "run/sshd").mkdir(mode=0o755)
    _make_dev(root / "dev")
    syscalls.pivot_root(root)


def _make_dev(dev: Path) -> None:
    syscalls.mount("tmpfs", dev, "tmpfs", syscalls.MS_NOSUID, "mode=755,size=1m")
    for name, (major, minor) in _DEVICES.items():
        os.mknod(dev / name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        (dev / name).chmod(0o666)
    for directory in ("pts", "shm"):
        (dev / directory).mkdir()
    options = "newinstance,ptmxmode=0666,mode=620,gid=5"
    syscalls.mount("devpts", dev / "pts", "devpts", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, options)
    syscalls.mount("tmpfs", dev / "shm", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=1777")
    for name, target in (("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"),
                         ("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2")):  # fmt: skip
        (dev / name).symlink_to(target)
