"""CPU, memory, kernel, capabilities and disks, from /proc and /sys under a base directory (tests give their own)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from backends.clean import clean

READ_LIMIT = 4 << 20  # bytes of one /proc file: cpuinfo of a machine with 1,000 CPUs has 1.5 MB
_FLAG = re.compile(r"[a-z0-9_.]{1,40}\Z")
_SIZE_LIMIT = 1 << 60  # bytes: more memory or disk than any machine has
# Order of include/uapi/linux/capability.h, bit 0 first.
_CAPABILITIES = (
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid",
    "setpcap", "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw",
    "ipc_lock", "ipc_owner", "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
    "sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time", "sys_tty_config", "mknod",
    "lease", "audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog",
    "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf", "checkpoint_restore",
)  # fmt: skip


def text(path: Path) -> str | None:
    """The beginning of a small file, None when it cannot be read."""
    parts: list[bytes] = []
    try:
        # Small reads: a sysctl file answers ENOMEM to one of megabytes.
        with path.open("rb", buffering=0) as stream:
            while sum(map(len, parts)) < READ_LIMIT and (part := stream.read(1 << 16)):
                parts.append(part)
    except OSError:
        return None
    return b"".join(parts).decode("utf-8", "replace")


def line(path: Path) -> str | None:
    """The stripped, cleaned first line of a file; None when there is none."""
    content = (text(path) or "").strip()
    return clean(content.splitlines()[0].strip()) if content else None


def size(value: int | None) -> int | None:
    """A size in bytes, None when it is absurd (nothing, negative, beyond 2^60)."""
    return value if value is not None and 0 < value < _SIZE_LIMIT else None


def cpu(base: Path) -> tuple[str | None, tuple[str, ...] | None, int | None]:
    """Model, flags that every CPU has, and number of CPUs, from /proc/cpuinfo (x86 `flags`, Arm `Features`)."""
    model: str | None = None
    common: set[str] | None = None
    count = 0
    for row in (text(base / "proc/cpuinfo") or "").splitlines():
        key, colon, value = row.partition(":")
        key = key.strip()
        if not colon:
            continue
        if key == "processor" and value.strip().isdigit():
            count += 1
        elif key in ("model name", "Hardware") and model is None and value.strip():
            model = clean(value.strip(), limit=80)
        elif key in ("flags", "Features"):
            flags = {item for item in value.split() if _FLAG.match(item)}
            common = flags if common is None else common & flags
    return model, tuple(sorted(common)) if common else None, count or None


def memory(base: Path) -> tuple[int | None, int | None]:
    """Total and available memory in bytes, from /proc/meminfo."""
    found: dict[str, int] = {}
    for match in re.finditer(
        r"(?m)^(MemTotal|MemAvailable):\s+(\d{1,18}) kB$", text(base / "proc/meminfo") or ""
    ):
        found[match.group(1)] = int(match.group(2)) * 1024
    total, available = size(found.get("MemTotal")), size(found.get("MemAvailable"))
    if total is not None and available is not None and available > total:
        available = None
    return total, available


def capabilities(base: Path) -> tuple[str, ...] | None:
    """Effective capabilities of this process by name; a bit without a name is cap_<number>."""
    match = re.search(r"(?m)^CapEff:\s+([0-9a-fA-F]{1,16})$", text(base / "proc/self/status") or "")
    if match is None:
        return None
    bits = int(match.group(1), 16)
    return tuple(
        f"cap_{_CAPABILITIES[number] if number < len(_CAPABILITIES) else number}"
        for number in range(64)
        if bits >> number & 1
    )


def uptime_s(base: Path) -> float | None:
    """Seconds since boot, from /proc/uptime."""
    match = re.match(r"(\d{1,12}\.\d+)\s", text(base / "proc/uptime") or "")
    return float(match.group(1)) if match else None


def cgroup_version(base: Path) -> int | None:
    """2 for the unified hierarchy alone, 1 where a controller lies in an older one, None without cgroups.

    From /proc/self/cgroup (cgroups(7)): hosts in namespaces have no /sys/fs/cgroup of their own.
    """
    rows = re.findall(r"(?m)^(\d+):([^:\n]*):", text(base / "proc/self/cgroup") or "")
    if any(number != "0" and not names.startswith("name=") for number, names in rows):
        return 1
    return 2 if rows or (base / "sys/fs/cgroup/cgroup.controllers").exists() else None


def modules(base: Path) -> tuple[str, ...] | None:
    """Active security modules (`lockdown,yama,apparmor`), None when the kernel does not say.

    Without a mounted securityfs only those that label processes are named, which are those a restore depends on:
    /proc/self/attr/current holds a label, or cannot be read where no such module is active.
    """
    listed = line(base / "sys/kernel/security/lsm")
    if listed is not None:
        return tuple(item for item in listed.split(",") if item)
    attributes = base / "proc/self/attr"
    if not attributes.is_dir():
        return None
    label = (text(attributes / "current") or "").strip("\0\n ")
    if not label:
        return ()
    return ("selinux",) if label.count(":") >= 2 else ("apparmor",)


def free_bytes(path: Path) -> int | None:
    """Bytes free for us where `path` lies or would lie."""
    for place in (path, *path.parents):
        try:
            found = os.statvfs(place)
        except OSError:
            continue
        return found.f_bavail * found.f_frsize
    return None


def libc() -> str | None:
    """`glibc 2.36`, None for another C library."""
    try:
        value = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return None
    return clean(value, limit=40) if value else None


def os_release(base: Path) -> tuple[str | None, str | None]:
    """ID and VERSION_ID of os-release(5)."""
    content = text(base / "etc/os-release") or text(base / "usr/lib/os-release") or ""
    found = {
        match.group(1): clean(match.group(2).strip("\"'"), limit=80)
        for match in re.finditer(r"(?m)^(ID|VERSION_ID)=(.+)$", content)
    }
    return found.get("ID"), found.get("VERSION_ID")
