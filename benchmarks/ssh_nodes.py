"""Nodes for the console's benchmark: one SSH server that answers for many, some of which never do.

`python -m benchmarks.ssh_nodes COUNT HANGING FOLDER` writes the fleet's file into FOLDER, says `ready`, and serves
until its stdin ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backends.clock import SystemClock, format_utc


def context_of(folder: Path) -> dict[str, Any]:
    """The poller's first line for the fleet in `folder`."""
    from console.operations.context import Context
    from console.poller.child import context_document

    return context_document(Context("bench", folder / "fleet.toml", folder / "state", folder / "cache"))


def status_of(name: str) -> bytes:
    """What the guard of a node without jobs says."""
    now = format_utc(SystemClock().wall())
    document = {
        "guard": f"g-{name}", "node": name, "boot_id": "b", "time": now, "uptime_s": 1.0, "notice": "none",
        "notice_deadline_s": None, "jobs": [], "events_next": 0, "version": "0", "bundle": "0",
    }  # fmt: skip
    return json.dumps(document).encode() + b"\n"


async def serve(count: int, hanging: int, folder: Path) -> None:
    """Listen, write the fleet's file, answer."""
    import asyncssh

    key = asyncssh.generate_private_key("ssh-ed25519")
    client = asyncssh.generate_private_key("ssh-ed25519")
    client.write_private_key(folder / "key")
    (folder / "key").chmod(0o600)
    trusted = asyncssh.import_authorized_keys(client.export_public_key().decode())
    silent = {f"node-{n:05d}" for n in range(count) if hanging and n % (count // hanging) == 3}

    async def answer(process: Any) -> None:
        name, verb = process.get_extra_info("username"), (process.command or "").rsplit(maxsplit=1)[-1]
        if name in silent:
            await asyncio.Event().wait()
        if verb == "attend":
            async for _ in process.stdin:
                process.stdout.write(status_of(name))
            process.exit(0)
            return
        await process.stdin.read()
        process.stdout.write(status_of(name) if verb == "status" else b"{}\n")
        process.exit(0)

    acceptor = await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[key], authorized_client_keys=trusted, process_factory=answer,
        encoding=None, allow_pty=False, backlog=1024,
    )  # fmt: skip
    pinned = " ".join(key.export_public_key().decode().split()[:2])
    nodes = [
        f'[nodes.node-{n:05d}]\nssh = "node-{n:05d}@127.0.0.1:{acceptor.get_port()}"\n'
        f'identity_file = "{folder / "key"}"\nhost_key = "{pinned}"\n'
        for n in range(count)
    ]
    (folder / "fleet.toml").write_text("\n".join(nodes), encoding="utf-8")
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextlib.contextmanager
def nodes(count: int, hanging: int) -> Iterator[Path]:
    """The folder of a fleet whose nodes are served by a process of its own."""
    with tempfile.TemporaryDirectory(prefix="reprieve-bench-") as name:
        argv = [sys.executable, "-m", "benchmarks.ssh_nodes", str(count), str(hanging), name]
        quiet = subprocess.DEVNULL  # it tells of each connection that a poller drops
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True
        ) as server:
            try:
                if server.stdout is None or server.stdout.readline() != "ready\n":
                    raise RuntimeError("the SSH server of the benchmark did not start")
                yield Path(name)
            finally:
                server.kill()


if __name__ == "__main__":
    from console.poller.child import many_files

    many_files()
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
    os._exit(0)
