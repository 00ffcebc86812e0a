"""The compiled packages a guard needs, for the Python, processor and C library of a node.

Taken from this environment's own installed distributions where they fit, else fetched once by pip, as wheels of
exactly the versions installed here (and with the hashes of the requirements file where there is one).
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from backends.clean import clean
from backends.errors import IncompatibleError
from backends.nodes.probe import Look
from backends.xdg import private

# `nvidia-ml-py` is the module pynvml, pure Python: nodes with GPUs read them by it.
# `cffi` for `_cffi_backend` alone, which cryptography's extension loads; `obstore` for s3://, gs:// and az://: always,
# because a job with such a store may come to a node long after its installation.
DISTRIBUTIONS = ("blake3", "cffi", "cryptography", "nvidia-ml-py", "obstore", "xxhash", "zstandard")
_WANTED = re.compile(
    r"(blake3/|cryptography/|obstore/[^/]+\.(py|so)$|xxhash/(__init__\.py|version\.py|_xxhash[^/]*\.so)$|zstandard/(__init__\.py|backend_c[^/]*\.so)$|_cffi_backend[^/]*\.so$|pynvml\.py$|[^/]+\.dist-info/(METADATA$|WHEEL$|licenses/|LICENSE))"
)
_GLIBC_TAG = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)$")
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_PIP_S = 300.0
_SIZE_LIMIT = 64 << 20  # bytes of one unpacked file


@dataclass(frozen=True)
class Target:
    """What a bundle is built for."""

    python: tuple[int, int]  # (3, 11)
    machine: str  # x86_64
    glibc: tuple[int, int]

    @property
    def shown(self) -> str:
        """For messages."""
        return f"Python {self.python[0]}.{self.python[1]} on {self.machine} with glibc {self.glibc[0]}.{self.glibc[1]}"


def target_of(found: Look) -> Target:
    """The target that a host asks for; IncompatibleError when no packages exist for such a host."""
    name = "the node"
    if found.implementation != "cpython" or len(found.version) < 2:
        raise IncompatibleError(f"{name} runs Python {found.implementation}; CPython is needed")
    if found.glibc is None:
        raise IncompatibleError(f"{name} has the C library {found.libc or 'unknown'}; glibc is needed")
    if not re.fullmatch(r"[a-z0-9_]{1,20}", found.machine):
        raise IncompatibleError(f"{name} has the processor {found.machine!r}, which is not known")
    return Target((found.version[0], found.version[1]), found.machine, found.glibc)


def own_target() -> Target | None:
    """This program's own Python, processor and C library; None where no node can share them."""
    libc, version = platform.libc_ver()
    match = re.match(r"(\d+)\.(\d+)", version)
    if sys.platform != "linux" or sys.implementation.name != "cpython" or libc != "glibc" or match is None:
        return None
    return Target(
        (sys.version_info[0], sys.version_info[1]), platform.machine(), (int(match[1]), int(match[2]))
    )


def versions() -> dict[str, str]:
    """The versions to ship: those installed here."""
    return {name: importlib.metadata.version(name) for name in DISTRIBUTIONS}


def package_files(target: Target, cache: Path, requirements: Path | None = None) -> dict[str, bytes]:
    """Every file to ship by its path under the bundle's `python/`.

    Raises:
        IncompatibleError: packages for this target can neither be found here nor fetched.
    """
    own = own_target()
    if own is not None and (own.python, own.machine) == (target.python, target.machine):
        files = {name: _installed(name) for name in DISTRIBUTIONS}
        if all(fits(found, target) for found in files.values()):
            return {path: data for found in files.values() for path, data in found.items()}
    return _fetched(target, cache, requirements)


def fits(files: dict[str, bytes], target: Target) -> bool:
    """Whether a distribution's own tags (its WHEEL file) allow the target's processor and C library."""
    wheel = next((data for path, data in files.items() if path.endswith(".dist-info/WHEEL")), b"")
    tags = re.findall(r"(?m)^Tag: [^-\s]+-[^-\s]+-(\S+)$", wheel.decode("utf-8", "replace"))
    return any(_tag_fits(tag, target) for tag in tags)


