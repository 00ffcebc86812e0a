"""A node's credentials and keys in the hands of a hostile process: four things that it cannot do.

Delete or overwrite a checkpoint, read another job, forge a claim, freeze another job. A rule that a server here does
not enforce is tested where one does: SeaweedFS knows no create-only permission, Azurite does.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.errors import DamagedError, NoProofError
from backends.ids import CheckpointId, new_nonce
from backends.records.lineage import Claim, Continues, Proof
from backends.store import layout
from backends.store.fetch import fetch
from backends.store.fleetkey import FleetKey, sign_record
from backends.store.lineage import read_lineage
from backends.store.port import ObjectStore
from backends.store.sealing import JobKey
from backends.store.takeover import FIRST
from backends.store.verify import verify_checkpoint
from tests.support.guard_node import Fleet, Node, request, wait_for
from tests.support.hostile import Try, run_hostile
from tests.support.objects import ADMIN, NODE, AzureServer, S3Server
from tests.support.store import UID, Bench

pytestmark = pytest.mark.stores
Opener = Callable[[str, dict[str, str]], ObjectStore]
OTHER = "zzzzzzzzzzzzzzzzzzzz"
REFUSED = {401, 403, 405, 409}
NO_CLAIMS = ("s3:PutObject", "*/epochs/*")


def objects_of(store: ObjectStore, uid: str = UID) -> dict[str, bytes]:
    return {info.key: store.read(info.key) for info in store.list(f"jobs/{uid}/")}


def test_it_cannot_delete_on_s3(s3: S3Server, acting: Opener, tmp_path: Path) -> None:
    s3.forbid(NODE, "s3:DeleteObject", "ckpt", ("s3:DeleteObjectVersion", "*"), NO_CLAIMS)
    bench = Bench(store=acting(s3.url("hostile"), ADMIN.environment()))
    bench.begin()
    bench.save(tmp_path, 1)
    before = objects_of(bench.store)
    tries: list[Try] = []
    for key in before:
        many = f"<Delete><Object><Key>hostile/{key}</Key></Object></Delete>"
        tries += [("DELETE", f"hostile/{key}", "", ""), ("POST", "", "delete=", many)]
    tries += [
        ("PUT", "", "policy=", '{"Version":"2012-10-17","Statement":[]}'),
        ("DELETE", "", "policy=", ""),
        ("DELETE", "", "", ""),
        ("PUT", "", "lifecycle=", "<LifecycleConfiguration></LifecycleConfiguration>"),
        ("PUT", f"hostile/jobs/{UID}/epochs/1", "", "mine"),
    ]
    found = run_hostile({"do": "s3", "endpoint": s3.endpoint, "tries": tries}, NODE.environment())
    assert objects_of(bench.store) == before, dict(zip(map(str, tries), found, strict=True))
    single = [
        status for (method, key, *_), status in zip(tries, found, strict=True) if method == "DELETE" and key
    ]
    assert set(single) <= REFUSED, single
    assert found[-1] in REFUSED, "claims are not a node's to write"
    verify_checkpoint(bench.store, UID, CheckpointId(1, 1), bench.key, SystemClock())


def test_it_cannot_delete_or_overwrite_on_azure(azure: AzureServer, acting: Opener, tmp_path: Path) -> None:
    bench = Bench(store=acting(azure.url("hostile"), azure.environment()))
    bench.begin()
    bench.save(tmp_path, 1)
    before = objects_of(bench.store)
    tries: list[Try] = []
    for key in before:
        blocks = "<?xml version='1.0'?><BlockList></BlockList>"
        tries += [
            ("PUT", f"hostile/{key}", "", "mine"),
            ("PUT", f"hostile/{key}", "comp=blocklist", blocks),
            ("PUT", f"hostile/{key}", "comp=metadata", ""),
            ("DELETE", f"hostile/{key}", "", ""),
        ]
    found = run_hostile(
        {"do": "azure", "endpoint": azure.endpoint, "tries": tries}, azure.shared_access("rcl")
    )
    assert set(found) <= REFUSED, dict(zip(map(str, tries), found, strict=True))
    assert objects_of(bench.store) == before
    verify_checkpoint(bench.store, UID, CheckpointId(1, 1), bench.key, SystemClock())


def test_it_cannot_read_another_job(s3: S3Server, acting: Opener, tmp_path: Path) -> None:
    secret = os.urandom(64).hex().encode()
    store = acting(s3.url("others"), ADMIN.environment())
    other = Bench(store=store, uid=OTHER)
    other.begin()
    other.save(tmp_path / "other", 1, content=secret * 40)
    mine = Bench(store=store, fleet=other.fleet)
    mine.begin()
    mine.save(tmp_path / "mine", 1)

    node = acting(s3.url("others"), NODE.environment())  # it may read every object below jobs/
    for key, data in objects_of(node, OTHER).items():
        assert secret not in data, key
        assert b"step 1" not in data, f"{key}: a captured file lies open"
    for where in (OTHER, UID):
        with pytest.raises(DamagedError):
            fetch(
                node, where, CheckpointId(1, 1), mine.key if where == OTHER else other.key, tmp_path / where
            )
    for tried in (JobKey(bytes(32)), JobKey.new(), mine.key):
        with pytest.raises(DamagedError):
            verify_checkpoint(node, OTHER, CheckpointId(1, 1), tried, SystemClock())
    assert not list(tmp_path.glob(f"{OTHER}/**/*.img"))


def forgeries(
    uid: str, epoch: int, guard: str, real: FleetKey, own: Claim | None
) -> Iterator[tuple[str, bytes]]:
    """What somebody without the fleet's key can put in the place of a claim or a continues."""
    thief, nonce, at = FleetKey.new(), new_nonce(), "2026-12-01T00:00:00Z"
    claim = Claim(uid, epoch, "thief", nonce, at, Proof("cloud", epoch - 1, "node", guard, "thief", at))
    continues = Continues(uid, epoch, "genesis", None, "node", guard, "thief", nonce, at)
    signed = sign_record(claim, thief)
    yield f"{epoch}", signed
    yield f"{epoch + 1}", signed.replace(f'"epoch":{epoch}'.encode(), f'"epoch":{epoch + 1}'.encode())
    yield f"{epoch}.continues", sign_record(continues, thief)
    if own is not None:  # signed by the fleet, but about another job or epoch
        yield f"{epoch + 2}", sign_record(own, real)
    yield f"{epoch + 3}", b"{}"
    yield f"{epoch + 4}", os.urandom(64)


