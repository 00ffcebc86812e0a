"""The program that an installation sends to a node: constant text, standard library only, data on stdin.

Run as `python3 -I -c <this text>` by `backends.nodes.install`. Standard input holds 8 bytes with the length of a
JSON header (big endian), the header, then the archive. It answers with one JSON document, a refusal included:
`{"error": {"code", "kind", "message", "hint"}}`. Nothing is unpacked before the archive's SHA-256 is right; links
are made last and point inside; every name is checked. Works with Python ≥ 3.11.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

DEFAULT_ROOT = "/opt/reprieve"
UNIT = Path("/etc/systemd/system/reprieve-guard.service")
PRIVATE = ("state", "staging", "run")
CHUNK = 1 << 20  # bytes
MARGIN = 64 << 20  # bytes that stay free beside what is unpacked
HEADER_LIMIT = 1 << 16
MEMBERS_LIMIT = 20000
WRAPPER = """#!/bin/sh
# The node command of Reprieve, written by `reprieve fleet install`; changes are lost at the next one.
root={root}
if [ "$(id -u)" != 0 ] && [ ! -w "$root/state" ]; then exec sudo -n "$root/bin/reprieve-node" "$@"; fi
bundle=$(readlink "$root/current") || exit 127
unset PYTHONHOME PYTHONSTARTUP PYTHONINSPECT LD_PRELOAD LD_LIBRARY_PATH
export REPRIEVE_NODE_ROOT="$root" PYTHONPATH="$root/$bundle/python" PYTHONNOUSERSITE=1 PYTHONSAFEPATH=1
exec {python} -m backends.guard.entry "$@"
"""
HELPER = """#!/bin/sh
# The narrow command of Reprieve for a sudo rule, written by `reprieve fleet install`; changes are lost at the next one.
root={root}
bundle=$(/usr/bin/readlink "$root/current") || exit 127
exec /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin REPRIEVE_NODE_ROOT="$root" PYTHONPATH="$root/$bundle/python" \\
    PYTHONNOUSERSITE=1 PYTHONSAFEPATH=1 {python} -m backends.guard.helper "$@"
"""
SERVICE = """# Written by `reprieve fleet install`, removed by `reprieve fleet uninstall`.
[Unit]
Description=Reprieve guard: keeps saving the jobs of this node
After=network-online.target

[Service]
ExecStart={root}/bin/reprieve-node serve
Restart=always
RestartSec=2
# Jobs started by the guard outlive it.
KillMode=process

