"""Links, addresses and neighbours through the kernel's rtnetlink socket: no `ip` tool is needed.

Message layouts are those of linux/rtnetlink.h, linux/if_link.h and linux/veth.h. Each function acts in the network
namespace of the calling thread and raises OSError naming what was tried.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct

_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_EXCL, _NLM_F_CREATE, _NLM_F_REPLACE = 1, 4, 0x200, 0x400, 0x100
_NLMSG_ERROR = 2
_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWNEIGH = 16, 20, 28
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_PID = 1, 3, 10, 18, 19
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_NDA_DST, _NDA_LLADDR = 1, 2
_NUD_PERMANENT = 0x80
_IFF_UP = 1


def _attribute(kind: int, payload: bytes) -> bytes:
    length = 4 + len(payload)
    return struct.pack("=HH", length, kind) + payload + b"\0" * (-length % 4)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _link_header(index: int = 0, *, up: bool = False) -> bytes:
    flags = _IFF_UP if up else 0
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


def _ask(kind: int, flags: int, body: bytes, what: str) -> None:
    """Send one request and wait for its acknowledgement."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as sock:
        sock.settimeout(10.0)
        sock.bind((0, 0))
        header = struct.pack("=IHHII", 16 + len(body), kind, flags | _NLM_F_REQUEST | _NLM_F_ACK, 1, 0)
        sock.send(header + body)
        answer = sock.recv(65536)
    _length, answer_kind, _flags, _sequence, _pid = struct.unpack_from("=IHHII", answer)
    if answer_kind != _NLMSG_ERROR:
        raise OSError(f"{what}: unexpected netlink answer {answer_kind}")
    (code,) = struct.unpack_from("=i", answer, 16)
    if code != 0:
        raise OSError(-code, f"{what}: {os.strerror(-code)}")


def mac_of(address: str) -> bytes:
    """The link-layer address this fleet gives to an IPv4 address: locally administered, so never a real card's."""
    return b"\x02\x52" + ipaddress.IPv4Address(address).packed


def add_bridge(name: str, mac: bytes) -> None:
    """Create a bridge and bring it up."""
    info = _attribute(_IFLA_LINKINFO, _text(_IFLA_INFO_KIND, "bridge"))
    body = _link_header(up=True) + _text(_IFLA_IFNAME, name) + _attribute(_IFLA_ADDRESS, mac) + info
    _ask(_RTM_NEWLINK, _NLM_F_CREATE | _NLM_F_EXCL, body, f"add bridge {name}")


def add_veth(name: str, *, master: str, peer: str, peer_mac: bytes, peer_pid: int) -> None:
    """Create a pair: `name` here, up, on bridge `master`; `peer` in the network namespace of process `peer_pid`."""
    other = (
        _link_header()
        + _text(_IFLA_IFNAME, peer)
        + _attribute(_IFLA_ADDRESS, peer_mac)
        + _number(_IFLA_NET_NS_PID, peer_pid)
    )
    data = _attribute(_IFLA_INFO_DATA, _attribute(_VETH_INFO_PEER, other))
    info = _attribute(_IFLA_LINKINFO, _text(_IFLA_INFO_KIND, "veth") + data)
    body = _link_header(up=True) + _text(_IFLA_IFNAME, name)
    body += _number(_IFLA_MASTER, socket.if_nametoindex(master)) + info
    _ask(_RTM_NEWLINK, _NLM_F_CREATE | _NLM_F_EXCL, body, f"add link {name}")


def set_up(name: str) -> None:
    """Bring a link up."""
    _ask(_RTM_NEWLINK, 0, _link_header(socket.if_nametoindex(name), up=True), f"bring up {name}")


def set_master(name: str, master: str | None) -> None:
    """Put a link on a bridge, or take it off: frames from either side are then lost without a word."""
    index = socket.if_nametoindex(master) if master else 0
    body = _link_header(socket.if_nametoindex(name)) + _number(_IFLA_MASTER, index)
    _ask(_RTM_NEWLINK, 0, body, f"set master of {name}")


def add_address(name: str, address: str, prefix: int) -> None:
    """Give a link an IPv4 address; one that is there already is kept."""
    packed = ipaddress.IPv4Address(address).packed
    body = struct.pack("=BBBBi", socket.AF_INET, prefix, 0, 0, socket.if_nametoindex(name))
    body += _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)
    _ask(_RTM_NEWADDR, _NLM_F_CREATE | _NLM_F_REPLACE, body, f"add {address} to {name}")


def add_neighbour(name: str, address: str, mac: bytes) -> None:
    """Pin the link-layer address of a neighbour, so that a cut link is silence and not "no route to host"."""
    packed = ipaddress.IPv4Address(address).packed
    body = struct.pack("=BxxxiHBB", socket.AF_INET, socket.if_nametoindex(name), _NUD_PERMANENT, 0, 0)
    body += _attribute(_NDA_DST, packed) + _attribute(_NDA_LLADDR, mac)
    _ask(_RTM_NEWNEIGH, _NLM_F_CREATE | _NLM_F_REPLACE, body, f"pin neighbour {address}")
