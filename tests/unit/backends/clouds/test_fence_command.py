"""A fence command proves an end only by its status; everything else is unknown."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from backends.clouds.commands import run_command
from backends.clouds.fence import FencedCloud, can_end
from backends.clouds.port import InstanceState
from backends.errors import UnreachableError
from backends.fakes.clock import FakeClock
from backends.fakes.cloud import FakeCloud
from backends.records.node import Node

SWITCH = """#!/bin/sh
# A power switch whose state is a file; the words it was given are kept.
echo "$REPRIEVE_NODE $*" >> "$0.log"
case "$2" in
  off) rm -f "$0.on"; echo "the switch says yes" ;;
  status) if [ -e "$0.on" ]; then echo on; else echo OFF; echo details; fi ;;
  *) exit 2 ;;
esac
"""


@pytest.fixture
def switch(tmp_path: Path) -> Path:
    path = tmp_path / "switch"
    path.write_text(SWITCH)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    path.with_name("switch.on").touch()
    return path


def node(*argv: str) -> Node:
    return Node("gpu-a", "root@gpu-a", fence=argv, instance=None)


def test_a_real_command_turns_it_off_and_confirms_it(switch: Path) -> None:
    clock = FakeClock()
    cloud, target = FencedCloud(clock, None), node(str(switch), "outlet-4")
    assert cloud.instance(target).state == "running"
    assert can_end(cloud, target)
    cloud.terminate(target)
    said = cloud.instance(target)
    assert said.state == "stopped"
    assert said.source == f"fence command {switch}"
    log = switch.with_name("switch.log").read_text().splitlines()
    assert log == [f"gpu-a outlet-4 {word}" for word in ("status", "off", "status")]
    cloud.instance(target)
    assert len(switch.with_name("switch.log").read_text().splitlines()) == 3, "asked again only after a while"
    clock.advance(11)
    cloud.instance(target)
    assert len(switch.with_name("switch.log").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ((0, "off"), "stopped"),
        ((0, "On\nmore"), "running"),
        ((1, "off"), "unknown"),
        ((0, ""), "unknown"),
        ((0, "power is off"), "unknown"),
        ((0, "\x1b[31moff"), "unknown"),
    ],
)
def test_only_a_plain_word_counts(answer: tuple[int, str], state: str) -> None:
    cloud = FencedCloud(FakeClock(), None, run=lambda argv, extra: answer)
    said = cloud.instance(node("switch"))
    assert said.state == state
    assert "\x1b" not in said.reason


def test_a_command_that_fails_says_so_in_one_line(switch: Path) -> None:
    cloud = FencedCloud(FakeClock(), None)
    assert cloud.instance(node("/nowhere/switch")).state == "unknown"
    with pytest.raises(UnreachableError, match="No such file"):
        cloud.terminate(node("/nowhere/switch"))
    with pytest.raises(UnreachableError, match="off: exit 2"):
        cloud.terminate(node(str(switch)))


def test_the_providers_proof_comes_first_and_its_silence_does_not_matter() -> None:
    clock = FakeClock()
    provider = FakeCloud(clock)
    target = Node("gpu-a", "root@gpu-a", "aws", instance="i-1", fence=("switch",))
    words = ["on"]
    cloud = FencedCloud(clock, provider, run=lambda argv, extra: (0, words[0]))
    provider.states["i-1"] = "terminated"
    assert cloud.instance(target).source == "fake"
    provider.silent, words[0] = True, "off"
    assert cloud.instance(target).state == "stopped"
    provider.silent, provider.states["i-1"], words[0] = False, "running", "garbage"
    clock.advance(20)
    assert cloud.instance(target) == InstanceState(
        "running", "told by the test", cloud.instance(target).asked_at, "fake"
    )


def test_output_is_bounded_and_a_lost_child_holds_nothing(tmp_path: Path) -> None:
    script = tmp_path / "loud"
    script.write_text("#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' x\nsleep 3 &\n")
    script.chmod(0o700)
    status, text = run_command((str(script), "status"), {})
    assert status == 0
    assert len(text) == 4096