[Install]
WantedBy=multi-user.target
"""


class RefusedError(Exception):
    """A plain reason why nothing, or nothing more, was done."""

    def __init__(self, kind: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.hint = kind, message, hint


def main(stream: IO[bytes]) -> dict[str, Any]:
    """Read one request and do it."""
    length = int.from_bytes(stream.read(8), "big")
    if not 0 < length <= HEADER_LIMIT:
        raise RefusedError("damaged", f"a header of {length} bytes came")
    header = json.loads(stream.read(length))
    if not isinstance(header, dict):
        raise RefusedError("damaged", "a header that is no object came")
    root = Path(header.get("root") or os.environ.get("REPRIEVE_NODE_ROOT") or DEFAULT_ROOT)
    if header["do"] == "look":
        return look(root)
    if header["do"] == "install":
        return install(root, header, stream)
    if header["do"] == "uninstall":
        return uninstall(root)
    raise RefusedError("usage", "an unknown request came")


def look(root: Path) -> dict[str, Any]:
    """What an installation needs to know; changes nothing."""
    place = nearest(root)
    found = os.statvfs(place)
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        libc = None
    try:
        identity = json.loads((root / "state/guard.json").read_bytes())
    except (OSError, ValueError):
        identity = {}
    return {
        "python": sys.executable, "version": list(sys.version_info[:3]), "implementation": sys.implementation.name,
        "machine": os.uname().machine, "libc": libc, "system": platform.system(), "uid": os.getuid(), "root": str(root),
        "writable": os.access(place, os.W_OK), "free_bytes": found.f_bavail * found.f_frsize,
        "noexec": bool(found.f_flag & os.ST_NOEXEC), "systemd": systemd(root), "bundle": installed(root),
        "guard": identity.get("guard"), "node": identity.get("node"),
    }  # fmt: skip


def nearest(path: Path) -> Path:
    """`path`, or its nearest parent that exists."""
    while not path.exists():
        path = path.parent
    return path


def systemd(root: Path) -> bool:
    """Whether a unit is the way to run the guard here."""
    return str(root) == DEFAULT_ROOT and Path("/run/systemd/system").is_dir() and os.getuid() == 0


def installed(root: Path) -> str | None:
    """Digest of the bundle that `current` names, None when there is none complete."""
    try:
        digest = (root / "current").readlink().name
    except OSError:
        return None
    return digest if (root / "bundle" / digest / "bundle.json").is_file() else None


def install(root: Path, header: dict[str, Any], stream: IO[bytes]) -> dict[str, Any]:
    """Unpack the bundle, switch to it, write command, identity and unit, start the guard."""
    digest = header["digest"]
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise RefusedError("damaged", "the bundle's digest is none")
    check(root, header)
    before = installed(root)
    folder(root, 0o755)
    for name in ("bin", "bundle"):
        folder(root / name, 0o755)
    for name in PRIVATE:
        folder(root / name, 0o700)
    place = root / "bundle" / digest
    if not (place / "bundle.json").is_file():
        receive(root, place, header, stream)
    command = root / "bin/reprieve-node"
    changed = before != digest
    if changed and before is not None:
        end_guard(root)
    switch(root, digest)
    wrapper = WRAPPER.format(root=shlex.quote(str(root)), python=shlex.quote(sys.executable))
    changed = write(command, wrapper, 0o755) or changed
    helper = HELPER.format(root=shlex.quote(str(root)), python=shlex.quote(sys.executable))
    changed = write(root / "bin/reprieve-helper", helper, 0o755) or changed
    identity = remember(root, header)
    unit = systemd(root)
    if unit:
        changed = write(UNIT, SERVICE.format(root=root), 0o644) or changed
        run(["systemctl", "daemon-reload"])
        run(["systemctl", "enable", "reprieve-guard.service"])
    for old in sorted((root / "bundle").iterdir()):
        if old.name not in (digest, before):
            shutil.rmtree(old)
    if header.get("root"):
        await_guard(root)
    else:
        start_guard(root, unit)
    return {
        "changed": changed,
        "bundle": digest,
        "before": before,
        "root": str(root),
        "systemd": unit,
        **identity,
    }


def check(root: Path, header: dict[str, Any]) -> None:
    """Refuse a place that cannot take the bundle."""
    place = nearest(root)
    if not os.access(place, os.W_OK):
        hint = "log in as root, or as a user who may sudo without a password"
        raise RefusedError("credentials", f"{place} cannot be written by user {os.getuid()}: not root", hint)
    for item in (root, *(root / name for name in ("bin", "bundle", *PRIVATE))):
        if item.is_symlink() or (item.exists() and (not item.is_dir() or item.stat().st_uid != os.getuid())):
            raise RefusedError(
                "failed", f"{item} is not a directory of user {os.getuid()}; move it away first"
            )
    if root.exists() and root.stat().st_mode & 0o022:
        raise RefusedError("failed", f"{root} can be written by others; run `chmod go-w {root}`")
    found = os.statvfs(place)
    if found.f_flag & os.ST_NOEXEC:
        raise RefusedError(
            "failed", f"{place} is mounted noexec: programs cannot run there", "remount it with exec"
        )
    needed = header["size"] + header["unpacked_bytes"] + MARGIN
    free = found.f_bavail * found.f_frsize
    if header["size"] and free < needed:
        raise RefusedError("store_full", f"{place} has {free >> 20} MiB free, {needed >> 20} MiB are needed")


def folder(path: Path, mode: int) -> None:
    """Make a directory with exactly `mode`, or give an existing one that mode."""
    path.mkdir(mode=mode, parents=path.name not in ("bin", "bundle", *PRIVATE), exist_ok=True)
    path.chmod(mode)


def receive(root: Path, place: Path, header: dict[str, Any], stream: IO[bytes]) -> None:
    """Take the archive from `stream`, check its digest, unpack it to `place`."""
    if not header["size"]:
        raise RefusedError("not_found", f"bundle {header['digest'][:12]} is not on this node any more")
    with tempfile.TemporaryFile(dir=root / "staging") as archive:
        digest = hashlib.sha256()
        left = header["size"]
        while left:
            part = stream.read(min(CHUNK, left))
            if not part:
                raise RefusedError("damaged", f"the bundle broke off {left} bytes before its end")
            digest.update(part)
            archive.write(part)
            left -= len(part)
        if digest.hexdigest() != header["digest"] or stream.read(1):
            raise RefusedError(
                "damaged",
                "the bundle was altered on its way: its SHA-256 is not the one announced; nothing was unpacked",
            )
        archive.seek(0)
        work = Path(tempfile.mkdtemp(prefix=".unpack-", dir=root / "bundle"))
        try:
            unpack(archive, work)
            work.chmod(0o755)
            shutil.rmtree(place, ignore_errors=True)
            work.rename(place)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def unpack(archive: IO[bytes], work: Path) -> None:
    """Write the members below `work`: files first, each made anew, links last; nothing is followed or overwritten."""
    links: list[tuple[Path, str]] = []
    with gzip.open(archive, "rb") as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
        for number, member in enumerate(tar):
            parts = member.name.split("/")
            if number >= MEMBERS_LIMIT or any(part in ("", ".", "..") or "\0" in part for part in parts):
                raise RefusedError(
                    "damaged", f"the bundle holds the name {member.name[:80]!r}; nothing was installed"
                )
            path = work.joinpath(*parts)
            if member.isdir():
                path.mkdir(0o755)
                path.chmod(0o755)
            elif member.issym():
                target = os.path.normpath("/".join([*parts[:-1], member.linkname]))
                if member.linkname.startswith("/") or target.split("/")[0] == "..":
                    raise RefusedError(
                        "damaged",
                        f"the bundle's link {member.name[:80]!r} points outside; nothing was installed",
                    )
                links.append((path, member.linkname))
            elif member.isreg():
                mode = 0o755 if member.mode & stat.S_IXUSR else 0o644
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
                source = tar.extractfile(member)
                with os.fdopen(handle, "wb") as file:
                    if source is not None:
                        shutil.copyfileobj(source, file, CHUNK)
                    os.fchmod(file.fileno(), mode)
            else:
                raise RefusedError(
                    "damaged", f"the bundle's {member.name[:80]!r} is neither file, directory nor link"
                )
    for path, target in links:
        path.symlink_to(target)


def switch(root: Path, digest: str) -> None:
    """Let `current` name the bundle, in one step."""
    temporary = root / f".current-{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(f"bundle/{digest}")
    temporary.replace(root / "current")


def write(path: Path, content: str, mode: int) -> bool:
    """Replace a small file in one step; False when it was so already."""
    data = content.encode()
    try:
        if path.read_bytes() == data and stat.S_IMODE(path.stat().st_mode) == mode:
            return False
    except OSError:
        pass
    handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    Path(name).replace(path)
    return True


def remember(root: Path, header: dict[str, Any]) -> dict[str, Any]:
    """Write state/guard.json; the guard's id is kept over upgrades."""
    path = root / "state/guard.json"
    try:
        kept = json.loads(path.read_bytes())["guard"]
    except (OSError, ValueError, KeyError, TypeError):
        kept = header["guard"]
    identity = {
        "guard": kept,
        "node": header["node"],
        "version": header["version"],
        "bundle": header["digest"],
    }
    if header.get("provider"):
        identity["provider"] = header["provider"]
    write(path, json.dumps(identity, sort_keys=True) + "\n", 0o600)
    return {"guard": kept, "node": header["node"]}


