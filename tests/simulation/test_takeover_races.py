"""Seeded races of the real code: two takers, a duplicate, zombies, retention."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.store import commit
from tests.support.races import Race


@pytest.mark.slow
def test_150_seeds_lose_nothing_and_start_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    epochs = 0
    for seed in range(150):
        race = Race(seed, tmp_path / str(seed))
        try:
            race.play()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        epochs += max(race.started)
    with capsys.disabled():
        print(f"\ntakeover races: 150 seeds, {epochs} epochs reached, 0 violations")
    assert epochs > 200


@pytest.mark.prove
def test_5000_seeds(tmp_path: Path) -> None:
    for seed in range(1000, 6000):
        Race(seed, tmp_path / str(seed)).play()


def test_a_commit_that_does_not_look_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit.Committer, "_check_fence", lambda self, identity: ())
    with pytest.raises(AssertionError, match="reported and lost"):
        play_all(tmp_path)


def play_all(tmp_path: Path) -> None:
    """Enough seeds to find a planted bug."""
    for seed in range(500):
        Race(seed, tmp_path / str(seed)).play()
