"""Real-world cases of areas compat, gpu and criu that the gate and the facts answer, by id."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from backends.compat import gate
from backends.records.facts import Criu, Facts, Gpu
from backends.records.fingerprint import Fingerprint
from backends.versions import numbers, older
from tests.support.nodes_cases import case

GIB = 1 << 30


def test_rc_11_targets_that_differ() -> None:
    data = case("RC-11")
    made = data["input"]["made_on"]
    saved = Fingerprint(
        arch=made["arch"],
        cpu_flags=tuple(made["cpu_flags"]),
        kernel=made["kernel"],
        criu=made["criu"],
        gpus=(Gpu(model=made["gpu_model"], mig=False),) * made["gpu_count"],
        driver=made["driver"],
        gpu_memory_needed_bytes=made["image_vram_gib"] * GIB,
    )
    property_of = {"n2": "gpu_model", "n3": "driver", "n4": "gpu_count", "n5": "cpu_features", "n6": "cpu_features",
                   "n7": "criu", "n8": "gpu_memory"}  # fmt: skip
    picked = []
    for found in data["input"]["candidates"]:
        free = found["free_vram_gib"] * GIB // found["gpu_count"]
        here = Facts(
            time="", wall_s=0.0, arch=found["arch"], cpu_flags=tuple(found["cpu_flags"]), kernel=made["kernel"], uid=0,
            criu=Criu("/c", found["criu"], True), driver=found["driver"],
            gpus=(Gpu(model=found["gpu_model"], mig=False, memory_free_bytes=free),) * found["gpu_count"],
        )  # fmt: skip
        result = gate(saved, here)
        name = found["node"]
        if result.fits:
            picked.append(name)
            continue
        row = {item.property: item for item in result.refusals}[property_of[name]]
        assert row.saved is not None
        assert row.here is not None
        assert row.saved.split(" needed")[0] in row.message
        if row.property == "cpu_features":
            assert ("avx512f" if name == "n5" else "erms") in row.message
        else:
            assert row.here.split(" available")[0] in row.message
    assert picked == [data["expected"]["picked"]]


def test_rc_08_driver_versions_are_texts() -> None:
    data = case("RC-08")
    known = [text for text in data["input"]["versions"] if numbers(text) and "-" not in text]
    ordered = sorted(known, key=lambda text: numbers(text) or ())
    assert all(older(one, other) for one, other in itertools.pairwise(ordered))
    assert ordered == data["expected"]["order"]
    assert [text for text in data["input"]["versions"] if numbers(text) is None] == data["expected"][
        "unknown"
    ]
    gpu = Gpu(model="NVIDIA H100 80GB HBM3", mig=False)
    saved = Fingerprint(gpus=(gpu,), driver="560.35.03")
    for here, fits in (
        ("560.35.03", "ok"),
        ("560.35.05", "refuse"),
        ("570.211.01-beta", "refuse"),
        (None, "refuse"),
    ):
        facts = Facts(time="", wall_s=0.0, gpus=(gpu,), driver=here)
        assert {row.property: row.verdict for row in gate(saved, facts).rows}["driver"] == fits
    beta = Facts(time="", wall_s=0.0, gpus=(gpu,), driver="570.211.01-beta")
    verdicts = {row.property: row.verdict for row in gate(replace(saved, driver="570.211.01"), beta).rows}
    assert verdicts["driver"] == "refuse"


def test_rc_09_a_partitioned_gpu_is_not_offered() -> None:
    data = case("RC-09")
    devices = data["expected"]["devices"]
    gpus = tuple(
        Gpu(index=item["gpu"], model="NVIDIA A100-SXM4-40GB", memory_bytes=None, mig=bool(item["mig"]))
        for item in devices
    )
    whole = tuple(replace(gpu, mig=False) for gpu in gpus)
    result = gate(
        Fingerprint(gpus=whole, driver="570.211.01"),
        Facts(time="", wall_s=0.0, gpus=gpus, driver="570.211.01"),
    )
    reason = {row.property: row for row in result.refusals}["gpu_mig"].message
    assert "nobody has shown yet" in reason


def test_rc_10_zero_gpus_and_unknown_gpus() -> None:
    data = case("RC-10")
    expected: dict[str, Any] = data["expected"]
    saved = Fingerprint(gpus=(Gpu(model="NVIDIA H100 80GB HBM3"),))
    placed = []
    for node, word in expected.items():
        if node == "gpu_jobs_placed_on":
            continue
        none_there = str(word).startswith("0 GPUs")
        facts = Facts(
            time="", wall_s=0.0, gpus=() if none_there else None, gpu_reason="" if none_there else str(word)
        )
        result = gate(saved, facts)
        row = {item.property: item for item in result.refusals}["gpu_model"]
        assert row.known == none_there
        assert none_there or str(word) in row.message
        placed += [node] if result.fits else []
    assert placed == expected["gpu_jobs_placed_on"]


def test_rc_34_criu_too_old_for_the_kernel() -> None:
    data = case("RC-34")["input"]
    facts = Facts(
        time="",
        wall_s=0.0,
        arch="x86_64",
        kernel=data["kernel"],
        uid=0,
        criu=Criu("/usr/sbin/criu", data["criu"], None, "not tried"),
    )
    saved = Fingerprint(arch="x86_64", kernel=data["kernel"], criu=data["criu"])
    row = {item.property: item for item in gate(saved, facts).refusals}["criu_ready"]
    assert "CRIU is too old here: CRIU 3.17.1 on kernel 6.18, at least 4.2 is needed" in row.message
    assert "criu_ready" not in {item.property for item in gate(replace(saved, engine="signal"), facts).rows}
