"""All that makes an image unusable: each row of the list has a test that holds its message.

What a node's facts can tell is refused by the gate before anything is transferred; the other rows are met where the
thing is seen: at the verification, in the engine, in the lineage. Where a row had no test with its message, it is here.
"""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from backends.clock import SystemClock
from backends.compat import FIRM, PROPERTIES
from backends.engines.criu import CriuEngine
from backends.engines.oci.engine import OciEngine
from backends.engines.port import RestoreRequest
from backends.errors import DamagedError, EngineError, NoProofError
from backends.fakes.fileops import SimulatedOps
from backends.fakes.store import MemoryStore
from backends.guard.jobs.restoring import engine_of
from backends.guard.vault import Fetched
from backends.ids import CheckpointId
from backends.records.job import Job
from backends.store import layout
from backends.store.takeover import claim_next
from backends.store.verify import verify_checkpoint
from tests.support.memory import Process, page, save_of
from tests.support.store import UID, Bench, make_save
from tests.unit.backends.test_compat import HERE as HERE_NOW
from tests.unit.backends.test_compat import SAVED, TABLE, rows

ROOT = Path(__file__).resolve().parents[3]
HERE = "unit/backends/test_gate_rows.py"
ENGINES = "unit/backends/engines"
RESTORE = "unit/console/operations/flows/test_restore_flow.py"


@dataclass(frozen=True)
class Row:
    """One fact: what follows from a difference, and the tests that hold the message, as (file, function, text)."""

    fact: str
    rule: str
    properties: tuple[str, ...] = ()  # of the gate: their messages are in the table of test_compat
    tests: tuple[tuple[str, str, str], ...] = ()


ROWS = (
    Row("processor architecture; GPU model, count, partitions", "refuse", ("arch", "gpu_model", "gpu_count", "gpu_mig")),
    Row("GPU driver", "refuse unless equal", ("driver",)),
    Row("kernel, CRIU, cuda-checkpoint", "older: refuse; newer: warn", ("kernel", "criu", "criu_ready", "cuda_checkpoint")),
    Row("privileges of the guard", "refuse", ("privileges",)),
    Row("CPU features", "refuse, naming them", ("cpu_features",)),
    Row("host memory, GPU memory, disk", "refuse when short", ("memory", "gpu_memory", "disk")),
    Row("executable, libraries, a container's root file system", "refuse on a difference", ("files", "libc", "os"),
        ((HERE, "test_a_container_whose_root_file_system_is_not_here_is_refused", "root file system"),)),
    Row("versions of engine and model", "refuse on a difference", ("runtime",)),
    Row("open files and the places where they lay", "put back, or refuse", (), (
        (f"{ENGINES}/system/test_rollback.py", "test_a_directory_at_the_place_is_refused", "is a directory here"),
        (f"{ENGINES}/system/test_rollback.py", "test_a_link_on_the_way_is_refused_and_all_is_undone", "is a link or a file here"),
        (f"{ENGINES}/system/test_rollback.py", "test_a_damaged_copy_is_refused", "has 3 bytes, 5 expected"),
        (f"{ENGINES}/system/test_rollback.py", "test_files_that_others_may_share_are_left_alone_when_they_exist", "nfs4"),
        (f"{ENGINES}/test_explain.py", "test_each_known_text_has_its_cause", "Can't open file data/ci/log.txt on restore"),
        (f"{ENGINES}/test_explain.py", "test_each_known_text_has_its_cause", "mount that is not visible"),
    )),
    Row("process ids", "a namespace of their own, always", (), (
        (f"{ENGINES}/system/test_small_system.py", "test_helpers_start_where_no_id_of_the_job_is", "free_start"),
        (f"{ENGINES}/system/test_small_system.py", "test_ids_beyond_the_node_s_are_refused", "this node's kernel"),
    )),
    Row("established TCP connections, listening ports", "close; refuse a port in use", (), (
        (f"{ENGINES}/test_profile.py", "test_connections_among_its_own_processes_are_kept", "--tcp-close"),
        (f"{ENGINES}/test_explain.py", "test_each_known_text_has_its_cause", "Cannot assign requested address"),
        ("lab/test_criu_failures.py", "test_a_taken_port_is_named", "on which job bad listens, is in use"),
    )),
    Row("the engine that made it, completeness, hashes, parents", "refuse", (), (
        (HERE, "test_an_engine_that_is_not_here_is_named", "which this node does not have"),
        (HERE, "test_an_incomplete_image_is_refused_before_anything_is_touched", "holds no inventory.img"),
        (HERE, "test_a_changed_byte_is_refused", "its bytes were altered"),
        (HERE, "test_a_parent_that_is_gone_is_refused_by_name", "missing"),
        (RESTORE, "test_a_damaged_checkpoint_falls_back_and_tells_the_minutes", "more minutes"),
    )),
    Row("control groups, labelling security module", "warn", ("cgroup", "lsm")),
    Row("a newer epoch, a lease held elsewhere", "refuse", (), (
        (HERE, "test_an_epoch_that_was_overtaken_is_refused", "has been claimed since"),
        ("unit/console/operations/flows/test_lease_flow.py", "test_a_restore_by_hand_waits_for_the_lease", "its lease runs out in"),
        ("unit/console/operations/decide/test_lease_watch.py", "test_what_a_lease_proves", "promised to freeze epoch 1"),
    )),
)  # fmt: skip


