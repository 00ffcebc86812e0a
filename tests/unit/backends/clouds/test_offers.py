"""Pools nobody has rented yet: could, refused with both values, or unknown; never `fits`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.clouds.aws.gpus import GPUS
from backends.clouds.offers import GIB, aws_offer, could_take
from backends.records.facts import Gpu
from backends.records.fingerprint import Fingerprint

H100 = Gpu(model="NVIDIA H100 80GB HBM3", mig=False)
TRAINING = Fingerprint("criu", "x86_64", gpus=(H100,) * 8, memory_needed_bytes=900 * GIB)
COUNTER = Fingerprint("criu", "x86_64", gpus=(), memory_needed_bytes=8 * GIB)


@pytest.mark.parametrize(
    ("saved", "type_", "ram_gb", "verdict", "word"),
    [
        (TRAINING, "p5.48xlarge", 2048, "could", "kernel, driver, CRIU and libraries"),
        (TRAINING, "p5en.48xlarge", 2048, "refused", "GPU model: 8x NVIDIA H100 80GB HBM3 in the save, 8x H200 in this pool"),
        (TRAINING, "p5.4xlarge", 2048, "refused", "GPU count: 8 in the save, 1 in this pool (H100)"),
        (TRAINING, "p6-b200.48xlarge", 2048, "unknown", "which GPUs p6-b200.48xlarge has is not known"),
        (TRAINING, "c7i.48xlarge", 2048, "refused", "GPU: 8x NVIDIA H100 80GB HBM3 in the save, none in this pool"),
        (TRAINING, "p5.48xlarge", 512, "refused", "memory: 900.0 GiB needed, 512.0 GiB in this pool"),
        (COUNTER, "c7i.2xlarge", 16, "could", "kernel, CRIU and libraries"),
        (COUNTER, "c7g.2xlarge", 16, "refused", "processor architecture: x86_64 in the save, aarch64 in this pool"),
        (COUNTER, "im4gn.2xlarge", 16, "refused", "aarch64"),
        (COUNTER, "g4dn.2xlarge", 32, "could", "known once a machine of it answers"),
        (COUNTER, "mac2.metal", 32, "unknown", "architecture"),
        (COUNTER, "strange", 32, "unknown", "architecture"),
        (Fingerprint("criu", "x86_64"), "p5.48xlarge", 2048, "unknown", "does not say which GPUs"),
        (Fingerprint("criu", "x86_64", gpus=(Gpu(model="NVIDIA A100-SXM4-40GB", mig=True),) * 8), "p4d.24xlarge", 1152, "refused", "MIG"),
        (Fingerprint("criu", "x86_64", gpus=(Gpu(model="NVIDIA A10G"),)), "g5.xlarge", 16, "could", ""),
        (Fingerprint("criu", "x86_64", gpus=(Gpu(model="NVIDIA A100-SXM4-40GB"),) * 4), "g5.12xlarge", 192, "refused", "GPU model"),
        (Fingerprint("signal", "x86_64", gpus=(H100,)), "g5.xlarge", 16, "could", ""),
    ],
)  # fmt: skip
def test_each_kind_of_pool(saved: Fingerprint, type_: str, ram_gb: float, verdict: str, word: str) -> None:
    found, reason = could_take(saved, aws_offer(type_, ram_gb))
    assert found == verdict, reason
    assert word in reason
    assert reason


@given(st.sampled_from(sorted(GPUS)), st.sampled_from([None, 1.0, 4096.0]), st.integers(1, 8))
def test_h100s_never_go_to_anything_but_as_many_h100s(type_: str, ram_gb: float | None, count: int) -> None:
    verdict, _ = could_take(Fingerprint("criu", "x86_64", gpus=(H100,) * count), aws_offer(type_, ram_gb))
    assert (verdict == "could") == (GPUS[type_] == ("H100", count))


@given(st.text(max_size=20))
def test_any_text_is_a_type_that_is_at_most_unknown(text: str) -> None:
    verdict, _ = could_take(TRAINING, aws_offer(text, None))
    assert verdict != "could" or text in GPUS
