"""The decisions of `criu-cuda`: what a driver can do, which step follows, what stands in the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.cuda.ladder import Abilities, abilities, device_map
from backends.engines.cuda.preflight import NCCL, Surroundings, findings, holders, without_devices
from backends.engines.cuda.states import State, Step, letting_go, parse_state, saving, stuck
from backends.engines.cuda.tool import Answer
from backends.engines.proc import Descriptor, Mapping, Member, Tree
from backends.engines.proven import unproven

ALL = frozenset({"--action", "--device-map", "--launch-job"})
STATES: tuple[State, ...] = ("running", "locked", "checkpointed", "failed", "unknown")


@pytest.mark.parametrize(
    ("driver", "found"),
    [
        ("555.42", Abilities()),
        ("570.86.15", Abilities(trees=True)),
        ("580.142", Abilities(trees=True, device_map=True)),
        ("590.44", Abilities(trees=True, device_map=True, jobs=True)),
        ("610.57.04", Abilities(trees=True, device_map=True, jobs=True)),
    ],
)
def test_the_ladder(driver: str, found: Abilities) -> None:
    assert abilities(driver, ALL) == found


@pytest.mark.parametrize(
    ("driver", "options", "text"),
    [
        ("550.90.07", ALL, "driver 550.90.07 is too old for saving GPU state: 555 or newer"),
        ("580.142", frozenset(), "older than driver 580.142 and has no --action"),
        (None, ALL, "version is unknown"),
        ("beta", ALL, "version is unknown"),
    ],
)
def test_below_the_ladder(driver: str | None, options: frozenset[str], text: str) -> None:
    assert text in abilities(driver, options).problem


def test_an_old_program_on_a_new_driver_lacks_the_map() -> None:
    assert not abilities("590.48", frozenset({"--action"})).device_map


def test_every_gpu_is_in_the_map() -> None:
    assert device_map(["a", "b"], ["a", "b"]) is None
    assert device_map(["a", "b"], ["b", "c"]) == "a=b,b=c"
    for new in (["a"], ["a", "a"]):
        with pytest.raises(ValueError, match="GPU"):
            device_map(["a", "b"], new)


@given(st.dictionaries(st.integers(1, 99), st.sampled_from(STATES), max_size=6))
def test_letting_go_restores_all_before_it_unlocks_any_and_leaves_no_good_one_behind(
    states: dict[int, State],
) -> None:
    steps = letting_go(states)
    actions = [step.action for step in steps]
    assert actions == sorted(actions, key=["restore", "unlock"].index)
    after = dict(states)
    for step in steps:
        assert (after[step.pid], step.action) in (("checkpointed", "restore"), ("locked", "unlock"))
        after[step.pid] = "locked" if step.action == "restore" else "running"
    assert {pid for pid, state in after.items() if state != "running"} == {
        pid for pid, state in states.items() if state in ("failed", "unknown")
    }
    assert (stuck(after) == "") == all(state == "running" for state in after.values())


def test_saving_locks_all_before_the_first_checkpoint() -> None:
    assert saving([1, 2]) == [Step(1, "lock"), Step(2, "lock"), Step(1, "checkpoint"), Step(2, "checkpoint")]


@given(st.text())
def test_any_text_is_a_state_or_unknown(text: str) -> None:
    assert parse_state(text) in STATES


def test_states_as_the_program_says_them() -> None:
    assert parse_state("checkpointed\n") == "checkpointed"
    assert parse_state("state: locked") == "locked"
    assert parse_state("unlocked?") == "unknown"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("OS call failed or operation not supported on this OS", "managed memory, CUDA IPC"),
        ("Error: lock timed out", "did not come to an end in time: raise max_freeze"),
        ("out of memory", "not enough free GPU memory"),
        ("invalid argument", "the device map is wrong"),
        ("CUDA is not initialized", "uses no CUDA any more"),
        ("operation not permitted", "run the guard as root"),
        ("API call is not supported", "let the job save itself"),
        ("", "ended with 1 without a word"),
        ("\x1b[2Jnew words", "ended with 1: \\x1b[2Jnew words"),
    ],
)
def test_every_failure_in_plain_words(text: str, words: str) -> None:
    assert words in Answer(1, text).cause
    assert "\x1b" not in Answer(1, text).cause


def member(pid: int, *paths: str, maps: tuple[str, ...] = ()) -> Member:
    descriptors = tuple(
        Descriptor(
            number=number,
            path=path,
            kind="device",
            flags=2,
            inode=1,
            size=0,
            deleted=False,
            rdev=195 << 8,
            device=0,
            links=1,
        )
        for number, path in enumerate(paths)
    )
    mappings = tuple(Mapping(path, True, True, False, 1, 0, 4096) for path in maps)
    return Member(
        pid, 1, pid, pid, pid, (pid,), "python", "S", 0, 0, 0, "/", {}, 4096, descriptors, mappings
    )  # fmt: skip


GOOD = Surroundings(
    cuda=frozenset({7}),
    environments={},
    abilities=Abilities(trees=True, device_map=True),
    partitioned=False,
    arch="x86_64",
    device_bytes=1000,
    memory_free_bytes=10_000,
    staging_free_bytes=10_000,
    resident_bytes=1000,
)
ONE = Tree((member(7, "/dev/nvidia0", "/dev/nvidiactl"),))
NCCL_MAP = ("/usr/lib/libnccl.so.2",)


def test_nothing_is_in_the_way_of_a_plain_job() -> None:
    assert [finding for finding in findings(ONE, GOOD) if finding.answer != "ok"] == []


CASES: list[tuple[Tree, dict[str, Any], str, str]] = [
    (ONE, {"abilities": Abilities(problem="too old")}, "self_save_only", "too old"),
    (ONE, {"arch": "aarch64"}, "self_save_only", "arm64"),
    (ONE, {"partitioned": True}, "self_save_only", "MIG"),
    (ONE, {"cuda": frozenset()}, "impossible", "the engine criu saves it"),
    (ONE, {"cuda": frozenset({7, 8}), "abilities": Abilities()}, "self_save_only", "a driver from 570"),
    (Tree((*ONE.members, member(9, "/dev/nvidia0"))), {}, "self_save_only", "start workers with spawn"),
    (Tree((*ONE.members, member(9, "/dev/nvidia0"))), {"abilities": Abilities(True, True, True)}, "needs_restart",
     "--launch-job"),
    (ONE, {"environments": {7: {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/x"}}}, "needs_restart", "through MPS"),
    (Tree((member(7, maps=("/dev/shm/cuda.shm.0.1f",)),)), {}, "self_save_only", "CUDA IPC"),
    (Tree((member(7, maps=NCCL_MAP), member(8, maps=NCCL_MAP))), {"cuda": frozenset({7, 8})}, "needs_restart",
     "restart it with NCCL_P2P_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_SHM_DISABLE=1"),
    (Tree((member(7, maps=NCCL_MAP),)), {"environments": {7: {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}}},
     "self_save_only", "one rank of a job on several nodes and uses NCCL"),
    (Tree((member(7, maps=NCCL_MAP),)), {"environments": {7: {"SLURM_NNODES": "2"}}}, "self_save_only", "several nodes"),
    (ONE, {"device_bytes": 20_000}, "impossible", "of host memory"),
    (ONE, {"device_bytes": 9_500}, "impossible", "of the staging disk"),
    (ONE, {"device_bytes": None}, "ok", "how much GPU memory it uses is unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "changes", "answer", "words"), CASES)
def test_what_is_in_the_way(tree: Tree, changes: dict[str, Any], answer: str, words: str) -> None:
    found = [f for f in findings(tree, replace(GOOD, **changes)) if words in f.reason]
    assert [f.answer for f in found[:1]] == [answer]


def test_nccl_set_right_before_the_start_is_fine() -> None:
    tree = Tree((member(7, maps=NCCL_MAP), member(8, maps=NCCL_MAP)))
    around = replace(GOOD, cuda=frozenset({7, 8}), environments={7: dict(NCCL), 8: dict(NCCL)})
    assert [f for f in findings(tree, around) if f.answer != "ok"] == []
    partly = replace(around, environments={7: dict(NCCL), 8: {"NCCL_P2P_DISABLE": "1"}})
    assignments = {a for f in findings(tree, partly) for a in f.assignments}
    assert assignments == {"NCCL_NVLS_ENABLE=0", "NCCL_SHM_DISABLE=1"}


def test_nccl_on_one_node_is_not_taken_for_several() -> None:
    alone = {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "SLURM_NNODES": "1"}
    for environment in (alone, {}, {"WORLD_SIZE": "16"}, {"WORLD_SIZE": "x", "LOCAL_WORLD_SIZE": "8"}):
        found = list(
            findings(Tree((member(7, maps=NCCL_MAP),)), replace(GOOD, environments={7: environment}))
        )
        assert not [each for each in found if "several nodes" in each.reason], environment


def test_criu_judges_the_tree_without_its_gpu_devices() -> None:
    assert len(holders(ONE)) == 1
    plain = without_devices(ONE)
    assert holders(plain) == []
    assert len(plain.members) == 1


def test_what_was_proven_and_what_was_not() -> None:
    proven = {"criu-cuda": frozenset({("580", "NVIDIA H100 80GB HBM3")})}
    assert unproven("criu", None, [None]) == ""
    assert unproven("criu-cuda", "580.142", ["NVIDIA H100 80GB HBM3"] * 8, proven) == ""
    assert unproven("criu-cuda", "590.48", ["NVIDIA H100 80GB HBM3"], proven) == (
        "engine criu-cuda is unproven on driver 590.48 with NVIDIA H100 80GB HBM3"
    )
    assert "NVIDIA A100" in unproven("criu-cuda", "580.142", ["NVIDIA H100 80GB HBM3", "NVIDIA A100"], proven)
    assert "an unknown GPU" in unproven("criu-cuda", None, [], proven)
