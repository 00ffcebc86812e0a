"""Seeded races of the real code: two takers, a duplicate, zombies, retention."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.ids import CheckpointId
from backends.store import commit
from backends.store.lineage import Lineage
from tests.support import races
from tests.support.races import Race


def play_all(seeds: range, directory: Path) -> int:
    """Play every seed; the number of epochs reached in all. A violation names its seed."""
    epochs = 0
    for seed in seeds:
        race = Race(seed, directory / str(seed))
        try:
            race.play()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        epochs += max(race.started)
    return epochs


@pytest.mark.slow
def test_150_seeds_lose_nothing_and_start_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    epochs = play_all(range(150), tmp_path)
    with capsys.disabled():
        print(f"\ntakeover races: 150 seeds, {epochs} epochs reached, 0 violations")
    assert epochs > 300


@pytest.mark.prove
def test_5000_seeds(tmp_path: Path) -> None:
    assert play_all(range(1000, 6000), tmp_path) > 10_000


def test_a_commit_that_does_not_look_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit.Committer, "_check_fence", lambda self, identity: ())
    with pytest.raises(AssertionError, match="reported and lost"):
        play_all(range(500), tmp_path)


def test_an_epoch_left_open_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races, "settle", lambda taker: taker.lineage())
    monkeypatch.setattr(Lineage, "settled", lambda self, epoch: True)
    with pytest.raises(AssertionError, match=r"reported and lost|lives"):
        play_all(range(500), tmp_path)


def test_an_orphan_taken_for_the_newest_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a guard saved after it was taken over counts, where the epoch that followed saved nothing."""

    def any_of(
        self: Lineage, found: CheckpointId, below: int | None = None, *, past_doubt: bool = False
    ) -> bool:
        return below is None or found.epoch < below

    monkeypatch.setattr(Lineage, "on_chain", any_of)
    with pytest.raises(AssertionError, match="which is not on its chain"):
        play_all(range(500), tmp_path)
