"""What every engine promises, the fake included: one suite, run by `test_engine_*.py` with their own `bench`."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.engines.port import Process, RestoreRequest, Saved, SaveRequest
from backends.errors import EngineError
from tests.support.engines import CLOCK, Bench


def save(bench: Bench, process: Process, directory: Path) -> Saved:
    directory.mkdir(mode=0o700)
    return bench.engine.save(SaveRequest(bench.job, process, directory, 20.0, 20.0), lambda: None)


def restored(bench: Bench, saved: Saved, directory: Path, scratch: Path | None = None) -> Process:
    request = RestoreRequest(
        bench.job,
        directory,
        saved.files,
        saved.details,
        20.0,
        directory.with_name(f"{directory.name}.aside"),
        scratch,
    )
    return bench.engine.restore(request)


class EngineSuite:
    """Subclasses offer a fixture `bench`."""

    def test_it_is_ready(self, bench: Bench) -> None:
        assert bench.engine.ready().answer == "ok"
        assert bench.engine.ready().engine == bench.engine.name

    def test_a_good_job_is_ok_and_a_gone_one_is_not(self, bench: Bench) -> None:
        process = bench.start()
        verdict = bench.engine.examine(bench.job, process)
        assert (verdict.answer, verdict.engine) == ("ok", bench.engine.name), verdict.reasons
        bench.engine.end(process)
        gone = bench.engine.examine(bench.job, process)
        assert gone.answer != "ok"
        assert gone.reasons

    def test_the_job_runs_on_after_a_save(self, bench: Bench, tmp_path: Path) -> None:
        process = bench.start()
        calls: list[str] = []
        directory = tmp_path / "save"
        directory.mkdir(mode=0o700)
        request = SaveRequest(bench.job, process, directory, 20.0, 20.0)
        saved = bench.engine.save(request, lambda: calls.append("frozen"))
        count = len(bench.steps())
        bench.advance()
        assert calls == ["frozen"]
        assert bench.lives(process)
        assert len(bench.steps()) > count
        assert saved.frozen_s > 0
        assert saved.dump_s >= 0
        assert saved.size_bytes > 0
        assert saved.processes
        assert saved.files

    def test_it_comes_back_three_times_and_ends_as_if_nothing_had_been(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        process = bench.start()
        for number in range(3):
            saved = save(bench, process, tmp_path / f"save{number}")
            bench.advance()
            bench.engine.end(process)
            before = bench.steps()
            process = restored(bench, saved, tmp_path / f"save{number}")
            bench.advance()
            after = bench.steps()
            assert after == list(range(1, len(after) + 1)), "steps lost or repeated"
            assert before[0] == 1
        assert bench.finish()

    def test_saving_a_gone_process_is_refused(self, bench: Bench, tmp_path: Path) -> None:
        process = bench.start()
        bench.engine.end(process)
        with pytest.raises(EngineError, match="gone"):
            save(bench, process, tmp_path / "save")

    def test_an_incomplete_checkpoint_is_refused(self, bench: Bench, tmp_path: Path) -> None:
        process = bench.start()
        saved = save(bench, process, tmp_path / "save")
        bench.engine.end(process)
        count = bench.steps()
        for entry in [*(tmp_path / "save" / "images").iterdir(), *(tmp_path / "save" / "files").iterdir()]:
            entry.unlink()
        with pytest.raises(EngineError):
            restored(bench, saved, tmp_path / "save")
        assert bench.steps() == count, "a failed restore leaves the files as they were"

    def test_a_directory_that_is_used_already_is_refused(self, bench: Bench, tmp_path: Path) -> None:
        process = bench.start()
        save(bench, process, tmp_path / "save")
        request = SaveRequest(bench.job, process, tmp_path / "save", 20.0, 20.0)
        with pytest.raises(EngineError):
            bench.engine.save(request, lambda: None)
        count = len(bench.steps())
        bench.advance()
        assert len(bench.steps()) > count

    def test_a_frozen_job_stands_still_until_it_is_thawed(self, bench: Bench) -> None:
        process = bench.start()
        bench.engine.thaw(process)
        bench.engine.freeze(process)
        bench.engine.freeze(process)
        count = len(bench.steps())
        bench.advance()
        assert len(bench.steps()) == count
        bench.engine.thaw(process)
        bench.engine.thaw(process)
        bench.advance()
        assert len(bench.steps()) > count

    def test_the_end_is_the_end(self, bench: Bench) -> None:
        process = bench.start()
        bench.engine.end(process)
        bench.engine.end(process)
        assert not bench.lives(process)
        bench.engine.thaw(process)

    def test_a_frozen_job_can_be_ended(self, bench: Bench) -> None:
        process = bench.start()
        bench.engine.freeze(process)
        bench.engine.end(process)
        assert not bench.lives(process)

    def test_a_rehearsal_touches_nothing_and_leaves_nothing(self, bench: Bench, tmp_path: Path) -> None:
        process = bench.start()
        saved = save(bench, process, tmp_path / "save")
        bench.advance()
        bench.engine.end(process)
        before = bench.steps()
        scratch = tmp_path / "scratch"
        scratch.mkdir(mode=0o700)
        rehearsed = restored(bench, saved, tmp_path / "save", scratch)
        assert bench.steps() == before
        assert not bench.lives(rehearsed)
        bench.engine.end(rehearsed)
        process = restored(bench, saved, tmp_path / "save")
        bench.advance()
        assert bench.steps() == list(range(1, len(bench.steps()) + 1))


class StandingSuite:
    """What a group save needs of an engine beyond that: a tree that stands still already can be saved, and stays so."""

    def test_a_tree_that_stands_still_stays_so_after_a_save(self, bench: Bench, tmp_path: Path) -> None:
        process = bench.start()
        bench.engine.freeze(process)
        before = bench.steps()
        saved = save(bench, process, tmp_path / "save")
        CLOCK.sleep(0.2)
        assert bench.steps() == before
        bench.engine.thaw(process)
        bench.advance()
        bench.engine.end(process)
        restored(bench, saved, tmp_path / "save")
        bench.advance()
        after = bench.steps()
        assert after == list(range(1, len(after) + 1))
        assert len(after) > len(before)
