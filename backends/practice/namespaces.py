"""Hosts in namespaces (root on Linux): own network, mounts, processes, host name and IPC, with a real sshd as init.

The daemon that calls this is itself the init of parent namespaces (`launch`), so nothing here touches the machine's
own: the bridge, the links and every host end with the daemon.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import signal
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from backends.clock import Clock
from backends.errors import ReprieveError, UsageError
from backends.practice import netlink, rootfs, sshd, syscalls
from backends.practice.birth import Birth, alive, machine_pid
from backends.practice.port import Host, HostSpec, Mode, Streams
from backends.practice.relay import bound_to_free_port, listening, readable

BRIDGE = "fleet0"
GATEWAY = "10.77.255.254"
PREFIX = 16
METRICS_PORT = 9100
METADATA_ADDRESS = "169.254.169.254"
_START_S = 30.0
_KILL_S = 30.0


def address_of(number: int) -> str:
    """The address of host `number` (1…65000) in the fleet's network."""
    return f"10.77.{number // 250}.{number % 250 + 1}"


@dataclass
class NamespaceHost:
    """One running host; see `port.Host`."""

    spec: HostSpec
    host_key: str
    pid: int | None
    metadata: socket.socket
    init: int  # the init's process id as the daemon sees it
    clock: Clock
    user: str = "root"

    async def connect(self) -> Streams:
        """A connection to its sshd."""
        return await asyncio.open_connection(address_of(self.spec.number), 22)

    def alive(self) -> bool:
        """Whether its init still runs."""
        return alive(self.init)

    async def kill(self) -> None:
        """SIGKILL to the init: the kernel ends its whole PID namespace; then the disk goes."""
        descriptor = os.pidfd_open(self.init) if alive(self.init) else None
        if descriptor is not None:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            await asyncio.wait_for(readable(descriptor), _KILL_S)
            os.close(descriptor)
        self.metadata.close()
        shutil.rmtree(self.spec.directory, ignore_errors=True)

    def cut(self, on: bool) -> None:
        """Take its link off the bridge, or put it back: packets are lost silently both ways."""
        netlink.set_master(_link(self.spec.number), None if on else BRIDGE)


