"""Which nodes could take a checkpoint, asked before the reclaim; and what is set aside is kept with its reason."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.errors import IncompatibleError, UsageError
from backends.fakes.clock import run
from backends.records import strict
from backends.records.facts import Criu, Facts, Gpu
from backends.records.fingerprint import fingerprint_of
from console.operations import api
from console.operations.flows.fits import fits
from console.operations.real.opening import gate
from tests.support.operations import Practice

GIB = 1 << 30


def gpu_facts(model: str, count: int, driver: str = "570.211.01", mig: bool = False) -> Facts:
    gpu = Gpu(0, "GPU-1", model, 80 * GIB, 79 * GIB, mig, (), "9.0")
    return Facts(
        time="2026-12-01T00:00:00Z", wall_s=0.0, arch="x86_64", cpu_flags=("avx2",), kernel="6.8.0", libc="glibc 2.36",
        memory_available_bytes=900 * GIB, staging_free_bytes=900 * GIB, criu=Criu("/c", "4.2", True), uid=0,
        cgroup_version=2, lsm=(), gpus=(gpu,) * count, driver=driver,
    )  # fmt: skip


@pytest.fixture
def practice(tmp_path: Path) -> Practice:
    return Practice(tmp_path, nodes=7)


def test_a_fleet_of_mixed_gpus(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    facts = {
        "n0": gpu_facts("NVIDIA H100 80GB HBM3", 8),
        "n1": gpu_facts("NVIDIA H100 80GB HBM3", 8),
        "n2": gpu_facts("NVIDIA B200", 8),
        "n3": gpu_facts("NVIDIA H100 80GB HBM3", 4),
        "n4": gpu_facts("NVIDIA H100 80GB HBM3", 8, driver="580.1"),
        "n5": gpu_facts("NVIDIA H100 80GB HBM3", 8, mig=True),
        "n6": gpu_facts("NVIDIA H100 80GB HBM3", 8),
    }
    for name, each_facts in facts.items():
        practice.nodes[name].facts = strict.to_document(each_facts)
    practice.nodes["n6"].partitioned = True
    needs = {"memory_needed_bytes": 100 * GIB, "gpu_memory_needed_bytes": 600 * GIB, "disk_needed_bytes": GIB}
    made = fingerprint_of(facts["n0"], engine="criu", gpus=facts["n0"].gpus, files={}, **needs)  # type: ignore[arg-type]  # sizes by name
    book = practice.book.saves[job.uid]
    for key, save in book.items():
        book[key] = replace(save, fingerprint=strict.to_document(made))
    fleet = practice.fleet()
    fleet.gate = gate
    save, found = run(practice.clock, fits(fleet, job))
    words = {each.candidate.name: (each.word, each.reason) for each in found}
    assert save.checkpoint == "1.1"
    assert words["n1"][0] == "fits_with_warnings", "its files were not looked at"
    assert words["n0"][1].startswith("the job runs here now")
    for node, (said, here) in {
        "n2": ("NVIDIA H100 80GB HBM3", "NVIDIA B200"),
        "n3": ("8 in the save", "4 on this node"),
        "n4": ("570.211.01", "580.1"),
        "n5": ("off in the save", "on on this node"),
    }.items():
        assert words[node][0] == "refused", node
        assert said in words[node][1]
        assert here in words[node][1]
    assert words["n6"][0] == "unknown"
    assert [each.word for each in found] == sorted(
        (each.word for each in found), key=["fits", "fits_with_warnings", "unknown", "refused"].index
    )
    rows = {row["property"]: row for row in found[-1].candidate.rows}
    assert rows["gpu_model"]["saved"]
    assert practice.world.starts(job.uid, 2) == 0, "nothing was begun"


def test_a_job_without_a_checkpoint_has_nothing_that_could_fit(practice: Practice) -> None:
    job = practice.running_job("train", "n0", saves=0)
    with pytest.raises(IncompatibleError, match="no usable checkpoint"):
        run(practice.clock, fits(practice.fleet(), job))
    with pytest.raises(IncompatibleError, match=r"no usable checkpoint 7\.1"):
        run(practice.clock, fits(practice.fleet(), job, "7.1"))


def test_cordoned_and_noticed_nodes_are_refused_by_name(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    practice.records.put_node(dataclasses.replace(practice.records.nodes()["n1"], cordoned=True))
    practice.nodes["n2"].notice = "notice"
    _, found = run(practice.clock, fits(practice.fleet(), job))
    words = {each.candidate.name: (each.word, each.reason) for each in found}
    assert words["n1"][0] == words["n2"][0] == "refused"
    assert "cordoned" in words["n1"][1]
    assert "announced" in words["n2"][1]
    assert words["n3"] == ("fits", "")


def restore(practice: Practice, **arguments: Any) -> api.Outcome:
    return run(
        practice.clock, api.perform(practice.fleet(), "jobs restore", {"name": "train", **arguments}, print)
    )


def test_a_refusal_is_set_aside_item_by_item_and_the_reason_is_kept(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    for node in practice.nodes.values():
        node.facts = {"arch": "x86_64", "kernel": "5.4"}
    practice.reclaim("n0")
    with pytest.raises(IncompatibleError, match=r"kernel: 6\.1 in the save, 5\.4 on this node"):
        restore(practice)
    result = restore(practice, force=["kernel=tried by hand on n1"])
    assert [epoch for _, epoch in practice.where(job.uid)] == [2]
    assert any("kernel set aside" in note and "tried by hand" in note for note in result.document["notes"])
    ledger = practice.fleet().ledger
    words = [word for word in ledger.words() if word.kind == "accept"]
    assert len(words) == 1, "told once, not at every look"
    assert "tried by hand on n1" in words[0].text
    assert [event.kind for _, event in ledger.events()].count("restore.override") == 1


@pytest.mark.parametrize(
    ("force", "message"),
    [("kernel", "reason"), ("gpu_model=never mind", "cannot be set aside"), ("colour=blue", "not one of")],
)
def test_what_cannot_be_set_aside_is_refused_before_anything_is_done(
    practice: Practice, force: str, message: str
) -> None:
    job = practice.running_job("train", "n0")
    practice.reclaim("n0")
    with pytest.raises(UsageError, match=message):
        restore(practice, force=[force])
    assert practice.side.newest_epoch(job.uid) == 1
