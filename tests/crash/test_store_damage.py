"""Random flips and cuts over committed files: all noticed before a restore, the fallback correct."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from backends.errors import DamagedError, NotFoundError, ReprieveError
from backends.ids import CheckpointId
from backends.store.fetch import fetch
from backends.store.files import FileStore
from backends.store.takeover import Choice, choose, claim_next, settle
from backends.store.verify import verify_checkpoint
from tests.support.store import UID, Bench


def damage(path: Path, chance: random.Random) -> bytes:
    """Flip a bit or cut the file; return what it was."""
    before = path.read_bytes()
    if chance.random() < 0.3:
        path.write_bytes(before[: chance.randrange(len(before))])
    else:
        changed = bytearray(before)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(changed))
    return before


def rounds(count: int, seed: int, tmp_path: Path) -> dict[str, int]:
    """Damage one file of a checkpoint at a time; count what happened."""
    bench = Bench(store=FileStore(tmp_path / "store"))
    bench.begin()
    for seq in (1, 2, 3):
        bench.save(tmp_path, seq)
    taker = bench.taker()
    settle(taker)
    claim = claim_next(taker, bench.proof())
    chance = random.Random(seed)
    counts = {"noticed": 0, "fell back": 0}

    def pick() -> Choice:
        return choose(
            taker, claim, bench.key,
            lambda identity: verify_checkpoint(bench.store, UID, identity, bench.key, bench.clock).manifest,
        )  # fmt: skip

    assert pick().checkpoint == CheckpointId(1, 3)
    for turn in range(count):
        hit = CheckpointId(1, chance.choice((2, 3, 3, 3)))
        parts = [p for p in (tmp_path / "store").rglob("*") if p.is_file() and f"/{hit}/" in str(p)]
        path = chance.choice(sorted(parts))
        before = damage(path, chance)
        with pytest.raises((DamagedError, NotFoundError)) as caught:
            fetch(bench.store, UID, hit, bench.key, tmp_path / f"into{turn}")
        assert str(hit) in caught.value.message, caught.value.message
        counts["noticed"] += 1
        choice = pick()
        expected = CheckpointId(1, 2) if hit.seq == 3 else CheckpointId(1, 3)
        assert choice.checkpoint == expected
        if hit.seq == 3:
            counts["fell back"] += 1
            assert choice.skipped[0][0] == hit
            assert choice.extra_loss_s in (60.0, None)
        path.write_bytes(before)
    assert pick().checkpoint == CheckpointId(1, 3)
    return counts


def test_200_flips_and_cuts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = rounds(200, 20261201, tmp_path)
    with capsys.disabled():
        print(f"\nflips and cuts: {counts}, seed 20261201")
    assert counts["noticed"] == 200


@pytest.mark.prove
def test_1000_flips_and_cuts(tmp_path: Path) -> None:
    assert rounds(1000, 7, tmp_path)["noticed"] == 1000


def test_flips_in_claims_and_continues_start_nothing_and_choose_no_orphan(tmp_path: Path) -> None:
    bench = Bench(store=FileStore(tmp_path / "store"))
    bench.begin()
    bench.save(tmp_path, 1)
    bench.take_over()
    bench.save(tmp_path, 1, epoch=2)
    chance = random.Random(5)
    nonce = bench.taker().lineage().current()
    assert nonce is not None
    for path in sorted((tmp_path / "store").rglob("epochs/*")):
        for _ in range(12):
            before = damage(path, chance)
            lineage = bench.taker().lineage()
            assert lineage.problems
            if path.name.startswith("2"):
                with pytest.raises(ReprieveError):
                    lineage.may_start(2, "guard-b", nonce.nonce)
            assert not lineage.on_chain(CheckpointId(1, 2))
            assert lineage.on_chain(CheckpointId(2, 1)) or path.name == "1.continues"
            path.write_bytes(before)