@dataclass
class Namespaces:
    """Makes namespace hosts; see `port.HostKind`. Create it in the daemon, inside its own namespaces."""

    directory: Path
    store: Path
    authorized_key: str
    machine_network: int  # descriptor of the machine's network namespace
    server: sshd.Sshd
    binds: tuple[rootfs.Bind, ...]
    clock: Clock
    mode: Mode = "namespaces"
    _full: bool = field(default=False, init=False)

    def open(self) -> None:
        """Set up what all hosts share: the bridge, the store's mount, links to sshd's libraries."""
        netlink.set_up("lo")
        netlink.add_bridge(BRIDGE, netlink.mac_of(GATEWAY))
        netlink.add_address(BRIDGE, GATEWAY, PREFIX)
        self.store.mkdir(parents=True, exist_ok=True)
        syscalls.bind(self.store, self.store, read_only=False)
        syscalls.mount("none", self.store, flags=syscalls.MS_SHARED)
        sshd.link_libraries(self.server, self._libraries)
        _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    @property
    def _libraries(self) -> Path:
        return self.directory / "sshd-libraries"

    def metrics_socket(self) -> socket.socket:
        """Listens at the gateway's address, inside the fleet's network."""
        return listening(GATEWAY, METRICS_PORT)

    def ssh_socket(self) -> socket.socket:
        """A free port of the machine's 127.0.0.1, opened from inside by `setns`."""
        with syscalls.inside_network_of(self.machine_network):
            return bound_to_free_port()

    async def make(self, spec: HostSpec) -> Host:
        """Build its tree, start its init, connect it, wait for its SSH banner."""
        root = spec.directory / "root"
        host_key = self._build(spec, root)
        birth = Birth(spec.name, root, self._all_binds(), self.server, spec.directory / "init.log")
        init, go = birth.start()
        try:
            metadata = self._connect(spec, init)
            os.write(go, b"go")
        finally:
            os.close(go)
        host = NamespaceHost(spec, host_key, machine_pid(init), metadata, init, self.clock)
        try:
            await self._wait_for_banner(host)
        except BaseException:
            await host.kill()
            raise
        return host

    def _build(self, spec: HostSpec, root: Path) -> str:
        address = address_of(spec.number)
        rootfs.build(root, spec.name, f"127.0.0.1 localhost\n{address} {spec.name}\n{GATEWAY} gateway\n")
        host_key = sshd.new_key(root / "etc/ssh/ssh_host_ed25519_key", spec.name)
        (root / "etc/ssh/authorized_keys").write_text(self.authorized_key + "\n")
        (root / "etc/ssh/sshd_config").write_text(
            sshd.configuration(self.server, address, session_environment())
        )
        return host_key

    def _all_binds(self) -> tuple[rootfs.Bind, ...]:
        tree: tuple[rootfs.Bind, ...] = ()
        if self.server.tree is not None:
            tree = (rootfs.Bind(self.server.tree, target=sshd.TREE),)
            tree += (rootfs.Bind(self._libraries, target=sshd.LIBRARIES),)
        return (*self.binds, *tree, rootfs.Bind(self.store, read_only=False))

    def _connect(self, spec: HostSpec, init: int) -> socket.socket:
        """Give the host its link and addresses; returns its listening metadata socket."""
        address = address_of(spec.number)
        netlink.add_veth(
            _link(spec.number), master=BRIDGE, peer="eth0", peer_mac=netlink.mac_of(address), peer_pid=init
        )
        netlink.add_neighbour(BRIDGE, address, netlink.mac_of(address))
        descriptor = os.pidfd_open(init)
        try:
            with syscalls.inside_network_of(descriptor):
                for name in ("lo", "eth0"):
                    netlink.set_up(name)
                netlink.add_address("eth0", address, PREFIX)
                netlink.add_address("lo", METADATA_ADDRESS, 32)
                netlink.add_neighbour("eth0", GATEWAY, netlink.mac_of(GATEWAY))
                return listening(METADATA_ADDRESS, 80)
        finally:
            os.close(descriptor)

    async def _wait_for_banner(self, host: NamespaceHost) -> None:
        deadline = self.clock.monotonic() + _START_S
        while self.clock.monotonic() < deadline:
            if not alive(host.init):
                log = (host.spec.directory / "init.log").read_text(errors="replace").strip()
                last = log.splitlines()[-1] if log else "its init ended without a word"
                raise ReprieveError(f"practice host {host.spec.name} did not start: {last}")
            try:
                reader, writer = await host.connect()
            except OSError:
                await self.clock.pause(0.02)
                continue
            try:
                banner = await asyncio.wait_for(reader.readline(), 5.0)
            except TimeoutError:
                banner = b""
            finally:
                writer.close()
            if banner.startswith(b"SSH-"):
                return
            await self.clock.pause(0.02)
        raise ReprieveError(f"practice host {host.spec.name}: no SSH banner within {_START_S:.0f} s")

    def fill_store(self, on: bool) -> None:
        """Lay a full file system over the store, as hosts see it: reads go through, every write is ENOSPC."""
        if on == self._full:
            return
        if not on:
            syscalls.unmount(self.store)
            syscalls.unmount(self.directory / "full")
            self._full = False
            return
        _mount_full(self.directory / "full", self.store)
        self._full = True


def _mount_full(place: Path, store: Path) -> None:
    place.mkdir(exist_ok=True)
    syscalls.mount("tmpfs", place, "tmpfs", data="size=64k,nr_inodes=64,mode=700")
    for name in ("upper", "work"):
        (place / name).mkdir()
    try:
        options = f"lowerdir={store},upperdir={place / 'upper'},workdir={place / 'work'}"
        syscalls.mount("overlay", store, "overlay", data=options)
    except OSError as error:
        syscalls.unmount(place)
        raise UsageError(f"the practice store cannot be made full here: {error}") from None
    for size in (4096, 0):  # first no byte is left, then no name
        try:
            for number in range(1000):
                (place / f"filler-{size}-{number}").write_bytes(b"\0" * size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def session_environment() -> dict[str, str]:
    """What SSH sessions on a namespace host find in their environment; `python3` is the one that runs us."""
    binaries = dict.fromkeys((f"{sys.prefix}/bin", f"{sys.base_prefix}/bin"))
    path = ":".join(
        [*binaries, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    )
    return {"PATH": path, "LANG": "C.UTF-8", "REPRIEVE_METADATA_URL": f"http://{METADATA_ADDRESS}"}


def _link(number: int) -> str:
    return f"veth{number}"