@functools.cache
def parsed(file: str) -> tuple[dict[str, str], str]:
    """Of a test file: the source of each test with its decorators, and the tables outside of functions."""
    text = (ROOT / "tests" / file).read_text("utf-8")
    functions, tables = dict[str, str](), list[str]()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            parts = [*node.decorator_list, node]
            functions[node.name] = "\n".join(ast.get_source_segment(text, each) or "" for each in parts)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            tables.append(ast.get_source_segment(text, node) or "")
    return functions, "\n".join(tables)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fact)
def test_each_row_has_a_test_with_its_message(row: Row) -> None:
    assert row.properties or row.tests
    for name in row.properties:
        wanted = "warn" if row.rule == "warn" or name == "os" else "refuse"
        assert [entry for entry in TABLE if entry[0] == name and entry[3] == wanted], (
            f"{name}: no {wanted} in the table"
        )
    for file, function, message in row.tests:
        functions, tables = parsed(file)
        assert function in functions, f"{file} has no {function}"
        assert message in functions[function] or message in tables, (
            f"{function} does not look for {message!r}"
        )


def test_every_property_of_the_gate_belongs_to_one_row() -> None:
    assert sorted(name for row in ROWS for name in row.properties) == sorted(PROPERTIES)


def test_each_refusal_of_the_gate_names_both_values_and_says_whether_it_can_be_set_aside() -> None:
    for name, changed, here, verdict, message in TABLE:
        if verdict == "refuse":
            found = rows(replace(SAVED, **changed), replace(HERE_NOW, **here))[name]
            assert found.overridable is (name not in FIRM)
            for value in (found.saved, found.here):
                assert (
                    value is None
                    or value.split()[0] in message
                    or name in ("cpu_features", "files", "privileges", "criu_ready", "runtime")
                ), name


def request_of(directory: Path, details: dict[str, Any]) -> RestoreRequest:
    return RestoreRequest(Job("count", "n", uid=UID), directory, (), details, 1.0, directory / "aside")


def test_a_container_whose_root_file_system_is_not_here_is_refused(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/inventory.img").write_bytes(b"i")
    engine = OciEngine(cast("Any", SimpleNamespace(name="crun")), cast("Any", None), tmp_path, SystemClock())
    told = {"container": "web", "bundle": str(tmp_path / "web"), "config": '{"root": {"path": "rootfs"}}'}
    with pytest.raises(
        EngineError, match=r"the container's root file system \S+web/rootfs is not on this node"
    ):
        engine.restore(request_of(tmp_path, told))


def test_an_engine_that_is_not_here_is_named() -> None:
    tools = cast("Any", SimpleNamespace(engines={"criu": None}))
    with pytest.raises(EngineError, match="was made by engine 'criu-cuda', which this node does not have"):
        engine_of(tools, Fetched("criu-cuda", (), {}))


def test_an_incomplete_image_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    engine = CriuEngine.__new__(CriuEngine)
    with pytest.raises(EngineError, match=r"holds no inventory\.img: it is incomplete"):
        engine.restore(request_of(tmp_path, {}))
    assert not (tmp_path / "aside").exists()


@pytest.fixture
def bench() -> Bench:
    found = Bench(tables=SimulatedOps())
    found.begin()
    return found


def verify(bench: Bench, seq: int) -> None:
    verify_checkpoint(bench.store, UID, CheckpointId(1, seq), bench.key, bench.clock)


def test_a_changed_byte_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    pack = layout.pack(UID, "packs", CheckpointId(1, 1), 0)
    cast("MemoryStore", bench.store).flip(pack, 40)
    with pytest.raises(DamagedError, match=r"packs/1\.1/0: .* its bytes were altered"):
        verify(bench, 1)


def test_a_parent_that_is_gone_is_refused_by_name(bench: Bench, tmp_path: Path) -> None:
    memory = Process(7, {0x400000: [page(number) for number in range(1, 30)]})
    for seq in (1, 2):
        save_of(tmp_path / str(seq), [memory], {})
        bench.committer().commit(seq, make_save(tmp_path / str(seq), {}, {}))
        memory.runs[0x400000][3] = page(99)
    verify(bench, 2)
    bench.store.delete(layout.pack(UID, "packs", CheckpointId(1, 1), 0))
    with pytest.raises(DamagedError, match=r"packs/1\.1/0.*missing"):
        verify(bench, 2)


def test_an_epoch_that_was_overtaken_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    taken = bench.take_over("node-b", "guard-b")
    settled = bench.taker("late")
    claim_next(settled, bench.proof())
    with pytest.raises(
        NoProofError, match=r"epoch 2 may not be started here: epoch 3 has been claimed since"
    ):
        bench.taker().lineage().may_start(2, "guard-b", taken.nonce)
