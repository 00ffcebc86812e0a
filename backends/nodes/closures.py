"""Debian packages with everything they need, unpacked into the cache: nothing is installed on the machine.

A *closure* is a package with all its dependencies, its own C library included, fetched by the machine's apt with
private state (the machine's package lists stay as they are) and unpacked with dpkg-deb. A program in it is run
through the closure's own dynamic loader, so it does not depend on the release of the host. Source addresses are
taken from the machine's own apt configuration; none is written here.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from backends.clean import clean
from backends.errors import ReprieveError

CRIU_PACKAGES = ("criu", "libcriu2")
CRIU_SUITE = "sid"  # the only Debian suite with CRIU ≥ 4.2, which kernels ≥ 6.16 need
CRUN_PACKAGES = ("crun", "libcriu2")
SSHD_PACKAGES = ("openssh-server", "openssh-sftp-server", "iproute2", "iptables")
_SOURCES = Path("/etc/apt")
_TIMEOUT_S = 300.0


class ClosureError(ReprieveError):
    """A closure cannot be had here: no apt, no package source, no network."""

    kind = "no_package_source"


@dataclass(frozen=True)
class Closure:
    """An unpacked closure."""

    root: Path  # holds usr/, lib/ …
    packages: tuple[str, ...]  # file names of the .deb files, which carry the versions

    @property
    def libraries(self) -> Path:
        """The directory of shared libraries, the loader's own included."""
        return next(iter(sorted((self.root / "usr/lib").glob("*-linux-gnu*"))), self.root / "usr/lib")

    @property
    def loader(self) -> Path:
        """The dynamic loader to start programs of this closure with."""
        found = sorted(self.libraries.glob("ld-linux*.so.*"))
        if not found:
            raise ClosureError(
                f"{self.root}: no dynamic loader in the unpacked packages; delete it and try again"
            )
        return found[0]

    def argv(self, program: str) -> tuple[str, ...]:
        """The words that start `program` (`usr/sbin/criu`) with this closure's libraries."""
        return (str(self.loader), "--library-path", str(self.libraries), str(self.root / program))


def criu_closure(cache: Path) -> Closure:
    """CRIU ≥ 4.2 with all it needs (about 25 MB unpacked); raises ClosureError when it cannot be had."""
    return _closure(cache, "criu", CRIU_PACKAGES, CRIU_SUITE)


def crun_closure(cache: Path) -> Closure:
    """Crun with CRIU's library, which a Debian release may lack; raises ClosureError when it cannot be had."""
    return _closure(cache, "crun", CRUN_PACKAGES, CRIU_SUITE)


def sshd_closure(cache: Path) -> Closure:
    """OpenSSH's server, iproute2 and iptables of the machine's own release; raises ClosureError."""
    return _closure(cache, "sshd", SSHD_PACKAGES, None)


def debian_closure(cache: Path, name: str, packages: tuple[str, ...]) -> Closure:
    """Packages of the machine's own release with all they need; raises ClosureError when they cannot be had."""
    return _closure(cache, name, packages, None)


def _closure(cache: Path, name: str, packages: tuple[str, ...], suite: str | None) -> Closure:
    source = _source(suite)
    key = hashlib.sha256("\0".join((platform.machine(), name, *packages, source)).encode()).hexdigest()[:16]
    place = cache / "closures" / f"{name}-{key}"
    if not (place / "complete").exists():
        _fetch(place, packages, source)
    names = tuple((place / "complete").read_text().split())
    return Closure(place / "root", names)


