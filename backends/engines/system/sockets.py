"""Which sockets a process tree holds, from the kernel's tables and its socket diagnosis interface."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from backends.engines.proc import Tree

Family = Literal["tcp", "udp", "unix", "netlink", "packet", "other"]
_ESTABLISHED_OR_CLOSING = {"01", "02", "03", "04", "05", "06", "08", "09", "0B"}
_LISTEN = "0A"
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_DUMP_REQUEST = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_LOOPBACK6 = ("00000000000000000000000001000000",)
_SHOW_NAME_AND_PEER = 5
_UNIX_DIAG_PEER = 2


@dataclass(frozen=True)
class Socket:
    """One socket of the tree."""

    inode: int
    family: Family
    listening: bool = False
    connected: bool = False
    path: str = ""  # unix: the name in the file system, empty when unnamed or abstract
    datagram: bool = False
    outside_peer: bool = False  # unix: the other end belongs to no process of the tree
    address: str = ""  # inet: local address as the kernel prints it
    peer: str = ""  # inet: the other end's address


def tree_sockets(tree: Tree) -> tuple[Socket, ...]:
    """The sockets that the tree holds; those in none of the kernel's tables come as family `other`."""
    inodes = {d.inode for m in tree.members for d in m.descriptors if d.kind == "socket"}
    if not inodes:
        return ()
    pid = tree.root.outer_pid
    found: dict[int, Socket] = {}
    for table, family in (("tcp", "tcp"), ("tcp6", "tcp"), ("udp", "udp"), ("udp6", "udp")):
        for item in parse_inet(_table(pid, table), "tcp" if family == "tcp" else "udp"):
            found[item.inode] = item
    for item in parse_unix(_table(pid, "unix")):
        found[item.inode] = item
    for table, name in (("netlink", "netlink"), ("packet", "packet")):
        for inode in parse_last_column(_table(pid, table), column=9 if name == "netlink" else 8):
            found[inode] = Socket(inode, "netlink" if name == "netlink" else "packet")
    peers = unix_peers() if any(found.get(i, Socket(i, "other")).family == "unix" for i in inodes) else {}
    result = []
    for inode in sorted(inodes):
        item = found.get(inode, Socket(inode, "other"))
        peer = peers.get(inode, 0)
        result.append(_with_peer(item, peer, inodes))
    return tuple(result)


def among_themselves(sockets: Iterable[Socket]) -> bool:
    """Whether there are TCP connections, and all of them lead from this tree to itself over the loopback.

    Such can go on after a restore wherever that is: both ends come back, and every node has the address.
    """
    pairs = {(s.address, s.peer) for s in sockets if s.family == "tcp" and s.connected}
    return bool(pairs) and all((peer, own) in pairs and _loopback(own) for own, peer in pairs)


def by_own_address(sockets: Iterable[Socket]) -> bool:
    """Whether all TCP connections lead from this tree to itself, and one of them over an address of this node.

    No other node has the address, so they come back closed; over the loopback they would go on.
    """
    pairs = {(s.address, s.peer) for s in sockets if s.family == "tcp" and s.connected}
    inside = all((peer, own) in pairs for own, peer in pairs)
    return bool(pairs) and inside and not all(_loopback(own) for own, _ in pairs)


def _loopback(address: str) -> bool:
    """Whether an address of /proc/net/tcp or tcp6 is 127.x.y.z, ::1 or ::ffff:127.x.y.z (words of host order)."""
    if sys.byteorder != "little":
        return False
    number = address.partition(":")[0]
    return (
        (len(number) == 8 and number.endswith("7F"))
        or number in _LOOPBACK6
        or (number.startswith("0000000000000000FFFF0000") and number.endswith("7F"))
    )


def _with_peer(item: Socket, peer: int, inodes: set[int]) -> Socket:
    if item.family != "unix" or not peer:
        return item
    return Socket(
        item.inode, "unix", item.listening, True, item.path, item.datagram, outside_peer=peer not in inodes
    )


