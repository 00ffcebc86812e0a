"""A shell on a node, by the `ssh` program of this machine; the console stands aside meanwhile."""

from __future__ import annotations

import shutil
import subprocess

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@:[]")


def argv(address: str) -> list[str]:
    """The command for `USER@HOST:PORT`, `HOST`, or an alias of ~/.ssh/config; agent and X11 are never forwarded."""
    host, _, port = address.rpartition(":")
    known = bool(host) and port.isdecimal() and not host.endswith(":")
    options = ["-o", "ForwardAgent=no", "-o", "ForwardX11=no"]
    where = host if known else address
    return ["ssh", *options, *(["-p", port] if known else []), "--", where.replace("[", "").replace("]", "")]


def why_not(address: str, *, suspends: bool) -> str | None:
    """Why no shell can be opened; None when it can."""
    if not suspends:
        return "shell: this terminal cannot be handed over"
    if not address or address.startswith("-") or not set(address) <= _PLAIN:
        return f"shell: {address!r} is no address that ssh can be given"
    return None if shutil.which("ssh") else "shell: the program ssh is not installed here"


def open_shell(address: str) -> int:
    """Run it in this terminal and return its exit status."""
    return subprocess.run(argv(address), check=False).returncode
