"""Real-world cases of the areas commit, retention, manifest, durability and secrets, by id: the store's part."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from backends.engines.profile import GENERATIONS
from backends.errors import DamagedError, ExistsError, ReprieveError
from backends.fakes.store import Fault, MemoryStore
from backends.ids import CheckpointId
from backends.records.manifest import FileEntry
from backends.records.strict import canonical, loads, to_document
from backends.store import layout
from backends.store.fetch import fetch
from backends.store.files import FileStore
from backends.store.format.manifests import NewerFormatError, list_job, load_manifest, open_manifest
from backends.store.retention import Plan, Policy, make_plan, run
from backends.store.takeover import Choice, choose, claim_next, settle
from backends.store.verify import verify_checkpoint
from tests.support.data import case
from tests.support.store import NOW, UID, Bench, make_save

ONE = CheckpointId(1, 1)


@pytest.fixture
def bench() -> Bench:
    found = Bench()
    found.begin()
    return found


def memory(bench: Bench) -> MemoryStore:
    assert isinstance(bench.store, MemoryStore)
    return bench.store


def restore_point(bench: Bench) -> Choice:
    """What a takeover would continue from."""
    taker = bench.taker()
    settle(taker)
    claim = claim_next(taker, bench.proof())
    return choose(
        taker, claim, bench.key,
        lambda identity: verify_checkpoint(bench.store, bench.uid, identity, bench.key, bench.clock).manifest,
    )  # fmt: skip


def retain(bench: Bench, keep_last: int = 1, min_age_s: float = 0.0) -> Plan:
    policy = Policy(keep_last, min_age_s)
    decided = make_plan(bench.store, bench.uid, bench.key, bench.fleet.verify_key, policy, bench.clock)
    run(bench.store, decided, bench.clock)
    return decided


def test_rc_02_the_pointer_is_a_hint_and_a_repeated_save_no_error(bench: Bench, tmp_path: Path) -> None:
    story = case(2)
    for entry in story["input"]["store"]["seq"]:
        source = make_save(tmp_path / str(entry["seq"]), {"a": b"%d" % entry["seq"]})
        if entry["seq"] == story["expected"]["restore_point"]:
            memory(bench).script = [Fault("full", "replace", "latest")]
        committed = bench.committer().commit(entry["seq"], source)
    assert any("latest" in warning and "no space" in warning for warning in committed.warnings)
    pointer = loads(memory(bench).read(layout.latest(UID)), what="latest")
    assert pointer == {"checkpoint": f"1.{story['input']['store']['latest_pointer']}"}
    assert bench.committer().commit(7, source).repeated
    other = make_save(tmp_path / "other", {"a": b"other"})
    with pytest.raises(ExistsError):
        bench.committer().commit(7, other)
    assert bench.committer().commit(bench.committer().next_seq(), other).checkpoint == CheckpointId(1, 8)
    memory(bench).objects = {k: v for k, v in memory(bench).objects.items() if "/1.8/" not in k}
    assert restore_point(bench).checkpoint == CheckpointId(1, story["expected"]["restore_point"])


def test_rc_03_a_torn_newest_save_is_listed_and_not_chosen(bench: Bench, tmp_path: Path) -> None:
    story = case(3)
    seqs = {entry["name"]: int(entry["name"]) // 100 for entry in story["input"]["dirs"]}
    for entry in story["input"]["dirs"]:
        if not entry["manifest"]:
            memory(bench).script = [Fault("silent", "create", "packs/", at=2, times=0)]
            with pytest.raises(ReprieveError):
                bench.save(tmp_path, seqs[entry["name"]])
            memory(bench).script = []
        else:
            bench.save(tmp_path, seqs[entry["name"]])
    listing = list_job(bench.store, UID)
    torn = CheckpointId(1, seqs["000300"])
    assert listing.incomplete == [torn]
    assert restore_point(bench).checkpoint == CheckpointId(1, seqs[story["expected"]["restore_point"]])
    assert list_job(bench.store, UID).incomplete == [torn]
    assert retain(bench).keys == ()


@pytest.mark.parametrize("death", range(6))
def test_rc_04_a_death_at_any_point_leaves_a_verified_save(bench: Bench, tmp_path: Path, death: int) -> None:
    point = case(4)["input"]["new"]["dies_at"][death]
    script = {
        "before dump": Fault("silent", "list", times=0),
        "during dump": Fault("silent", "list", times=0),
        "during upload at 60%": Fault("silent", "create", "files/", times=0),
        "after data, before manifest": Fault("silent", "create", "manifest.json", times=0),
        "after manifest, before read-back": Fault("silent", "read", "1.8/manifest.json", times=0),
        "during retention": Fault("silent", "delete", at=2, times=0),
    }[point]
    for seq in (6, 7):
        bench.save(tmp_path, seq)
        bench.verified(CheckpointId(1, seq))
    memory(bench).script = [script]
    try:
        bench.save(tmp_path, 8)
        bench.verified(CheckpointId(1, 8))
        retain(bench)
    except ReprieveError:
        memory(bench).script = []
    else:
        pytest.fail("the death did not happen")
    chosen = restore_point(bench).checkpoint
    assert chosen in (CheckpointId(1, 7), CheckpointId(1, 8))
    if point == "during retention":
        assert chosen == CheckpointId(1, 8)


def test_rc_04_two_generations_lie_there_although_one_is_kept(bench: Bench, tmp_path: Path) -> None:
    assert case(4)["input"]["policy"]["keep_last"] == 1
    assert "two generations" in case(4)["expected"]["space_preflight"]
    for seq in (7, 8):
        bench.save(tmp_path, seq)
        retain(bench, keep_last=1)
        if seq == 7:
            bench.verified(CheckpointId(1, 7))
    assert list_job(bench.store, UID).checkpoints == [CheckpointId(1, 7), CheckpointId(1, 8)]
    assert GENERATIONS == 2, "what `jobs doctor` says of the store's disk"


def test_rc_05_retention_never_leaves_its_own_job(bench: Bench, tmp_path: Path) -> None:
    story = case(5)
    for name in story["input"]["store"]["job-a"]:
        bench.save(tmp_path, int(name))
        bench.verified(CheckpointId(1, int(name)))
    mine = {key for key in memory(bench).objects if UID in key}
    other = Bench(bench.store, bench.key, bench.fleet, uid="bbbbbbbbbbbbbbbbbbbb")
    other.begin()
    for seq in range(1, 7):
        source = make_save(tmp_path / f"b{seq}", {"a": b"%d" % seq})
        mentions = {"paths": story["input"]["manifest_000002_mentions"], "x": sorted(mine)}
        other.committer().commit(seq, replace(source, details=mentions))
        other.verified(CheckpointId(1, seq))
        retain(other)
    assert mine <= set(memory(bench).objects)
    assert list_job(bench.store, other.uid).checkpoints == [CheckpointId(1, 5), CheckpointId(1, 6)]


@pytest.mark.parametrize("place", range(15))
def test_rc_06_only_plain_relative_names_are_accepted(place: int, bench: Bench, tmp_path: Path) -> None:
    story = case(6)["input"]["entries"]
    entry = story[place]
    bench.save(tmp_path, 1)
    name = layout.checkpoint(UID, ONE)
    whole = loads(memory(bench).read(name), what="m")
    first = {**whole["files"][0], "copy": story[0]["path"], "mode": 0o644}
    second = {**first, "copy": entry["path"], "mode": int(entry.get("mode", "644"), 8)}
    if "type" in entry:
        second["type"] = entry["type"]
    document = {**whole, "files": [first] if place == 0 else [first, second]}
    document.pop("mac")
    data = canonical(document | {"mac": bench.key.mac(canonical(document))})
    if place == 0:
        open_manifest(data, UID, ONE, bench.key)
        return
    with pytest.raises(DamagedError):
        open_manifest(data, UID, ONE, bench.key)
    memory(bench).objects[name] = (data, NOW)
    with pytest.raises(DamagedError):
        fetch(bench.store, UID, ONE, bench.key, tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_rc_06_setuid_bits_are_never_recorded(bench: Bench, tmp_path: Path) -> None:
    source = make_save(tmp_path / "s", {}, {"f": b"1"})
    committed = bench.committer().commit(1, replace(source, files=(replace(source.files[0], mode=0o104777),)))
    assert committed.manifest.files[0].mode == 0o777
    with pytest.raises(ValueError, match="permission bits"):
        FileEntry(**(to_document(committed.manifest.files[0]) | {"mode": 0o4777}))


def test_rc_30_only_what_was_read_back_from_the_store_counts_as_durable(bench: Bench, tmp_path: Path) -> None:
    story = case(30)["input"]
    last = None
    for entry in story["saves"]:
        memory(bench).script = [] if entry["uploaded"] else [Fault("silent", "create", times=0)]
        source = make_save(
            tmp_path / str(entry["seq"]), {"a": b"%d" % entry["seq"]}, frozen_at=NOW + entry["t"]
        )
        try:
            last = bench.committer().commit(entry["seq"], source).checkpoint
        except ReprieveError:
            assert not entry["uploaded"]
    memory(bench).script = []
    assert last == CheckpointId(1, 18)
    choice = restore_point(bench)
    assert choice.checkpoint == last
    assert choice.manifest is not None
    assert choice.manifest.timings.frozen_at.startswith("2027-01-15T08:00:00")


def test_rc_35_a_second_user_reads_nothing_at_any_moment(tmp_path: Path) -> None:
    canary = case(35)["input"]["job_env"]["API_TOKEN"].encode()
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    old = os.umask(0o022)
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        poll = (
            "import os,sys\nos.setgid(65534); os.setuid(65534)\nprint('ready',flush=True)\nseen=0\n"
            "for _ in range(10**9):\n"
            "  for where,_,names in os.walk(sys.argv[1]):\n"
            "    for n in names:\n"
            "      try: open(os.path.join(where,n),'rb').read(); seen+=1; print('READ',where,n,flush=True)\n"
            "      except OSError: pass\n"
        )
        watcher = subprocess.Popen([sys.executable, "-c", poll, top], stdout=subprocess.PIPE, text=True)
        try:
            assert watcher.stdout is not None
            assert watcher.stdout.readline() == "ready\n"
            bench = Bench(FileStore(Path(top) / "store"))
            bench.begin()
            for seq in range(1, 21):
                bench.save(tmp_path, seq, content=canary * 100)
                fetch(bench.store, UID, CheckpointId(1, seq), bench.key, Path(top) / f"into{seq}")
        finally:
            os.umask(old)
            watcher.kill()
            rest = watcher.communicate(timeout=20)[0]
        assert rest == ""
        for path in (Path(top) / "store").rglob("*"):
            assert not path.is_file() or canary not in path.read_bytes()


def test_rc_36_newer_and_foreign_things_are_kept_and_never_guessed_at(bench: Bench, tmp_path: Path) -> None:
    story = case(36)
    bench.save(tmp_path, 3)
    base = loads(memory(bench).read(layout.checkpoint(UID, CheckpointId(1, 3))), what="m")
    base.pop("mac")
    placed = []
    for row in story["input"]["manifests"]:
        document = {**base, "seq": row["seq"], "keys": {f"1.{row['seq']}": base["keys"]["1.3"]}}
        document |= {"x_note": row["x_note"]} if "x_note" in row else {}
        document["format"] = row.get("schema")
        document["job_uid"] = UID if row["job"] == "j" else "bbbbbbbbbbbbbbbbbbbb"
        if "schema" not in row:
            document.pop("format")
        if row["seq"] != 3:
            document["packs"] = []
        data = canonical(document | {"mac": bench.key.mac(canonical(document))})
        key = f"{layout.checkpoints(UID)}1.{row['seq']}/manifest.json"
        memory(bench).objects[key] = (data, NOW)
        placed.append(key)
    for name in story["input"]["foreign_files"]:
        key = f"{layout.job(UID)}checkpoints/{name}" + ("x" if name.endswith("/") else "")
        memory(bench).objects[key] = (b"foreign", NOW)
        placed.append(key)
    listing = list_job(bench.store, UID)
    assert len(listing.foreign) == len(story["input"]["foreign_files"]) + 1  # and the one with seq -1
    with pytest.raises(NewerFormatError, match="never deleted"):
        load_manifest(bench.store, UID, CheckpointId(1, 4), bench.key)
    for seq in (5, 6, 7):
        with pytest.raises(DamagedError):
            load_manifest(bench.store, UID, CheckpointId(1, seq), bench.key)
    assert retain(bench).keys == ()
    assert restore_point(bench).checkpoint == CheckpointId(1, story["expected"]["accepted"][0])
    assert set(placed) <= set(memory(bench).objects)
