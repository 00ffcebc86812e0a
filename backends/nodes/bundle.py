"""The node bundle: everything a guard needs in one archive, named by its SHA-256, the same bytes for the same input.

python/     planner, backends (without what only a console uses), blake3, xxhash, cryptography, _cffi_backend
criu/       a relocatable CRIU, where one was given
bundle.json what is inside
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from backends.errors import ReprieveError
from backends.nodes import wheels
from backends.nodes.wheels import Target
from backends.records.strict import canonical
from backends.xdg import private

# Parts of `backends` that no guard loads.
CONSOLE_ONLY = frozenset({"clouds", "fakes", "inventory", "ledger", "nodes", "practice", "schedulers"})
FORMAT = 1
_CRIU_PARTS = ("usr/sbin/criu", "usr/lib")
_NOT_CRIU = (".a", ".py", ".pyc", ".la")


@dataclass(frozen=True)
class Bundle:
    """A built archive."""

    digest: str  # SHA-256 of the archive, hex: the bundle's name on nodes
    path: Path
    size_bytes: int
    unpacked_bytes: int
    files: int
    version: str  # of Reprieve
    criu: str | None = None  # what it was built from

    @property
    def data(self) -> bytes:
        """The archive, checked against its digest again; ReprieveError when it changed on disk."""
        data = self.path.read_bytes()
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise ReprieveError(f"{self.path} was altered on disk; delete it and try again")
        return data


@dataclass
class _Contents:
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)  # path → (data, mode)
    links: dict[str, str] = field(default_factory=dict)

    def key(self) -> str:
        """Digest over every path, mode and content."""
        whole = hashlib.sha256()
        for path, (data, mode) in sorted(self.files.items()):
            whole.update(f"{path}\0{mode:o}\0{len(data)}\0".encode())
            whole.update(data)
        for path, target in sorted(self.links.items()):
            whole.update(f"{path}\0-> {target}\0".encode())
        return whole.hexdigest()


def build(
    target: Target,
    cache: Path,
    *,
    version: str,
    criu: Path | None = None,
    sources: Path | None = None,
    requirements: Path | None = None,
) -> Bundle:
    """Build the bundle for `target`, or take it from `cache`.

    Args:
        target: Python, processor and C library of the node.
        cache: directory for archives and wheels, made 0700.
        version: Reprieve's, told to the guard.
        criu: root of unpacked CRIU packages (`closures.criu_closure(...).root`), None for none.
        sources: directory that holds `planner` and `backends`; None: where this program lies.
        requirements: hashed requirements file for wheels that must be fetched.

    Raises:
        IncompatibleError: compiled packages for the target cannot be had.
        ReprieveError: the CRIU tree is not one.
    """
    contents = _Contents()
    _own_packages(sources or Path(__file__).resolve().parents[2], contents)
    for path, data in wheels.package_files(target, cache, requirements).items():
        contents.files[f"python/{path}"] = (data, 0o644)
    if criu is not None:
        _criu(criu, contents)
    about = {
        "format": FORMAT, "version": version, "python": f"{target.python[0]}.{target.python[1]}", "machine": target.machine,
        "glibc": f"{target.glibc[0]}.{target.glibc[1]}", "packages": wheels.versions(), "criu": criu is not None,
    }  # fmt: skip
    contents.files["bundle.json"] = (canonical(about) + b"\n", 0o644)
    archive = private(cache / "bundles") / f"{contents.key()}.tar.gz"
    if not archive.exists():
        _write(contents, archive)
    whole = archive.read_bytes()
    return Bundle(
        digest=hashlib.sha256(whole).hexdigest(),
        path=archive,
        size_bytes=len(whole),
        unpacked_bytes=sum(len(item) for item, _ in contents.files.values()),
        files=len(contents.files) + len(contents.links),
        version=version,
        criu=None if criu is None else str(criu),
    )


def _own_packages(sources: Path, contents: _Contents) -> None:
    for package in ("planner", "backends"):
        for path in sorted((sources / package).rglob("*.py")):
            parts = path.relative_to(sources).parts
            if parts[1].removesuffix(".py") not in CONSOLE_ONLY or package != "backends":
                contents.files["/".join(("python", *parts))] = (path.read_bytes(), 0o644)


def _criu(root: Path, contents: _Contents) -> None:
    if not (root / "usr/sbin/criu").is_file():
        raise ReprieveError(f"{root} holds no usr/sbin/criu: not the root of unpacked CRIU packages")
    for part in _CRIU_PARTS:
        found = [root / part] if (root / part).is_file() else sorted((root / part).rglob("*"))
        for path in found:
            name = f"criu/{path.relative_to(root).as_posix()}"
            if path.is_symlink():
                target = _inside(root, path)
                if target is not None:
                    contents.links[name] = target
            elif path.is_file() and path.suffix not in _NOT_CRIU and "python3" not in path.parts:
                executable = path.stat().st_mode & stat.S_IXUSR
                contents.files[name] = (path.read_bytes(), 0o755 if executable else 0o644)
    for path in sorted((root / "usr/share/doc").glob("*/copyright")):  # licences travel with the programs
        if path.is_file() and not path.is_symlink():
            contents.files[f"criu/{path.relative_to(root).as_posix()}"] = (path.read_bytes(), 0o644)


def _inside(root: Path, link: Path) -> str | None:
    """The relative target of `link` when it lies in the tree and exists there, None otherwise."""
    text = str(link.readlink())
    start = root if text.startswith("/") else link.parent
    place = Path(os.path.normpath(start / text.lstrip("/")))
    if not place.is_relative_to(root) or not place.is_file():
        return None
    return os.path.relpath(place, link.parent)


def _write(contents: _Contents, path: Path) -> None:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for folder in _folders([*contents.files, *contents.links]):
            tar.addfile(_member(folder, tarfile.DIRTYPE, 0o755))
        for name, (data, mode) in sorted(contents.files.items()):
            member = _member(name, tarfile.REGTYPE, mode)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for name, target in sorted(contents.links.items()):
            member = _member(name, tarfile.SYMTYPE, 0o777)
            member.linkname = target
            tar.addfile(member)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_bytes(buffer.getvalue())
    temporary.replace(path)


def _folders(names: list[str]) -> list[str]:
    found = {"/".join(name.split("/")[:depth]) for name in names for depth in range(1, name.count("/") + 1)}
    return sorted(found)


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.mtime = kind, mode, 0
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
