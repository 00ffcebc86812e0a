"""Random flips and cuts over every kind of committed file: all noticed before a restore, the fallback correct."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from backends.errors import ReprieveError
from backends.ids import CheckpointId
from backends.store.format.manifests import load_full, load_manifest
from backends.store.verify import read_attestation
from tests.support.damage import NEEDS, NEWEST, ORPHAN, Damaged, Scene, damage
from tests.support.store import UID

KINDS = ("manifest", "pack", "index", "files", "full.json", "full's pack", "verified", "claim", "continues")


def check_data(scene: Scene, hit: set[CheckpointId], path: Path) -> None:
    """What needs the damaged object is refused by name, and the newest of the others is chosen, byte for byte."""
    for identity in hit:
        with pytest.raises(Damaged) as caught:
            scene.fetch(identity)
        assert str(identity) in caught.value.message or path.parent.name in caught.value.message
    choice = scene.choose()
    expected = max(set(NEEDS) - hit)
    assert choice.checkpoint == expected
    assert [identity for identity, _ in choice.skipped] == sorted(
        (i for i in hit if i > expected), reverse=True
    )
    assert ORPHAN in choice.orphans
    scene.check(expected)


def check_record(scene: Scene, kind: str, path: Path) -> None:
    """A damaged record of the lineage is a problem by name; nothing starts under it, and no orphan is chosen."""
    lineage = scene.bench.taker().lineage()
    assert any(f"epochs/{path.name}" in problem for problem in lineage.problems), lineage.problems
    assert not lineage.on_chain(ORPHAN)
    if path.name.partition(".")[0] == "2":
        with pytest.raises(ReprieveError):
            lineage.may_start(2, "guard-b", scene.nonce)
    try:
        choice = scene.choose()
    except ReprieveError:
        return  # it refuses to choose while it cannot be read: the operator's word is needed
    assert choice.checkpoint == NEWEST, f"{kind} {path.name} is damaged"


def rounds(count: int, seed: int, tmp_path: Path) -> Counter[str]:
    """Damage one file at a time, each kind as often as the others; count what was noticed."""
    scene, chance = Scene(tmp_path), random.Random(seed)
    assert scene.choose().checkpoint == NEWEST
    scene.check(NEWEST)
    counts: Counter[str] = Counter()
    for turn in range(count):
        kind = KINDS[turn % len(KINDS)]
        path, within, hit = scene.target(kind, chance)
        before = damage(path, chance, within)
        if kind in ("claim", "continues"):
            check_record(scene, kind, path)
        elif kind == "verified":
            identity = CheckpointId.parse(path.parent.name)
            assert (
                read_attestation(scene.store, UID, identity, "verified", scene.bench.fleet.verify_key) is None
            )
            assert scene.choose().checkpoint == NEWEST
        elif kind == "full.json":
            manifest = load_manifest(scene.store, UID, NEWEST, scene.bench.key)
            assert load_full(scene.store, UID, manifest, scene.bench.key) is None
            check_data(scene, set(), path)  # by its own packs and its parent's
        elif kind == "full's pack" or (kind == "index" and hit == {NEWEST}):
            with pytest.raises(Damaged):
                scene.verify(NEWEST)
            check_data(scene, set(), path)  # by its own packs and its parent's
        else:
            check_data(scene, hit, path)
        counts[kind] += 1
        path.write_bytes(before)
    assert scene.choose().checkpoint == NEWEST
    return counts


@pytest.mark.parametrize("count", [180, pytest.param(1000, marks=pytest.mark.prove)])
def test_flips_and_cuts_are_all_noticed(
    count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = 20261201 + count
    counts = rounds(count, seed, tmp_path)
    with capsys.disabled():
        print(f"\nflips and cuts: {counts.total()} noticed of {count}, {dict(counts)}, seed {seed}")
    assert counts.total() == count
    assert min(counts[kind] for kind in KINDS) >= count // len(KINDS)


def test_hints_decide_nothing(tmp_path: Path) -> None:
    """`latest` and the header of a job: whatever stands there, the choice is the same."""
    scene, chance = Scene(tmp_path), random.Random(3)
    for name in ("latest", "job.json"):
        path = scene.job / name
        for _ in range(5):
            before = damage(path, chance, None)
            assert scene.choose().checkpoint == NEWEST
            path.write_bytes(before)
