"""`reprieve fleet discover aws` against moto's EC2 and a fleet of fakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.clouds.aws.calls import client
from backends.clouds.port import Found
from backends.errors import UnreachableError
from backends.records.node import Node
from console.cli import run as command_line
from console.cli import session
from console.cli.commands.fleet_discover import planned
from tests.support.motoserver import REGION, launch, moto_server
from tests.support.operations import Practice

WORDS = ("fleet", "discover", "aws", "--region", REGION, "--tag", "team=ml", "--user", "ubuntu")


@pytest.fixture
def ec2() -> Iterator[Any]:
    with moto_server():
        yield client("ec2", REGION)


def test_new_instances_are_added_once_and_a_silent_one_is_not(
    ec2: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    practice = Practice(tmp_path)
    for name in ("STATE", "CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))

    class Installer:
        silent: tuple[str, ...] = ()

        async def pin(self, node: Node) -> tuple[Node, str]:
            if node.instance in self.silent:
                raise UnreachableError(f"node {node.name} does not answer")
            return Node(**{**node.__dict__, "host_key": "ssh-ed25519 AAAA"}), "host key SHA256:x"

    installer = Installer()

    def opened(context: Any, clock: Any, role: str, *, version: str) -> Any:
        fleet = practice.fleet(role)
        fleet.installer = installer  # type: ignore[assignment]  # only `pin` is asked for here
        return fleet

    monkeypatch.setattr(session, "open_fleet", opened)

    def run(*words: str) -> tuple[int, Any]:
        code = command_line.run([*WORDS, *words, "-o", "json"])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else None

    first, second = launch(ec2, spot=True, Name="trainer 0", team="ml"), launch(ec2, spot=False, team="ml")
    assert run("--dry-run")[0] == 0
    assert "trainer-0" not in practice.records.nodes()
    assert run("--no-input")[0] == 9
    installer.silent = (second,)
    code, document = run("--yes")
    states = {row["instance"]: row["state"] for row in document["items"]}
    assert (code, states) == (3, {first: "added", second: "failed"})
    node = practice.records.nodes()["trainer-0"]
    assert (node.provider, node.pool, node.instance) == ("aws", f"aws/{REGION}/g5.xlarge/linux", first)
    assert node.ssh.startswith("ubuntu@")
    assert (node.host_key, node.labels) == ("ssh-ed25519 AAAA", {"lifecycle": "spot"})
    installer.silent = ()
    code, document = run("--yes")
    states = {row["instance"]: row["state"] for row in document["items"]}
    assert (code, states) == (0, {first: "known", second: "added"})
    code, document = run("--yes")
    assert (code, {row["state"] for row in document["items"]}) == (0, {"known"})
    assert command_line.run([*WORDS[:5], "--tag", "team", "--yes"]) == 2


def found(instance: str, name: str, **changes: Any) -> Found:
    base: dict[str, Any] = {
        "pool": "aws/r/t/linux",
        "zone": "ra",
        "spot": True,
        "state": "running",
        "private_address": "10.0.0.1",
    }
    return Found(instance, name, **{**base, **changes})


def test_names_are_made_fit_and_never_taken_twice() -> None:
    rows = planned(
        [found("i-0000000a", "gpu"), found("i-0000000b", "gpu"), found("i-0000000c", "-\n; rm -rf /"), found("i-0000000d", "")],
        {"gpu": Node("gpu", "x")}, None, None, None,
    )  # fmt: skip
    names = [node.name for _, node in rows if node is not None]
    assert sorted(names) == ["gpu-0000000a", "gpu-0000000b", "i-0000000d", "rm--rf"]


def test_what_cannot_be_used_is_skipped_with_the_reason() -> None:
    rows = planned([found("i-1", "a", pool="aws/r/t/windows"), found("i-2", "b")], {}, "me", "public", None)
    assert [(row["state"], node) for row, node in rows] == [("skipped", None), ("skipped", None)]
    ((row, node),) = planned([found("i-3", "c", public_address="1.2.3.4")], {}, "me", "private", None)
    assert node is not None
    assert node.ssh == "me@10.0.0.1"
    assert row["node"] == "c"
