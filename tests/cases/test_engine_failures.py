"""Every failure of CRIU and cuda-checkpoint that is known from the field: its plain words, and the test that the job runs on.

The texts of `shared/reference/systems.md` 4.14 are read from there where it lies beside the repository: one that is not
answered here is a failure. The failures of 4.9 are named below, each with the test that holds it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backends.engines.cuda.tool import Answer
from backends.engines.explain import explain
from tests.support.nodes_cases import FOLDER

ROOT = Path(__file__).resolve().parents[2]
CUDA = "tests/unit/backends/engines/cuda"

# A line as the tool says it → words of ours about what it means, and about what to do.
SAID = {
    "vdso: Unexpected rt vDSO area bounds": ("too old for the running kernel", "install CRIU 4.2"),
    "Can't fork for 14504: File exists": ("process id 14504 is taken", "fresh PID namespace"),
    "pid mismatch": ("a process id of the job is taken", "fresh PID namespace"),
    "Pid 7 do not match expected 8": ("a process id of the job is taken", "fresh PID namespace"),
    "File d/x has bad size 87 (expect 54)": ("87 bytes where the save expects 54", "roll the file back"),
    "File d/x has bad mode": ("was replaced since the save", "the same build"),
    "File d/x has bad build-ID": ("was replaced since the save", "the same build"),
    "Can't dump file 12 of that type [20666] (chr 195:0 /dev/nvidia0)": ("holds a GPU device", "criu-cuda"),
    "Can't dump file 5 of that type [600] (unknown anon_inode:[io_uring])": ("io_uring", "USE_LIBUV=0"),
    "Unsupported mapping found 7f00-7f01": ("CRIU cannot save", "without io_uring"),
    "Can't dump ghost file /t/g of 5001216 size, increase limit": ("/t/g of 5001216 bytes", "the limit"),
    "Can't link remap to /dev/shm/link_remap.5: File exists": ("leftovers of an earlier save", "remove"),
    "Timeout reached. Try to interrupt: 3": ("could not all be stopped in time", "held by a GPU driver"),
    "PAUSE_DEVICES failed": ("the GPU state could not be taken", "unlock it"),
    "CHECKPOINT_DEVICES failed": ("the GPU state could not be taken", "unlock it"),
    "Failed to unlock process status": ("may still be locked by the GPU driver", "unlock it"),
    "OS call failed or operation not supported on this OS": ("the GPU driver refuses", "NCCL_P2P_DISABLE=1"),
    "Can't bind inet socket back: Cannot assign requested address": ("does not have", "0.0.0.0"),
    "CPU instruction capabilities do not match run time": ("CPU lacks features", "the same CPU features"),
    "FPU feature required by image": ("CPU lacks features", "the same CPU features"),
    "tty: Found slave peer index 0 without correspond master": ("belongs to a terminal", "setsid"),
    "Unexpected EOF on (empty-image)": ("an image file is incomplete", "previous checkpoint"),
}
# cuda-checkpoint's own words, where CRIU has no part in it.
CUDA_SAID = {
    "invalid argument": ("the device map is wrong", "every GPU of both nodes"),
    "OS call failed or operation not supported on this OS": ("managed memory", "NCCL_P2P_DISABLE=1"),
}

# Failure of 4.9 → the test that shows its words, and that the job runs on or that this is said.
FAILURES = {
    "driver below 555": f"{CUDA}/test_cuda_pure.py::test_below_the_ladder",
    "several processes below 570": f"{CUDA}/test_cuda_pure.py::test_what_is_in_the_way",
    "another GPU below 580, or an old program": f"{CUDA}/test_cuda_pure.py::test_an_old_program_on_a_new_driver_lacks_the_map",
    "a map that names not every GPU": f"{CUDA}/test_cuda_pure.py::test_every_gpu_is_in_the_map",
    "managed memory, CUDA IPC, NCCL: a step fails": f"{CUDA}/test_cuda_hold.py::test_after_a_failed_step_every_process_runs",
    "MIG, MPS, arm64, forked children": f"{CUDA}/test_cuda_pure.py::test_what_is_in_the_way",
    "vGPU and whatever is not supported": f"{CUDA}/test_cuda_pure.py::test_every_failure_in_plain_words",
    "several nodes": f"{CUDA}/test_cuda_pure.py::test_what_is_in_the_way",
    "a process that cannot run again": f"{CUDA}/test_cuda_hold.py::test_one_that_failed_for_good_is_named_and_the_other_runs",
    "an unlock that fails": f"{CUDA}/test_cuda_hold.py::test_an_unlock_that_fails_is_said_with_its_reason",
    "the order of a tree": f"{CUDA}/test_cuda_pure.py::test_saving_locks_all_before_the_first_checkpoint",
    "a mere coordinator": f"{CUDA}/test_cuda_hold.py::test_questions",
    "host memory or disk too small": f"{CUDA}/test_cuda_pure.py::test_what_is_in_the_way",
    "GPU memory too small at the restore": "tests/lab/test_criu_cuda.py::test_a_restore_that_cannot_work_is_refused_before_anything_moves",
    "a step that takes long is not killed": f"{CUDA}/test_cuda_hold.py::test_a_long_step_is_waited_for",
    "a lock that is never given": f"{CUDA}/test_cuda_hold.py::test_in_order_with_a_limit_on_lock_alone",
    "a save that fails on the GPU": "tests/lab/test_criu_cuda.py::test_a_save_that_fails_on_the_gpu_leaves_the_job_running",
    "a dump that fails after it": "tests/lab/test_criu_cuda.py::test_a_dump_that_fails_gives_the_gpu_back",
    "a guard that dies half-way": "tests/lab/test_criu_cuda.py::test_a_guard_that_died_half_way_is_made_good_by_a_thaw",
}  # fmt: skip


@pytest.mark.parametrize("line", SAID)
def test_criu_says_and_we_say(line: str) -> None:
    cause = explain(
        f"(00.02)  15982: Error (criu/x.c:1): {line}\n(00.03) Error (criu/cr-dump.c:1): Dumping FAILED.\n"
    )
    for words in SAID[line]:
        assert words in cause.text + " " + cause.remedy


@pytest.mark.parametrize("line", CUDA_SAID)
def test_cuda_checkpoint_says_and_we_say(line: str) -> None:
    for words in CUDA_SAID[line]:
        assert words in Answer(1, line).cause


def test_no_row_of_the_reference_is_left_out() -> None:
    page = FOLDER.parents[1] / "reference" / "systems.md"
    if not page.is_file():
        pytest.skip(f"{page} is not there")
    part = page.read_text("utf-8").split("### 4.14")[1].split("### 4.15")[0]
    rows = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    fragments = [found for row in rows for found in re.findall(r"`([^`]+)`", row)]
    assert len(fragments) > 15
    said = [*SAID, *CUDA_SAID]
    for fragment in fragments:
        plain = (
            re.escape(fragment)
            .replace("…", ".*")
            .replace("N:", "[0-9]+:")
            .replace("\\ A\\ ", r" [0-9]+ ")
            .replace("expect\\ B", "expect [0-9]+")
        )
        assert any(re.search(plain, line) for line in said), fragment


@pytest.mark.parametrize("failure", FAILURES)
def test_each_failure_of_the_gpu_has_its_test(failure: str) -> None:
    path, _, name = FAILURES[failure].partition("::")
    assert f"def {name}(" in (ROOT / path).read_text("utf-8"), failure