def _fetch(place: Path, packages: tuple[str, ...], source: str) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise ClosureError(
                f"{tool} is not on this machine: {packages[0]} cannot be fetched from Debian's packages"
            )
    work = place.with_name(f"{place.name}.{os.getpid()}")
    shutil.rmtree(work, ignore_errors=True)
    try:
        config = _apt_config(work, source)
        _run(["apt-get", "-q", "update"], config, packages[0])
        _run(
            ["apt-get", "-q", "-y", "-d", "--no-install-recommends", "install", *packages],
            config,
            packages[0],
        )
        archives = sorted((work / "cache/archives").glob("*.deb"))
        (work / "root").mkdir()
        for archive in archives:
            _run(["dpkg-deb", "-x", str(archive), str(work / "root")], config, archive.name)
        _merge_usr(work / "root")
        shutil.rmtree(work / "state")
        (work / "complete").write_text("\n".join(archive.name for archive in archives) + "\n")
        shutil.rmtree(place, ignore_errors=True)
        work.rename(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _merge_usr(root: Path) -> None:
    """Move what older packages ship under /lib, /bin and /sbin to /usr, as a merged file system has it."""
    for name in ("lib", "lib64", "bin", "sbin"):
        old = root / name
        if old.is_dir() and not old.is_symlink():
            shutil.copytree(old, root / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(old)


def _apt_config(work: Path, source: str) -> Path:
    for directory in ("state/lists/partial", "cache/archives/partial", "sources"):
        (work / directory).mkdir(parents=True)
    (work / "sources/closure.sources").write_text(source)
    (work / "state/status").touch()
    # An empty dpkg status makes apt fetch the complete closure, C library included.
    lines = {
        "Dir::State": work / "state",
        "Dir::State::status": work / "state/status",
        "Dir::Cache": work / "cache",
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": work / "sources",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "APT::Sandbox::User": "root",
        "APT::Get::List-Cleanup": "false",
        "Acquire::Languages": "none",
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Retries": "2",
        "Debug::NoLocking": "true",
    }
    config = work / "apt.conf"
    config.write_text("".join(f'{key} "{value}";\n' for key, value in lines.items()))
    return config


def _run(argv: list[str], config: Path, what: str) -> None:
    environment = {
        **os.environ,
        "APT_CONFIG": str(config),
        "LC_ALL": "C",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    try:
        done = subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClosureError(f"{what}: {argv[0]} failed: {clean(error)}") from None
    if done.returncode != 0:
        lines = [
            line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.startswith("E:")
        ]
        reason = clean(lines[0] if lines else done.stderr[-200:])
        raise ClosureError(
            f"{what}: Debian's packages cannot be reached ({argv[0]} exit {done.returncode}: {reason})",
            hint="check the network and this machine's apt sources, or install the program yourself",
        )


def _source(suite: str | None) -> str:
    """One deb822 source: the machine's own Debian archive, for `suite` or for the machine's release with updates."""
    for address, suites, signed in _own_sources():
        if suite is None:
            return _stanza(address, suites, signed)
        return _stanza(address, [suite], signed)
    raise ClosureError(
        "this machine has no Debian package source (no main Debian archive in /etc/apt)",
        hint="on other systems install openssh-server and CRIU 4.2 or newer yourself",
    )


def _stanza(address: str, suites: list[str], signed: str | None) -> str:
    lines = ["Types: deb", f"URIs: {address}", f"Suites: {' '.join(suites)}", "Components: main"]
    return "\n".join([*lines, *([f"Signed-By: {signed}"] if signed else [])]) + "\n"


def _own_sources() -> list[tuple[str, list[str], str | None]]:
    """(address, suites, keyring) of the machine's main Debian archives, security archives left out."""
    found: list[tuple[str, list[str], str | None]] = []
    for path in sorted((_SOURCES / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text(errors="replace")):
            fields = dict(re.findall(r"(?mi)^([a-z-]+):[ \t]*(.+)$", stanza))
            fields = {key.lower(): value.strip() for key, value in fields.items()}
            if fields.get("enabled", "yes").lower() != "no":
                for address in fields.get("uris", "").split():
                    suites, components = (
                        fields.get("suites", "").split(),
                        fields.get("components", "").split(),
                    )
                    found.append(
                        (address, suites, fields.get("signed-by")) if "main" in components else ("", [], None)
                    )
    lists = [_SOURCES / "sources.list", *sorted((_SOURCES / "sources.list.d").glob("*.list"))]
    for path in lists:
        if path.exists():
            for match in re.finditer(
                r"(?m)^deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+(.+)$", path.read_text(errors="replace")
            ):
                options, address, name, components_text = match.groups()
                signed = re.search(r"signed-by=(\S+)", options or "")
                if "main" in components_text.split():
                    found.append((address, [name], signed.group(1) if signed else None))
    return [
        item
        for item in found
        if item[1] and re.search(r"/debian/?$", item[0]) and not any("security" in suite for suite in item[1])
    ]