def _table(pid: int, name: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/net/{name}").read_text("utf-8", "surrogateescape").split("\n")[1:]
    except OSError:
        return []


def parse_inet(lines: list[str], family: Family) -> list[Socket]:
    """The lines of /proc/net/tcp, tcp6, udp or udp6 without their heading; odd lines are left out."""
    result = []
    for line in lines:
        words = line.split()
        if len(words) < 10 or not words[9].isdigit():
            continue
        listening = family == "tcp" and words[3] == _LISTEN
        connected = words[3] in _ESTABLISHED_OR_CLOSING
        result.append(Socket(int(words[9]), family, listening, connected, address=words[1], peer=words[2]))
    return result


def parse_unix(lines: list[str]) -> list[Socket]:
    """The lines of /proc/net/unix without their heading; odd lines are left out."""
    result = []
    for line in lines:
        words = line.split(maxsplit=7)
        if len(words) < 7 or not words[6].isdigit():
            continue
        path = words[7] if len(words) > 7 and not words[7].startswith("@") else ""
        listening = words[3] == "00010000"
        result.append(
            Socket(int(words[6]), "unix", listening, words[5] == "03", path, datagram=words[4] == "0002")
        )
    return result


def parse_last_column(lines: list[str], *, column: int) -> list[int]:
    """Inode numbers from `column` of /proc/net/netlink or packet."""
    rows = (line.split() for line in lines)
    return [int(words[column]) for words in rows if len(words) > column and words[column].isdigit()]


def listening_addresses(sockets: tuple[Socket, ...]) -> list[str]:
    """Local addresses of listening TCP sockets, as the kernel prints them (`0100007F:1F90`)."""
    return sorted({s.address for s in sockets if s.family == "tcp" and s.listening})


def port_of(address: str) -> int:
    """The port in an address as the kernel prints it; 0 for anything else."""
    text = address.rpartition(":")[2]
    try:
        return int(text, 16)
    except ValueError:
        return 0


def conflicts(addresses: list[str], lines: list[str]) -> tuple[set[int], set[int]]:
    """Ports of `addresses` that others listen on, and ports on which closed connections linger (about a minute).

    `lines` are those of /proc/net/tcp and tcp6. A conflict needs the same host part or a wildcard on either side.
    """
    taken: set[int] = set()
    lingering: set[int] = set()
    wanted = {port_of(a): a.rpartition(":")[0] for a in addresses if port_of(a)}
    for line in lines:
        words = line.split()
        if len(words) < 4 or (port := port_of(words[1])) not in wanted:
            continue
        host, ours = words[1].rpartition(":")[0], wanted[port]
        if words[3] != _LISTEN:
            lingering.add(port)
        elif host == ours or not host.strip("0") or not ours.strip("0"):
            taken.add(port)
    return taken, lingering


def node_conflicts(addresses: list[str]) -> tuple[set[int], set[int]]:
    """`conflicts` with this node's own network namespace."""
    pid = os.getpid()
    return conflicts(addresses, _table(pid, "tcp") + _table(pid, "tcp6"))


def unix_peers() -> dict[int, int]:
    """Inode of each connected unix socket → inode of its other end; empty when the kernel does not say."""
    request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, _SHOW_NAME_AND_PEER, 0, 0)
    header = struct.pack("=IHHII", 16 + len(request), _SOCK_DIAG_BY_FAMILY, _DUMP_REQUEST, 1, 0)
    peers: dict[int, int] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
            link.settimeout(2.0)
            link.send(header + request)
            while _read_messages(link.recv(1 << 16), peers):
                pass
    except OSError:
        return {}
    return peers


def _read_messages(data: bytes, peers: dict[int, int]) -> bool:
    """Take one datagram of answers into `peers`; False after the last one."""
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        if kind in (2, 3) or length < 16:  # error, done
            return False
        body = data[16:length]
        if len(body) >= 16:
            inode = struct.unpack_from("=I", body, 4)[0]
            peer = _attribute(body[16:], _UNIX_DIAG_PEER)
            if peer is not None and len(peer) == 4:
                peers[inode] = struct.unpack("=I", peer)[0]
        data = data[(length + 3) & ~3 :]
    return True


def _attribute(data: bytes, wanted: int) -> bytes | None:
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return None
        if kind == wanted:
            return data[4:length]
        data = data[(length + 3) & ~3 :]
    return None