def test_it_cannot_forge_a_claim(s3: S3Server, acting: Opener, tmp_path: Path) -> None:
    s3.forbid(NODE, "s3:DeleteObject")  # the worst case: nothing keeps it from writing below epochs/
    bench = Bench(store=acting(s3.url("claims"), ADMIN.environment()))
    bench.begin()
    bench.save(tmp_path, 1)
    own = read_lineage(bench.store, UID, bench.fleet.verify_key).claims[1]
    planted = list(forgeries(UID, 2, "guard-a", bench.fleet, own))
    tries: list[Try] = [
        ("PUT", f"claims/jobs/{UID}/epochs/{name}", "", data.decode("latin-1")) for name, data in planted
    ]
    found = run_hostile({"do": "s3", "endpoint": s3.endpoint, "tries": tries}, NODE.environment())
    assert set(found) == {200}, "it must have written them for this to mean anything"
    lineage = read_lineage(bench.store, UID, bench.fleet.verify_key)
    assert lineage.highest_valid == 1
    with pytest.raises(NoProofError):
        lineage.may_start(2, "guard-a", new_nonce())
    assert bench.save(tmp_path, 2).checkpoint == CheckpointId(1, 2), "the running job's saves go on"


def test_it_cannot_freeze_another_job(s3: S3Server, acting: Opener, tmp_path: Path) -> None:
    s3.forbid(NODE, "s3:DeleteObject")
    fleet = Fleet(tmp_path)
    fleet.url = s3.url("freeze")
    controller = acting(fleet.url, ADMIN.environment())
    node = Node(tmp_path / "a", NODE.environment())
    try:
        node.start()
        answer = node.call("start", request=request(), job=fleet.job(), grant=fleet.genesis(node.guard))
        pid = int(answer["job"]["pid"])
        wait_for("a save", node.checkpoint)
        other = dataclasses.replace(
            Claim(OTHER, 1, "console", new_nonce(), "2026-12-01T00:00:00Z", FIRST), epoch=4
        )
        for name, data in forgeries(fleet.uid, 2, node.guard, fleet.key, other):
            controller.create(layout.job(fleet.uid, "epochs", name), data)
        wait_for("the forgeries were seen", lambda: "lineage.invalid_claim" in node.kinds(), 30)
        before = node.checkpoint()
        wait_for(
            "two more saves",
            lambda: int(str(node.checkpoint()).split(".")[1]) > int(str(before).split(".")[1]) + 1,
            30,
        )
        assert node.state() in ("unrehearsed", "protected", "overdue")
        assert "job.zombie" not in node.kinds()
        wait_for("it runs", lambda: _runs(pid))
    finally:
        node.end()


def _runs(pid: int) -> bool:
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2] not in "TtZ"
