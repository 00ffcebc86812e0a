"""Writing records: read back equal, atomic, private, and never into a file of the user's own."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.errors import UsageError
from backends.inventory.load import load
from backends.inventory.save import add_node, put_job, remove_job, remove_node
from backends.records.job import Attach, Job
from backends.records.node import PROVIDERS, Node

_NODE = Node("gpu-a", "ubuntu@10.0.0.4:22", provider="aws", labels={"team": "ml"})
_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
_ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
_SECONDS = st.floats(min_value=0, max_value=1e9, allow_nan=False).filter(
    lambda value: value == 0 or value > 1e-9
)
_NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
_ATTACH = st.one_of(
    st.builds(Attach, pid=st.integers(1, 1 << 22)),
    st.builds(Attach, pid_file=_TEXT),
    st.builds(Attach, container=_TEXT),
    st.builds(Attach, slurm=st.integers(1, 1 << 31)),
)
_COMMON = {
    "name": _NAME,
    "node": _NAME,
    "uid": st.sampled_from(["", "abcdefghijklmnopqrst"]),
    "cwd": st.none() | _TEXT,
    "environment": st.dictionaries(_TEXT, _ANY, max_size=3),
    "engine": st.sampled_from(["auto", "criu", "signal"]),
    "store": st.sampled_from(["", "file:///srv/s", "s3://bucket/ä"]),
    "hours": st.none() | st.floats(min_value=1e-6, max_value=1e6),
    "interval_s": st.none() | _SECONDS.filter(lambda value: value > 0),
    "max_freeze_s": _SECONDS,
    "max_overhead": st.none() | st.floats(min_value=0, max_value=1),
    "max_store_usd_per_day": st.none() | st.floats(min_value=0, max_value=1e6),
    "deadline_at": st.none() | st.just("2026-12-05T00:00:00Z"),
    "files": st.lists(_TEXT.map(lambda text: "/" + text), max_size=3).map(tuple),
    "runtime": st.dictionaries(_TEXT, _ANY, max_size=2),
    "done_file": st.none() | _TEXT,
    "restore": st.sampled_from(["owned", "same-pool", "any-pool", "on-demand-after=2h"]),
    "priority": st.integers(-100, 100),
    "group": st.none() | _TEXT,
    "page_hash": st.sampled_from(["blake3", "xxh3"]),
    "on_isolated": st.sampled_from(["continue", "freeze"]),
    "lease_s": _SECONDS,
    "signal": st.sampled_from(["USR1", "TERM"]),
    "marker": st.none() | _TEXT,
    "resume": st.lists(_ANY, max_size=3).map(tuple),
    "rollback": st.booleans(),
    "accept_unproven": st.booleans(),
    "paused": st.booleans(),
    "stop_after_reclaims": st.none() | st.integers(0, 50),
    "discount": st.floats(min_value=0, max_value=0.99),
    "stop_when_unpaid": st.booleans(),
    "keep_last": st.integers(1, 50),
    "min_age_s": _SECONDS,
}
_JOBS = st.one_of(
    st.builds(Job, attach=st.none(), command=st.lists(_ANY, max_size=3).map(tuple), **_COMMON),
    st.builds(Job, attach=_ATTACH, command=st.just(()), **_COMMON),
)
_NODES = st.builds(
    Node,
    name=_NAME,
    ssh=st.sampled_from(["gpu-1", "ubuntu@10.0.0.4:2222", "fe80::1%eth0", "root@[2001:db8::7]:22"]),
    provider=st.sampled_from(PROVIDERS),
    pool=st.none() | _TEXT,
    instance=st.none() | _TEXT,
    identity_file=st.none() | _TEXT,
    host_key=st.none() | _TEXT,
    cordoned=st.booleans(),
    labels=st.dictionaries(_TEXT, _ANY, max_size=3),
    fence=st.lists(_ANY, max_size=3).map(tuple),
    on_unreachable=st.sampled_from(["wait", "terminate"]),
    terminate_after_s=_SECONDS.filter(lambda value: value >= 60),
)


@given(_JOBS)
@settings(max_examples=60, deadline=None)
def test_every_job_reads_back_equal(job: Job) -> None:
    with tempfile.TemporaryDirectory() as directory:
        put_job(Path(directory), job)
        assert load(Path(directory)).jobs == {job.name: job}


@given(_NODES)
@settings(max_examples=40, deadline=None)
def test_every_node_reads_back_equal(node: Node) -> None:
    with tempfile.TemporaryDirectory() as directory:
        add_node(Path(directory), node)
        assert load(Path(directory)).nodes == {node.name: node}


def test_files_are_private_and_alone(tmp_path: Path) -> None:
    path = add_node(tmp_path / "fleet", _NODE)
    assert path == tmp_path / "fleet" / "nodes" / "gpu-a.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["gpu-a.toml"]


def test_beside_a_single_file(tmp_path: Path) -> None:
    single = tmp_path / "fleet.toml"
    assert add_node(single, _NODE) == tmp_path / "fleet.toml.d" / "nodes" / "gpu-a.toml"
    assert list(load(single).nodes) == ["gpu-a"]


def test_a_node_is_added_once_and_replaced_on_demand(tmp_path: Path) -> None:
    add_node(tmp_path, _NODE)
    with pytest.raises(UsageError, match="node 'gpu-a' exists already"):
        add_node(tmp_path, _NODE)
    add_node(tmp_path, replace(_NODE, cordoned=True), replace=True)
    assert load(tmp_path).node("gpu-a").cordoned


def test_removed_records_are_gone(tmp_path: Path) -> None:
    add_node(tmp_path, _NODE)
    put_job(tmp_path, Job("j", "gpu-a"))
    put_job(tmp_path, Job("j", "gpu-a", priority=3))
    assert load(tmp_path).job("j").priority == 3
    remove_job(tmp_path, "j")
    remove_node(tmp_path, "gpu-a")
    assert (load(tmp_path).nodes, load(tmp_path).jobs) == ({}, {})
    with pytest.raises(UsageError, match="not in the fleet"):
        remove_node(tmp_path, "gpu-a")


@pytest.mark.parametrize("place", ["mine.toml", "nodes/gpu-a.toml"])
def test_a_users_own_file_is_never_rewritten(tmp_path: Path, place: str) -> None:
    own = tmp_path / place
    own.parent.mkdir(exist_ok=True)
    own.write_text('[nodes.gpu-a]  # mine\nssh = "a"\n[jobs.j]\nnode = "gpu-a"\n', "utf-8")
    before = own.read_bytes()
    acts: list[Callable[[], Path]] = [
        lambda: add_node(tmp_path, _NODE, replace=True),
        lambda: put_job(tmp_path, Job("j", "gpu-a")),
        lambda: remove_node(tmp_path, "gpu-a"),
        lambda: remove_job(tmp_path, "j"),
    ]
    for act in acts:
        with pytest.raises(UsageError, match=r"a file of your own, which is never rewritten") as caught:
            act()
        assert str(own) in caught.value.message
    assert own.read_bytes() == before
    assert sorted(path.name for path in tmp_path.rglob("*.toml")) == [own.name]


def test_a_file_that_a_person_wrote_where_ours_would_stand_is_theirs(tmp_path: Path) -> None:
    own = tmp_path / "nodes" / "gpu-a.toml"
    own.parent.mkdir()
    own.write_text('[nodes.gpu-a]\nssh = "a"\n', "utf-8")
    assert not load(tmp_path).ours("nodes", "gpu-a")
    with pytest.raises(UsageError, match="a file of your own"):
        remove_node(tmp_path, "gpu-a")
    own.unlink()
    add_node(tmp_path, _NODE)
    assert load(tmp_path).ours("nodes", "gpu-a")


def test_a_failed_write_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put_job(tmp_path, Job("j", "gpu-a", priority=1))

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"j\.toml cannot be written: No space left on device"):
        put_job(tmp_path, Job("j", "gpu-a", priority=2))
    assert load(tmp_path).job("j").priority == 1
    assert [entry.name for entry in path.parent.iterdir()] == ["j.toml"]


def test_text_that_toml_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not valid text"):
        put_job(tmp_path, Job("j", "gpu-a", cwd="/data/\udcff"))
