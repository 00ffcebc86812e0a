"""Facts of a machine: real ones of this machine, and odd ones from a made-up /proc."""

from __future__ import annotations

import json
import os
import platform
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.guard import facts
from backends.guard.probes import gpus, machine
from backends.guard.probes.identity import identify
from backends.records import strict
from backends.records.facts import Facts

GIB = 1 << 30


def put(base: Path, name: str, content: str | bytes) -> None:
    path = base / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def test_this_machine_round_trips_through_strict_json(tmp_path: Path) -> None:
    found = facts.collect(("/bin/sh", "/nowhere", "relative"), root=tmp_path)
    again = strict.read(Facts, strict.loads(strict.canonical(strict.to_document(found)), what="f"), what="f")
    assert again == found
    assert found.kernel == os.uname().release
    assert found.arch == os.uname().machine
    assert found.python == platform.python_version()
    assert found.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found.cpus == os.cpu_count()
    assert found.cpu_flags
    assert found.memory_bytes
    assert found.memory_bytes > GIB / 8
    assert found.uid == os.getuid()
    assert found.files.keys() == {"/bin/sh", "/nowhere"}
    assert found.files["/nowhere"] is None
    assert any("libc" in path for path in found.image.files)


def test_nothing_is_unknown_and_never_zero(tmp_path: Path) -> None:
    found = facts.collect(base=tmp_path, root=tmp_path)
    unknown = (
        found.boot_id, found.uptime_s, found.cpu_model, found.cpu_flags, found.cpus, found.kernel, found.memory_bytes,
        found.memory_available_bytes, found.capabilities, found.cgroup_version, found.lsm, found.driver,
        found.image.os_id, found.bundle,
    )  # fmt: skip
    assert unknown == (None,) * len(unknown)


def test_flags_are_those_every_cpu_has(tmp_path: Path) -> None:
    put(
        tmp_path,
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: X\x1b[2J\nflags\t\t: a b $(x)\n\nprocessor\t: 1\nflags\t\t: b c\n",
    )
    assert machine.cpu(tmp_path) == ("X\\x1b[2J", ("b",), 2)
    put(tmp_path, "proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd40\n")
    assert machine.cpu(tmp_path) == (None, ("asimd", "fp"), 1)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("MemTotal:       1024 kB\nMemAvailable:    512 kB\n", (1 << 20, 1 << 19)),
        ("MemTotal:       0 kB\n", (None, None)),
        ("MemTotal:       999999999999999999 kB\n", (None, None)),
        ("MemTotal:       -5 kB\nMemAvailable: many\n", (None, None)),
        ("MemTotal:       1024 kB\nMemAvailable:    2048 kB\n", (1 << 20, None)),
    ],
)
def test_absurd_memory_is_unknown(
    tmp_path: Path, content: str, expected: tuple[int | None, int | None]
) -> None:
    put(tmp_path, "proc/meminfo", content)
    assert machine.memory(tmp_path) == expected


def test_capabilities_by_name(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/status", "Name:\tx\nCapEff:\t8000010000200001\n")
    assert machine.capabilities(tmp_path) == (
        "cap_chown",
        "cap_sys_admin",
        "cap_checkpoint_restore",
        "cap_63",
    )


def test_os_release_and_modules(tmp_path: Path) -> None:
    put(tmp_path, "etc/os-release", 'NAME="Debian"\nID=debian\nVERSION_ID="12"\n')
    put(tmp_path, "sys/kernel/security/lsm", "capability,yama\n")
    assert machine.os_release(tmp_path) == ("debian", "12")
    assert machine.modules(tmp_path) == ("capability", "yama")


@pytest.mark.parametrize(
    ("content", "version"),
    [
        ("0::/init.scope\n", 2),
        ("0::/\n1:name=systemd:/\n", 2),
        ("9:name=systemd:/\n4:memory:/\n0::/\n", 1),
        ("2:cpu,cpuacct:/user.slice\n", 1),
        ("", None),
        ("nonsense\n", None),
    ],
)
def test_the_cgroup_version_of_a_host_without_its_own_sysfs(
    tmp_path: Path, content: str, version: int | None
) -> None:
    put(tmp_path, "proc/self/cgroup", content)
    assert machine.cgroup_version(tmp_path) == version


@pytest.mark.parametrize(
    ("label", "modules"),
    [
        ("unconfined\n", ("apparmor",)),
        ("reprieve (enforce)\n", ("apparmor",)),
        ("system_u:system_r:init_t:s0\0", ("selinux",)),
        ("", ()),
        (None, None),
    ],
)
def test_the_labelling_module_without_securityfs(
    tmp_path: Path, label: str | None, modules: tuple[str, ...] | None
) -> None:
    if label is not None:
        put(tmp_path, "proc/self/attr/current", label)
    assert machine.modules(tmp_path) == modules


def test_this_machines_cgroups_and_modules_are_known(tmp_path: Path) -> None:
    found = facts.collect(root=tmp_path)
    assert found.cgroup_version in (1, 2) or not Path("/proc/self/cgroup").exists()
    assert found.lsm is not None or not Path("/proc/self/attr").is_dir()


@given(st.text(max_size=300))
def test_any_proc_text_is_read_without_a_fault(
    tmp_path_factory: pytest.TempPathFactory, content: str
) -> None:
    base = tmp_path_factory.mktemp("proc")
    for name in (
        "cpuinfo",
        "meminfo",
        "uptime",
        "self/status",
        "driver/nvidia/version",
        "driver/nvidia/gpus/a/information",
    ):
        put(base, f"proc/{name}", content.encode("utf-8", "surrogatepass"))
    found = facts.collect(base=base, root=base)
    assert strict.loads(strict.canonical(strict.to_document(found)), what="facts")


VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.211.01  Thu Jan  1 00:00:00 UTC 2026\nGCC version: x\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.142  Release Build  (x)\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [(VERSION, "570.211.01"), (OPEN, "580.142"), ("NVRM version: x", None), ("", None)],
)
def test_driver_version_is_kept_as_text(tmp_path: Path, content: str, expected: str | None) -> None:
    put(tmp_path, "proc/driver/nvidia/version", content)
    assert gpus.driver(tmp_path) == expected