def _tag_fits(tag: str, target: Target) -> bool:
    if tag == "any":
        return True
    match = _GLIBC_TAG.match(tag)
    if match is not None:
        return (int(match[1]), int(match[2])) <= target.glibc and match[3] == target.machine
    legacy, _, machine = tag.partition("_")
    return legacy in _LEGACY and _LEGACY[legacy] <= target.glibc and machine == target.machine


def _installed(name: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for item in importlib.metadata.files(name) or ():
        path = item.as_posix()
        if _WANTED.match(path) and not path.endswith(".pyc") and ".." not in item.parts:
            try:
                found[path] = Path(str(item.locate())).read_bytes()
            except OSError:
                return {}  # an incomplete installation: fetch instead
    return found


def _fetched(target: Target, cache: Path, requirements: Path | None) -> dict[str, bytes]:
    pins = versions()
    name = "-".join(
        [f"cp{target.python[0]}{target.python[1]}", target.machine, f"{target.glibc[0]}.{target.glibc[1]}"]
    )
    folder = private(cache / "wheels" / name)
    wheels = [_wheel(folder, item, version) for item, version in pins.items()]
    if not all(wheels):
        _download(target, folder, pins, requirements)
        wheels = [_wheel(folder, item, version) for item, version in pins.items()]
    if not all(wheels):
        raise IncompatibleError(f"no packages for {target.shown}: pip fetched something else than asked for")
    files: dict[str, bytes] = {}
    for wheel in wheels:
        if wheel is not None:
            files |= _unpacked(wheel)
    return files


def _wheel(folder: Path, name: str, version: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"))), None)


def _download(target: Target, folder: Path, pins: dict[str, str], requirements: Path | None) -> None:
    tag = f"cp{target.python[0]}{target.python[1]}"
    platforms = [
        f"manylinux_{target.glibc[0]}_{minor}_{target.machine}" for minor in range(target.glibc[1], 16, -1)
    ]
    platforms.append(f"manylinux2014_{target.machine}")
    wanted = folder / "wanted.txt"
    wanted.write_text(_requirement_lines(pins, requirements))
    argv = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps",
        "--only-binary", ":all:", "--implementation", "cp", "--python-version", f"{target.python[0]}.{target.python[1]}",
        "--abi", tag, "--abi", "abi3", "--dest", str(folder), "--requirement", str(wanted),
    ]  # fmt: skip
    for item in platforms:
        argv += ["--platform", item]
    hint = "use a node with the Python of this machine, or let this machine reach a package index once"
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=_PIP_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise IncompatibleError(f"no packages for {target.shown}: {clean(error)}", hint=hint) from None
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [
            f"pip exit {done.returncode}"
        ]
        raise IncompatibleError(f"no packages for {target.shown}: {clean(reason[0])}", hint=hint)


def _requirement_lines(pins: dict[str, str], requirements: Path | None) -> str:
    """Lines for pip: with every hash where the requirements file has them for all, else versions alone."""
    text = ""
    if requirements is not None and requirements.is_file():
        text = requirements.read_text("utf-8").replace("\\\n", " ")
    lines = []
    for name, version in pins.items():
        match = re.search(rf"(?m)^{re.escape(name)}=={re.escape(version)}\b.*$", text)
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}", match.group()) if match else []
        lines.append(" ".join([f"{name}=={version}", *hashes]))
    if not all("--hash" in line for line in lines):
        lines = [line.split(" ", 1)[0] for line in lines]
    return "\n".join(lines) + "\n"


def _unpacked(wheel: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for info in archive.infolist():
                path = PurePosixPath(info.filename)
                odd = (
                    info.is_dir() or path.is_absolute() or ".." in path.parts or info.file_size > _SIZE_LIMIT
                )
                if not odd and _WANTED.match(info.filename):
                    files[path.as_posix()] = archive.read(info)
    except (OSError, zipfile.BadZipFile) as error:
        raise IncompatibleError(f"{wheel} is damaged ({clean(error)}); delete it and try again") from None
    return files
