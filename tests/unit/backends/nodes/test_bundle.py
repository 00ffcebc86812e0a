"""The bundle: the same bytes for the same input, complete for a guard, nothing of the console in it."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from backends.errors import IncompatibleError, ReprieveError
from backends.nodes import wheels
from backends.nodes.bootstrap import unpack
from backends.nodes.bundle import CONSOLE_ONLY, Bundle, build
from backends.nodes.probe import Look
from backends.nodes.wheels import Target, fits, own_target, target_of

OWN = own_target()


def here() -> Target:
    assert OWN is not None, "the tests run on glibc"
    return OWN


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def built(cache: Path) -> Bundle:
    return build(here(), cache, version="1")


@pytest.fixture(scope="module")
def unpacked(built: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("unpacked")
    unpack(io.BytesIO(built.data), place)
    return place


def members(bundle: Bundle) -> list[tarfile.TarInfo]:
    with tarfile.open(bundle.path) as tar:
        return tar.getmembers()


def test_same_input_same_bytes(built: Bundle, tmp_path: Path) -> None:
    again = build(here(), tmp_path, version="1")
    assert (again.digest, again.size_bytes, again.files) == (built.digest, built.size_bytes, built.files)
    assert build(here(), tmp_path, version="2").digest != built.digest


def test_members_carry_no_trace_of_this_machine(built: Bundle) -> None:
    found = members(built)
    assert {(item.uid, item.gid, item.uname, item.mtime) for item in found} == {(0, 0, "root", 0)}
    assert {item.mode for item in found if item.isfile()} == {0o644}
    names = [item.name for item in found if item.isfile()]
    assert names == sorted(names)
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", "RECORD"))]


def test_the_cache_is_used_and_private(built: Bundle, cache: Path) -> None:
    before = built.path.stat().st_mtime_ns
    assert build(here(), cache, version="1").path == built.path
    assert built.path.stat().st_mtime_ns == before
    assert (cache / "bundles").stat().st_mode & 0o777 == 0o700


def test_nothing_of_the_console_is_inside(built: Bundle) -> None:
    names = [item.name for item in members(built)]
    assert not [name for name in names if name.startswith("python/console")]
    for part in CONSOLE_ONLY:
        assert not [
            name
            for name in names
            if name.startswith((f"python/backends/{part}/", f"python/backends/{part}.py"))
        ]
    assert not [name for name in names if "asyncssh" in name or "numpy" in name or "textual" in name]


# Only the standard library and the bundle on the path, as on a bare node; every module a guard could load.
_LOAD = """
import importlib, json, pkgutil, sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path] + [sys.argv[1]]
import backends, backends.guard
loaded = ["backends.guard"]
for found in pkgutil.walk_packages(backends.guard.__path__, "backends.guard."):
    importlib.import_module(found.name)
    loaded.append(found.name)
early = [name for name in sys.modules if name.partition(".")[0] == "obstore"]
import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
AESGCM(AESGCM.generate_key(256)).encrypt(bytes(12), b"x", None)
Ed25519PrivateKey.generate().sign(b"x")
blake3.blake3(b"x").digest()
from backends.store.format.codec import Encoder, decode
assert decode(*Encoder().encode(bytes(5000)), 5000, "frame") == bytes(5000)
from backends.store.objects.client import connect
from obstore.store import MemoryStore
MemoryStore().put("x", b"x", mode="create")
from xxhash import xxh3_128_digest
assert len(xxh3_128_digest(b"x", 7)) == 16
print(json.dumps({"loaded": loaded, "early": early, "modules": sorted(sys.modules),
                  "files": [getattr(m, "__file__", None) for n, m in sys.modules.items() if n.split(".")[0] in ("backends", "planner", "blake3", "cryptography", "obstore", "xxhash", "zstandard", "_cffi_backend")]}))