def test_no_gpu_and_unknown_gpus_are_two_answers(tmp_path: Path) -> None:
    assert gpus.gpus(tmp_path) == ((), "")
    put(tmp_path, "dev/nvidiactl", "")
    assert gpus.gpus(tmp_path) == ((), "")
    put(tmp_path, "dev/nvidia0", "")
    found, reason = gpus.gpus(tmp_path)
    assert found is None
    assert "driver fault: 1 GPU devices" in reason


def test_gpus_of_the_driver(tmp_path: Path) -> None:
    card = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 1\nGPU UUID: \t GPU-1\nVideo BIOS: \t ??.??\nDevice Minor: \t 0\n"
    put(tmp_path, "proc/driver/nvidia/gpus/0000:01:00.0/information", card)
    put(tmp_path, "dev/nvidia0", "")
    found, reason = gpus.gpus(tmp_path)
    assert found is not None
    assert (found[0].index, found[0].model, found[0].uuid, found[0].mig, found[0].memory_bytes) == (
        0, "NVIDIA H100 80GB HBM3", "GPU-1", None, None,
    )  # fmt: skip
    assert "unknown without NVML" in reason
    put(tmp_path, "proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "")
    assert gpus.gpus(tmp_path)[0][0].mig is True  # type: ignore[index]  # known to be a tuple here
    put(tmp_path, "dev/nvidia1", "")
    assert gpus.gpus(tmp_path)[0] is None, "a device that the driver does not list is a fault"


def test_build_id_is_what_readelf_says() -> None:
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("no readelf to compare with")
    for path in ("/bin/sh", os.path.realpath(sys.executable), "/bin/ls"):
        printed = subprocess.run(
            [readelf, "-n", path], capture_output=True, text=True, timeout=20, check=False
        ).stdout
        expected = printed.partition("Build ID: ")[2].split()[0] if "Build ID" in printed else None
        found = identify(Path(path))
        assert found is not None
        assert (found.size_bytes, found.build_id) == (Path(path).stat().st_size, expected)


def test_identity_of_what_is_no_program(tmp_path: Path) -> None:
    put(tmp_path, "text", "#!/bin/sh\n")
    found = identify(tmp_path / "text")
    assert found is not None
    assert (found.size_bytes, found.build_id) == (10, None)
    os.mkfifo(tmp_path / "pipe")
    assert identify(tmp_path / "pipe") is None
    assert identify(tmp_path) is None


@given(st.binary(max_size=400), st.booleans(), st.booleans())
def test_a_broken_elf_file_has_no_build_id(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, wide: bool, big: bool
) -> None:
    path = tmp_path_factory.mktemp("elf") / "file"
    path.write_bytes(b"\x7fELF" + bytes([2 if wide else 1, 2 if big else 1]) + data)
    found = identify(path)
    assert found is not None
    assert found.build_id is None or len(found.build_id) <= 128


def test_build_id_of_a_made_file(tmp_path: Path) -> None:
    note = struct.pack("<III", 4, 4, 3) + b"GNU\0" + b"\xde\xad\xbe\xef"
    head = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + bytes(16)
        + struct.pack("<Q", 64)
        + bytes(14)
        + struct.pack("<HH", 56, 1)
    )
    head = head.ljust(64, b"\0")
    program = struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(note), len(note), 4)
    (tmp_path / "elf").write_bytes(head + program + note)
    found = identify(tmp_path / "elf")
    assert found is not None
    assert found.build_id == "deadbeef"


def test_collecting_loads_nothing_of_the_console() -> None:
    code = (
        "import json, sys; from backends.guard import facts; facts.collect();"
        "print(json.dumps([m for m in sys.modules if m.split('.')[0] in ('asyncssh', 'numpy', 'console', 'textual', 'asyncio')"
        " or m.startswith(('backends.ledger', 'backends.clouds', 'backends.nodes'))]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert [name for name in json.loads(done.stdout) if not name.startswith("asyncio")] == []