def run(argv: list[str], stdin: bytes = b"", seconds: float = 60.0) -> subprocess.CompletedProcess[bytes]:
    """One command with a time limit."""
    try:
        return subprocess.run(argv, input=stdin, capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError("failed", f"{argv[0]} {argv[1]}: {error}") from None


def start_guard(root: Path, unit: bool) -> None:
    """Start the guard unless it answers, and wait until it does."""
    command = str(root / "bin/reprieve-node")
    if answers(command):
        return
    started = run(
        ["systemctl", "restart", "reprieve-guard.service"] if unit else [command, "serve", "--detach"]
    )
    for _ in range(100):
        if answers(command):
            return
        threading.Event().wait(0.2)
    said = (started.stderr or started.stdout).decode("utf-8", "replace").strip()[-300:]
    raise RefusedError("failed", f"the guard was installed but does not start: {said or 'it says nothing'}")


def await_guard(root: Path) -> None:
    """Wait until the allocation that this root belongs to has started its guard; nothing here may start it outside."""
    (root / "state/ended").unlink(missing_ok=True)
    command = str(root / "bin/reprieve-node")
    for _ in range(150):
        if answers(command):
            return
        threading.Event().wait(0.2)
    job = root.name.rpartition("-")[2]
    raise RefusedError(
        "failed",
        f"the guard was installed in {root}, but nothing inside Slurm job {job} starts it",
        f"from a login node: srun --jobid={job} --overlap -N1 -n1 --mem=0 {command} serve; or use the batch script of "
        "docs/providers/slurm.md",
    )


def answers(command: str) -> bool:
    """Whether a guard answers `status`."""
    done = run([command, "status"], b"{}")
    try:
        return done.returncode == 0 and "error" not in json.loads(done.stdout)
    except ValueError:
        return False


def end_guard(root: Path) -> None:
    """Ask the guard to end and wait until its lock is free; the jobs run on."""
    command = root / "bin/reprieve-node"
    if systemd(root) and UNIT.exists():
        run(["systemctl", "stop", "reprieve-guard.service"])
    if command.exists():
        run([str(command), "shutdown"], b"{}")
    for _ in range(150):
        if not held(root / "state/lock"):
            return
        threading.Event().wait(0.2)
    raise RefusedError(
        "failed", "the old guard does not end; nothing was removed", "end its process, then try again"
    )


def held(lock: Path) -> bool:
    """Whether a guard holds its lock."""
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def uninstall(root: Path) -> dict[str, Any]:
    """End the guard and remove what `install` made; jobs and their processes stay untouched."""
    present = any((root / name).exists() for name in ("bin", "bundle", *PRIVATE))
    if not present:
        return {"removed": [], "left": []}
    check(root, {"size": 0, "unpacked_bytes": 0})
    end_guard(root)
    removed = []
    if systemd(root) and UNIT.exists():
        run(["systemctl", "disable", "reprieve-guard.service"])
        UNIT.unlink()
        run(["systemctl", "daemon-reload"])
        removed.append(str(UNIT))
    # `state` goes last: a broken-off removal can be repeated by the same guard's name.
    for name in ("bin", "run", "staging", "bundle", "state"):
        if (root / name).exists():
            shutil.rmtree(root / name)
            removed.append(str(root / name))
    (root / "current").unlink(missing_ok=True)
    left = sorted(item.name for item in root.iterdir())
    if not left:
        root.rmdir()
        removed.append(str(root))
    return {"removed": removed, "left": left}


def answer(stream: IO[bytes]) -> dict[str, Any]:
    """`main`, with every way to fail as a document."""
    try:
        return main(stream)
    except RefusedError as refusal:
        kind, message, hint = refusal.kind, refusal.message, refusal.hint
    except OSError as error:
        kind, message, hint = "failed", f"{error.strerror}: {error.filename}", None
    except (ValueError, KeyError, TypeError, EOFError, tarfile.TarError) as error:
        kind, message, hint = "damaged", f"what came is not an installation: {error}", None
    return {"error": {"code": 1, "kind": kind, "message": message, "hint": hint}}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(sys.stdin.buffer)))