"""


def test_every_guard_module_loads_from_the_bundle_alone(unpacked: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LOAD, str(unpacked / "python")],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert "backends.guard.facts" in found["loaded"]
    assert found["early"] == [], "obstore waits for the first request to an object store"
    forbidden = (
        "asyncssh",
        "numpy",
        "textual",
        "rich",
        "console",
        "backends.ledger",
        "backends.clouds",
        "backends.nodes",
    )
    assert not [name for name in found["modules"] if name.startswith(forbidden)]
    assert all(path is None or path.startswith(str(unpacked)) for path in found["files"])


def fake_criu(root: Path) -> Path:
    for name, content in {
        "usr/sbin/criu": b"\x7fELF",
        "usr/lib/x/ld-linux.so.2": b"loader",
        "usr/lib/x/libc.so.6": b"libc",
        "usr/lib/x/libc.a": b"static",
        "usr/lib/python3/dist-packages/x.py": b"no",
        "usr/share/doc/criu/copyright": b"GPL",
        "usr/share/man/criu.8": b"no",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (root / "usr/sbin/criu").chmod(0o755)
    (root / "usr/lib/x/libc.so").symlink_to("libc.so.6")
    (root / "usr/lib/x/absolute.so").symlink_to("/usr/lib/x/libc.so.6")
    (root / "usr/lib/x/outside").symlink_to("/etc/passwd")
    (root / "usr/lib/x/up").symlink_to(os.path.relpath("/etc/passwd", root / "usr/lib/x"))
    assert (root / "usr/lib/x/up").is_file(), "it does lead outside"
    return root


def test_criu_travels_with_its_libraries_and_licence(cache: Path, tmp_path: Path) -> None:
    found = {item.name: item for item in members(build(here(), cache, version="1", criu=fake_criu(tmp_path)))}
    inside = {name for name, item in found.items() if name.startswith("criu/") and not item.isdir()}
    assert inside == {
        "criu/usr/sbin/criu", "criu/usr/lib/x/ld-linux.so.2", "criu/usr/lib/x/libc.so.6", "criu/usr/lib/x/libc.so",
        "criu/usr/lib/x/absolute.so", "criu/usr/share/doc/criu/copyright",
    }  # fmt: skip
    assert found["criu/usr/sbin/criu"].mode == 0o755
    assert found["criu/usr/lib/x/absolute.so"].linkname == "libc.so.6"


def test_a_tree_without_criu_is_refused(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(ReprieveError, match="holds no usr/sbin/criu"):
        build(here(), cache, version="1", criu=tmp_path)


def wheel_of(*tags: str) -> dict[str, bytes]:
    return {"x.dist-info/WHEEL": "".join(f"Tag: cp311-abi3-{tag}\n" for tag in tags).encode()}


@pytest.mark.parametrize(
    ("tags", "glibc", "expected"),
    [
        (("manylinux_2_34_x86_64",), (2, 36), True),
        (("manylinux_2_34_x86_64",), (2, 34), True),
        (("manylinux_2_34_x86_64",), (2, 31), False),
        (("manylinux_2_34_aarch64",), (2, 36), False),
        (("musllinux_1_2_x86_64", "manylinux2014_x86_64"), (2, 17), True),
        (("manylinux2014_x86_64",), (2, 12), False),
        (("linux_x86_64",), (2, 36), False),
        (("any",), (2, 5), True),
        ((), (2, 36), False),
    ],
)
def test_tags_of_a_distribution(tags: tuple[str, ...], glibc: tuple[int, int], expected: bool) -> None:
    assert fits(wheel_of(*tags), Target((3, 11), "x86_64", glibc)) is expected


LOOK = Look(
    "/usr/bin/python3", (3, 12, 1), "cpython", "aarch64", "glibc 2.39", "Linux", 0, "/opt/reprieve", True, 1, False, False, None, None, None
)  # fmt: skip


def look_with(**changes: Any) -> Look:
    return Look(**{**vars(LOOK), **changes})


def test_target_of_a_host() -> None:
    assert target_of(LOOK) == Target((3, 12), "aarch64", (2, 39))
    for changes, message in (
        ({"implementation": "pypy"}, "CPython is needed"),
        ({"libc": None}, "glibc is needed"),
        ({"libc": "musl 1.2"}, "glibc is needed"),
        ({"machine": "../x"}, "is not known"),
    ):
        with pytest.raises(IncompatibleError, match=message):
            target_of(look_with(**changes))


def test_another_python_is_asked_of_pip_with_exact_versions_and_hashes(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def run(argv: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
        calls.append(argv)
        return subprocess.CompletedProcess(argv, 1, b"", b"WARNING: x\nERROR: no route\x1b[2J to the index")

    monkeypatch.setattr(subprocess, "run", run)
    pins = {name: importlib.metadata.version(name) for name in wheels.DISTRIBUTIONS}
    listed = tmp_path / "requirements.txt"
    listed.write_text(
        "".join(f"{name}=={version} \\\n    --hash=sha256:{'ab' * 32}\n" for name, version in pins.items())
    )
    with pytest.raises(
        IncompatibleError,
        match=r"no packages for Python 3\.13 on riscv64 with glibc 2\.40: ERROR: no route\\x1b",
    ):
        build(Target((3, 13), "riscv64", (2, 40)), tmp_path, version="1", requirements=listed)
    (argv,) = calls
    assert "--only-binary" in argv
    assert argv[argv.index("--python-version") + 1] == "3.13"
    assert "manylinux_2_40_riscv64" in argv
    assert not any("riscv64" in item and "2_41" in item for item in argv)
    wanted = Path(argv[argv.index("--requirement") + 1]).read_text().splitlines()
    assert wanted == [f"{name}=={version} --hash=sha256:{'ab' * 32}" for name, version in pins.items()]
    assert argv[0] == sys.executable


@pytest.mark.skipif(
    os.environ.get("REPRIEVE_TEST_NETWORK") != "1",
    reason="needs a package index: set REPRIEVE_TEST_NETWORK=1",
)
def test_packages_for_another_python_can_be_fetched(tmp_path: Path) -> None:
    requirements = Path(__file__).resolve().parents[4] / "requirements/runtime.txt"
    found = build(Target((3, 13), "aarch64", (2, 39)), tmp_path, version="1", requirements=requirements)
    names = [item.name for item in members(found)]
    assert any("_cffi_backend.cpython-313-aarch64" in name for name in names)
    assert any(name.startswith("python/blake3/blake3.cpython-313-aarch64") for name in names)
