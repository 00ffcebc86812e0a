"""The built-in transports: what is run, and a real SSH handshake through a stand-in for the providers' tools."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends.errors import UnreachableError, UsageError
from backends.nodes.route import route_to
from backends.nodes.transports import check_tool, read
from backends.records.node import Node
from tests.support.sshnodes import Fleet

SSM, IAP = "aws-ssm:us-east-1/i-0123456789abcdef0", "gcp-iap:ml-p/us-central1-a/gpu-a"
# What the tools do: stdin and stdout are the tunnel. It writes down how it was called.
_TOOL = """#!{python}
import json, os, pathlib, socket, sys, threading
pathlib.Path({log!r}).write_text(json.dumps(sys.argv))
peer = socket.create_connection(("127.0.0.1", {port}))
def back():
    while data := peer.recv(65536):
        os.write(1, data)
    os._exit(0)
threading.Thread(target=back, daemon=True).start()
while data := os.read(0, 65536):
    peer.sendall(data)
"""


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with Fleet(tmp_path) as made:
        yield made


def tool(directory: Path, name: str, port: int) -> Path:
    """A stand-in for `name`, which leads to `port`; where it notes its arguments."""
    log = directory / f"{name}.json"
    path = directory / name
    path.write_text(_TOOL.format(python=sys.executable, log=str(log), port=port))
    path.chmod(0o755)
    return log


@pytest.mark.parametrize("text", [SSM, IAP])
async def test_a_node_is_reached_through_the_tunnel_and_its_host_key_is_checked(
    text: str, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, other = await fleet.host(), await fleet.host()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    log = tool(tmp_path, "aws" if text == SSM else "gcloud", host.port)
    node = fleet.node(host, ssh=f"ubuntu@{text}")
    answer = await (await fleet.pool.link(node)).call("status", {}, timeout_s=10)
    assert answer["verb"] == "status"
    assert host.logins == ["ubuntu"]
    argv = json.loads(log.read_text())[1:]
    assert argv == list(read(text).command(22)[1:])
    wrong = fleet.node(host, ssh=f"ubuntu@{text}", name="n9", host_key=other.line)
    with pytest.raises(Exception, match="host key"):
        await (await fleet.pool.link(wrong)).call("status", {}, timeout_s=10)


def test_what_is_run_is_fixed_but_for_names_that_were_checked() -> None:
    assert read(SSM).command(22) == (
        "aws", "ssm", "start-session", "--target", "i-0123456789abcdef0", "--document-name", "AWS-StartSSHSession",
        "--parameters", "portNumber=22", "--region", "us-east-1",
    )  # fmt: skip
    assert read(IAP).command(2222) == (
        "gcloud", "compute", "start-iap-tunnel", "gpu-a", "2222", "--listen-on-stdin", "--project=ml-p", "--zone=us-central1-a",
        "--verbosity=warning",
    )  # fmt: skip
    for text in (
        "aws-ssm:i-1",
        "aws-ssm:--region/i-0123456789",
        "aws-ssm:x;id",
        "gcp-iap:p/z",
        "gcp-iap:ml-p/us-a/-x",
        "gcp-iap:a/b/c/d",
    ):
        with pytest.raises(UsageError, match="is expected"):
            read(text)


def test_settings_of_ssh_config_hold_but_not_another_way(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "Host i-*\n User ec2-user\n Port 2200\n HostName evil\n ProxyCommand sh -c id\n ProxyJump gate\n"
    )
    (hop,) = route_to(Node("n", SSM, "aws"), config).hops
    assert (hop.host, hop.user, hop.port) == ("i-0123456789abcdef0", "ec2-user", 2200)
    assert "portNumber=2200" in hop.tunnel
    (hop,) = route_to(Node("n", f"me@{IAP}", "gcp"), None).hops
    assert (hop.host, hop.user) == ("gpu-a.us-central1-a.ml-p", "me")


async def test_a_tool_that_is_missing_or_fails_is_told_in_one_line(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await fleet.host()
    node = fleet.node(host, ssh=f"u@{SSM}")
    with pytest.raises(UsageError, match="aws is not installed"):
        check_tool(read(SSM).command(22), lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="aws is not installed"):
        await (await fleet.pool.link(node)).call("status", {}, timeout_s=10)
    (tmp_path / "aws").write_text("#!/bin/sh\nexit 255\n")
    (tmp_path / "aws").chmod(0o755)
    with pytest.raises(UnreachableError, match="cannot be reached"):
        await (await fleet.pool.link(fleet.node(host, ssh=f"u@{SSM}", name="n8"))).call(
            "status", {}, timeout_s=10
        )
