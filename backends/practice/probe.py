"""Tries once what a namespaces fleet needs, inside throw-away namespaces; exit 0, or one line and exit 1."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

from backends.practice import netlink, syscalls


def main() -> int:
    """Bridge, link pair, nested namespaces, mounts and device nodes; all of it ends with this process."""
    try:
        netlink.set_up("lo")
        netlink.add_bridge("probe0", netlink.mac_of("10.77.255.254"))
        netlink.add_veth(
            "probe1",
            master="probe0",
            peer="probe2",
            peer_mac=netlink.mac_of("10.77.0.1"),
            peer_pid=os.getpid(),
        )
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            syscalls.mount("tmpfs", place, "tmpfs")
            os.mknod(place / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            syscalls.unmount(place)
        syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWUTS)
    except OSError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
