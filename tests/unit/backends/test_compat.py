"""The gate: every row with its message, both values named, unknown never fine, overrides with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.compat import FIRM, PROPERTIES, gate
from backends.errors import UsageError
from backends.records import strict
from backends.records.facts import Criu, Facts, FileIdentity, Gpu, Image
from backends.records.fingerprint import Fingerprint, fingerprint_of, read_fingerprint
from backends.versions import numbers, older

GIB = 1 << 30
H100 = Gpu(0, "GPU-1", "NVIDIA H100 80GB HBM3", 80 * GIB, 79 * GIB, False, (), "9.0")
LIBC = "/usr/lib/libc.so.6"
HERE = Facts(
    time="2026-12-01T00:00:00.000Z",
    wall_s=0.0,
    arch="x86_64",
    cpu_model="AMD EPYC",
    cpu_flags=("avx2", "erms", "hypervisor"),
    kernel="6.8.0-45-generic",
    libc="glibc 2.36",
    memory_available_bytes=64 * GIB,
    staging_free_bytes=100 * GIB,
    criu=Criu("/usr/sbin/criu", "4.2", True),
    uid=0,
    cgroup_version=2,
    lsm=("apparmor", "yama"),
    gpus=(H100, H100),
    driver="570.211.01",
    cuda_checkpoint="570.86.10",
    image=Image("debian", "12", {LIBC: FileIdentity(100, "aa" * 20)}),
)
SAVED = fingerprint_of(
    HERE,
    engine="criu",
    runtime={"serving": "vllm 0.20"},
    gpus=(H100, H100),
    memory_needed_bytes=10 * GIB,
    gpu_memory_needed_bytes=100 * GIB,
    disk_needed_bytes=20 * GIB,
)
DECLARED = {"serving": "vllm 0.20"}


def rows(
    saved: Fingerprint = SAVED, here: Facts = HERE, declared: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        row.property: row
        for row in gate(saved, here, declared=DECLARED if declared is None else declared).rows
    }


def test_the_same_machine_fits_without_a_word() -> None:
    result = gate(SAVED, HERE, declared=DECLARED)
    assert result.fits
    assert [row for row in result.rows if row.verdict != "ok"] == []
    assert tuple(row.property for row in result.rows) == PROPERTIES
    assert result.summary() == "fits"


G = "GPU"
TABLE: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("arch", {}, {"arch": "aarch64"}, "refuse", "processor architecture: x86_64 in the save, aarch64 on this node"),
    ("arch", {}, {"arch": None}, "refuse", "processor architecture: x86_64 in the save, unknown on this node; whether they agree cannot be told"),
    ("cpu_features", {"cpu_flags": ("avx2", "avx512f", "erms")}, {}, "refuse",
     "CPU features: the save's CPU (AMD EPYC) has avx512f, this node's (AMD EPYC) has not; the program may die of an illegal instruction"),
    ("cpu_features", {"cpu_flags": ("avx2", "tsc_known_freq")}, {}, "ok", "CPU features: this node has all that the save's CPU had"),
    ("cpu_features", {"arch": "aarch64", "cpu_flags": ("sve",)}, {"arch": "aarch64", "cpu_flags": ("fp",)}, "refuse",
     "CPU features: the save's CPU (AMD EPYC) has sve, this node's (AMD EPYC) has not; the program may die of an illegal instruction"),
    ("cpu_features", {}, {"cpu_flags": None}, "refuse", "CPU features: 3 flags in the save, unknown on this node; whether they agree cannot be told"),
    ("kernel", {}, {"kernel": "6.1.0"}, "refuse", "kernel: 6.8.0-45-generic in the save, 6.1.0 on this node, which is older; choose a node with the same or a newer kernel"),
    ("kernel", {}, {"kernel": "6.11.0"}, "warn", "kernel: 6.8.0-45-generic in the save, 6.11.0 on this node, newer: mostly works"),
    ("kernel", {}, {"kernel": "6.8.0-51-generic"}, "warn", "kernel: 6.8.0-45-generic in the save, 6.8.0-51-generic on this node, another build of the same version: mostly works"),
    ("kernel", {"kernel": None}, {}, "refuse", "kernel: unknown in the save, 6.8.0-45-generic on this node; whether they agree cannot be told"),
    ("criu", {}, {"criu": Criu()}, "refuse", "CRIU: 4.2 in the save, none on this node; `reprieve fleet install` brings a newer one"),
    ("criu", {}, {"criu": Criu("/c", "3.17.1", True)}, "refuse", "CRIU: 4.2 in the save, 3.17.1 on this node, which is older; `reprieve fleet install` brings a newer one"),
    ("criu", {}, {"criu": Criu("/c", "4.10", True)}, "warn", "CRIU: 4.2 in the save, 4.10 on this node, newer: mostly works"),
    ("criu_ready", {}, {"criu": Criu("/c", "4.2", False, "canary: sockets are not restored")}, "refuse",
     "CRIU does not work here: CRIU 4.2 on kernel 6.8.0-45-generic: canary: sockets are not restored"),
    ("criu_ready", {}, {"criu": Criu("/c", "4.2", None, "not tried")}, "warn", "whether CRIU works here is unknown: CRIU 4.2 on kernel 6.8.0-45-generic: not tried"),
    ("criu_ready", {}, {"kernel": "6.18.1", "criu": Criu("/c", "4.1", None, "not tried")}, "refuse",
     "CRIU is too old here: CRIU 4.1 on kernel 6.18.1, at least 4.2 is needed; `reprieve fleet install` brings a newer one"),
    ("criu_ready", {}, {"kernel": "6.13", "criu": Criu("/c", "4.0", None, "not tried")}, "refuse",
     "CRIU is too old here: CRIU 4.0 on kernel 6.13, at least 4.1 is needed; `reprieve fleet install` brings a newer one"),
    ("privileges", {}, {"uid": 1000, "capabilities": ("cap_chown",)}, "refuse", "privileges: restoring memory needs root, the guard on this node runs as user 1000"),
    ("privileges", {}, {"uid": 1000, "capabilities": ("cap_checkpoint_restore",)}, "ok", "privileges: the guard may restore processes"),
    ("privileges", {}, {"uid": None}, "warn", "privileges: root in the save, unknown on this node; whether they agree cannot be told"),
    ("gpu_model", {}, {"gpus": (replace(H100, model="NVIDIA B200"),) * 2}, "refuse",
     "GPU model: NVIDIA H100 80GB HBM3 in the save, NVIDIA B200 on this node; this needs a cold start"),
    ("gpu_model", {}, {"gpus": (replace(H100, memory_bytes=94 * GIB),) * 2}, "refuse",
     "GPU model: NVIDIA H100 80GB HBM3 (80.0 GiB) in the save, NVIDIA H100 80GB HBM3 (94.0 GiB) on this node; this needs a cold start"),
    ("gpu_model", {}, {"gpus": (replace(H100, memory_bytes=None, compute_capability="10.0"),) * 2}, "refuse",
     "GPU model: NVIDIA H100 80GB HBM3 (compute capability 9.0) in the save, NVIDIA H100 80GB HBM3 (compute capability 10.0) on this node; this needs a cold start"),
    ("gpu_model", {}, {"gpus": (replace(H100, memory_bytes=None, compute_capability=None),) * 2}, "ok", "GPU model: NVIDIA H100 80GB HBM3, as in the save"),
    ("gpu_model", {}, {"gpus": ()}, "refuse", "GPU model: NVIDIA H100 80GB HBM3 in the save, none on this node; this needs a cold start"),
    ("gpu_model", {}, {"gpus": None, "gpu_reason": "driver fault"}, "refuse",
     "GPU (driver fault): 2x NVIDIA H100 80GB HBM3 in the save, unknown on this node; whether they agree cannot be told"),
    ("gpu_model", {"gpus": None}, {"gpus": ()}, "refuse", "GPU: unknown in the save, none on this node; whether they agree cannot be told"),
    ("gpu_model", {}, {"gpus": (replace(H100, model=None),) * 2}, "refuse",
     "GPU model: NVIDIA H100 80GB HBM3 in the save, unknown on this node; whether they agree cannot be told"),
    ("gpu_count", {}, {"gpus": (H100,)}, "refuse", "GPU count: 2 in the save, 1 on this node"),
    ("gpu_count", {}, {"gpus": (H100,) * 3}, "refuse", "GPU count: 2 in the save, 3 on this node"),
    ("gpu_mig", {}, {"gpus": (replace(H100, mig=True), H100)}, "refuse",
     "GPU partitions (MIG): off in the save, on on this node; nobody has shown yet that a GPU save works with partitions"),
    ("gpu_mig", {}, {"gpus": (replace(H100, mig=None), H100)}, "warn", "GPU partitions (MIG): off in the save, unknown on this node; whether they agree cannot be told"),
    ("gpu_memory", {}, {"gpus": (replace(H100, memory_free_bytes=GIB), H100)}, "refuse", "free GPU memory: 100.0 GiB needed, 80.0 GiB available on this node"),
    ("gpu_memory", {}, {"gpus": (replace(H100, memory_free_bytes=None), H100)}, "warn", "free GPU memory: 100.0 GiB needed in the save, unknown on this node; whether they agree cannot be told"),
    ("driver", {}, {"driver": "570.195.03"}, "refuse", "GPU driver: 570.211.01 in the save, 570.195.03 on this node; library file names carry the full version"),
    ("driver", {}, {"driver": None}, "refuse", "GPU driver: 570.211.01 in the save, unknown on this node; whether they agree cannot be told"),
    ("cuda_checkpoint", {}, {"cuda_checkpoint": "555.42.02"}, "refuse",
     "cuda-checkpoint: 570.86.10 in the save, 555.42.02 on this node, which is older; install the program that comes with the save's driver"),
    ("cuda_checkpoint", {}, {"cuda_checkpoint": None, "tools": {"cuda-checkpoint": None}}, "refuse",
     "cuda-checkpoint: 570.86.10 in the save, none on this node; install the program that comes with the save's driver"),
    ("cuda_checkpoint", {}, {"cuda_checkpoint": "580.95.05"}, "warn", "cuda-checkpoint: 570.86.10 in the save, 580.95.05 on this node, newer: mostly works"),
    ("cuda_checkpoint", {"cuda_checkpoint": None}, {}, "warn", "cuda-checkpoint: unknown in the save, 570.86.10 on this node; whether they agree cannot be told"),
    ("memory", {}, {"memory_available_bytes": 5 * GIB}, "refuse", "memory: 10.0 GiB needed, 5.0 GiB available on this node"),
    ("memory", {"memory_needed_bytes": None}, {}, "warn", "memory: unknown in the save, 64.0 GiB available on this node; whether they agree cannot be told"),
    ("disk", {}, {"staging_free_bytes": 300 << 20}, "refuse", "free disk: 20.0 GiB needed, 300.0 MiB available on this node"),
    ("libc", {}, {"libc": "glibc 2.41"}, "refuse", "C library: glibc 2.36 in the save, glibc 2.41 on this node; a restored program keeps the old one in memory and may load parts of the new one"),
    ("files", {}, {"image": Image("debian", "12", {LIBC: FileIdentity(100, "bb" * 20)})}, "refuse",
     "programs and libraries: /usr/lib/libc.so.6 is 100 bytes, build bbbbbbbbbbbb here, 100 bytes, build aaaaaaaaaaaa in the save"),
    ("files", {"files": {"/x": FileIdentity(1)}}, {"files": {"/x": None}}, "refuse", "programs and libraries: /x is absent here, 1 bytes in the save"),
    ("files", {"files": {"/x": FileIdentity(1)}}, {}, "warn", "programs and libraries: whether they agree cannot be told, not looked at on this node: /x"),
    ("files", {"files": {}}, {}, "warn", "programs and libraries: whether they agree cannot be told, the save names none"),
    ("runtime", {"runtime": {"serving": "vllm 0.19"}}, {}, "refuse", "declared versions: serving 'vllm 0.19' in the save, 'vllm 0.20' now; this needs a cold start"),
    ("runtime", {"runtime": {"model": "k"}}, {}, "warn", "declared versions: model ('k' in the save) not declared now; whether they agree cannot be told"),
    ("os", {}, {"image": Image("ubuntu", "24.04", HERE.image.files)}, "warn", "operating system: debian 12 in the save, ubuntu 24.04 on this node; files outside the save may differ"),
    ("cgroup", {}, {"cgroup_version": 1}, "warn", "control groups: v2 in the save, v1 on this node; limits of the job are not carried over"),
    ("lsm", {}, {"lsm": ("selinux",)}, "warn", "security module that labels processes: apparmor in the save, selinux on this node; a profile the job ran under may be missing"),
    ("lsm", {}, {"lsm": ("apparmor", "landlock", "lockdown")}, "ok", "security module that labels processes: apparmor, as in the save"),
    ("lsm", {"lsm": ()}, {"lsm": ("yama",)}, "ok", "security module that labels processes: none, as in the save"),
    ("lsm", {}, {"lsm": None}, "warn", "security module that labels processes: apparmor in the save, unknown on this node; whether they agree cannot be told"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "saved", "here", "verdict", "message"), TABLE)
def test_each_row_with_its_message(
    name: str, saved: dict[str, Any], here: dict[str, Any], verdict: str, message: str
) -> None:
    found = rows(replace(SAVED, **saved), replace(HERE, **here))[name]
    assert (found.verdict, found.message) == (verdict, message)
    assert found.known == ("unknown" not in message and "cannot be told" not in message)


def test_the_table_covers_every_property() -> None:
    assert {row[0] for row in TABLE} == set(PROPERTIES)


def test_a_job_without_gpus_asks_for_none() -> None:
    found = rows(replace(SAVED, gpus=(), driver=None), replace(HERE, gpus=None))
    assert not {"gpu_model", "gpu_count", "gpu_mig", "gpu_memory", "driver", "cuda_checkpoint"} & found.keys()


@pytest.mark.parametrize("engine", ["signal", "fake"])
def test_a_program_that_saves_itself_needs_no_memory_image(engine: str) -> None:
    bare = Facts(time="", wall_s=0.0, arch="x86_64", gpus=())
    result = gate(replace(SAVED, engine=engine), bare)
    assert result.fits
    assert {row.property for row in result.rows} == {
        "arch",
        "gpu_model",
        "gpu_count",
        "gpu_memory",
        "memory",
        "disk",
        "runtime",
    }
    assert not gate(replace(SAVED, engine=engine), replace(bare, arch="aarch64")).fits


def test_override_sets_aside_with_its_reason_and_is_recorded() -> None:
    here = replace(HERE, driver="570.195.03", kernel="6.1.0")
    result = gate(SAVED, here, overrides={"driver": "tried in the lab"}, declared=DECLARED)
    assert not result.fits
    assert [row.property for row in result.refusals] == ["kernel"]
    assert result.overridden == {"driver": "tried in the lab"}
    row = {item.property: item for item in result.rows}["driver"]
    assert row.message.endswith("; set aside: tried in the lab")
    assert gate(SAVED, here, overrides={"driver": "a", "kernel": "b"}, declared=DECLARED).fits


def test_override_of_what_agrees_is_not_recorded() -> None:
    assert gate(SAVED, HERE, overrides={"driver": "just in case"}, declared=DECLARED).overridden == {}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"drivers": "x"}, "override of 'drivers': not one of arch"),
        ({"driver": " "}, "override of 'driver': a reason is needed"),
        *(({name: "x"}, f"override of '{name}': this cannot be set aside") for name in sorted(FIRM)),
    ],
)
def test_overrides_that_are_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gate(SAVED, HERE, overrides=overrides)


def test_summary_names_the_first_refusal_and_counts_the_others() -> None:
    assert gate(SAVED, replace(HERE, arch="aarch64", libc="x"), declared=DECLARED).summary() == (
        "processor architecture: x86_64 in the save, aarch64 on this node (and 1 more)"
    )
    assert (
        gate(SAVED, replace(HERE, cgroup_version=1), declared=DECLARED).summary() == "fits, with 1 warnings"
    )


def test_facts_that_say_nothing_never_fit() -> None:
    result = gate(SAVED, Facts(time="", wall_s=0.0))
    assert not result.fits
    assert not [row for row in result.rows if row.verdict == "ok"]


def test_fingerprint_survives_a_manifest_and_later_fields() -> None:
    document = strict.loads(strict.canonical(strict.to_document(SAVED)), what="m")
    assert read_fingerprint({**document, "later": 1}, what="m") == SAVED


@given(st.sampled_from(sorted(set(Facts.__dataclass_fields__) - {"time", "wall_s"})))
def test_hiding_a_fact_never_makes_a_refusal_fine(name: str) -> None:
    here = replace(HERE, kernel="6.1.0", libc="x", driver="1", arch="aarch64")
    blank = Facts(time="", wall_s=0.0)
    before = {row.property for row in gate(SAVED, here, declared=DECLARED).refusals}
    after = gate(SAVED, replace(here, **{name: getattr(blank, name)}), declared=DECLARED)
    lost = before - {row.property for row in after.refusals}
    assert all(row.verdict != "ok" for row in after.rows if row.property in lost)


@given(
    st.lists(st.integers(0, 999), min_size=1, max_size=4),
    st.lists(st.integers(0, 999), min_size=1, max_size=4),
)
def test_older_is_the_order_of_the_numbers(one: list[int], other: list[int]) -> None:
    left, right = ".".join(map(str, one)), ".".join(map(str, other))
    assert older(left, right) == ((one + [0] * 4)[:4] < (other + [0] * 4)[:4])
    assert not (older(left, right) and older(right, left))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("6.18.44-fc", (6, 18, 44)), ("4.2", (4, 2)), ("", None), (None, None), ("v4", None)],
)
def test_numbers(text: str | None, expected: tuple[int, ...] | None) -> None:
    assert numbers(text) == expected
