"""Programs that save on their own schedule: which save is taken, and from when its work counts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.clock import SystemClock
from backends.engines.port import OpenFile, Process, RestoreRequest, Saved, SaveRequest
from backends.engines.signal import SignalEngine, signal_number
from backends.engines.system.births import birth_ns
from backends.engines.system.markers import Shape, Watch, begun_s, matching
from backends.engines.system.rollback import Rollback
from backends.errors import EngineError
from backends.records.job import Job
from backends.records.presets import PRESETS, preset_fields
from console.registry.common import POLICY
from tests.support.engines import spawn, until

CLOCK = SystemClock()
ROOT = Path(__file__).parents[4]
# Writes save-<n> slowly under another name and renames; `began` holds when the state of each was fixed.
SLOWLY = """
for n in range(1, 100):
    while not (home / f"go{n}").exists(): time.sleep(0.01)
    with open(home / "began", "a") as log: log.write(f"{time.time()}\\n")
    with open(home / "next.tmp", "w") as out:
        out.write("half"); out.flush(); time.sleep(0.3); out.write("whole")
    os.rename(home / "next.tmp", home / f"save-{n}")
"""
IN_PLACE = """
for n in range(1, 100):
    while not (home / f"go{n}").exists(): time.sleep(0.01)
    with open(home / "began", "a") as log: log.write(f"{time.time()}\\n")
    with open(home / "save-1", "w") as out:
        out.write("half"); out.flush(); time.sleep(0.3); out.write(str(n))
"""


@pytest.fixture
def engine(tmp_path: Path) -> SignalEngine:
    return SignalEngine(tmp_path / "run", CLOCK)


def program(home: Path, body: str) -> Process:
    source = f"import os, pathlib, time\nhome = pathlib.Path({str(home)!r})\n(home / 'up').touch()\n{body}"
    process = spawn([sys.executable, "-S", "-s", "-c", source], home)
    until((home / "up").exists, "the program")
    return process


def job(home: Path) -> Job:
    return Job("j", "n", signal="none", marker="save-*", resume=("x",), cwd=str(home))


def save(engine: SignalEngine, process: Process, home: Path, name: str, deadline_s: float = 15.0) -> Saved:
    place = home / name
    place.mkdir(mode=0o700)
    return engine.save(SaveRequest(job(home), process, place, deadline_s, 10.0), lambda: None)


def began(home: Path) -> float:
    return float((home / "began").read_text().split()[-1])


def test_no_signal_is_needed_and_nobody_must_listen(engine: SignalEngine, tmp_path: Path) -> None:
    assert signal_number("none") is None
    process = program(tmp_path, "time.sleep(60)")
    try:
        assert engine.examine(job(tmp_path), process).answer == "ok"
    finally:
        engine.end(process)


def test_a_save_made_before_we_asked_is_taken_once(engine: SignalEngine, tmp_path: Path) -> None:
    process = program(tmp_path, SLOWLY)
    try:
        if birth_ns(str(tmp_path / "up")) is None:
            pytest.skip("this file system does not tell when a file was created")
        (tmp_path / "go1").touch()
        until((tmp_path / "save-1").exists, "the program's first save")
        first = save(engine, process, tmp_path, "s1")
        assert [Path(file.path).name for file in first.files] == ["save-1"]
        assert began(tmp_path) - 0.1 <= first.frozen_at <= began(tmp_path) + 0.1
        assert 0.2 < first.frozen_s < 2.0, "what the program itself took"
        now = CLOCK.wall() - CLOCK.monotonic()
        assert abs(first.frozen_at - first.frozen_at_monotonic - now) < 0.1
        with pytest.raises(EngineError, match="no new complete save matched") as refused:
            save(engine, process, tmp_path, "s2", 0.5)
        assert "its own schedule" in (refused.value.hint or "")
        (tmp_path / "go2").touch()
        second = save(engine, process, tmp_path, "s3")
        assert [Path(file.path).name for file in second.files] == ["save-2"]
        assert second.frozen_at <= began(tmp_path) + 0.1
    finally:
        engine.end(process)


def test_a_save_of_an_earlier_program_is_not_its_own(engine: SignalEngine, tmp_path: Path) -> None:
    (tmp_path / "save-0").write_text("of somebody else")
    CLOCK.sleep(0.05)
    process = program(tmp_path, SLOWLY)
    try:
        with pytest.raises(EngineError, match="no new complete save"):
            save(engine, process, tmp_path, "s1", 0.5)
    finally:
        engine.end(process)


@pytest.mark.parametrize("under_way", [False, True])
def test_a_save_overwritten_in_place_counts_from_before_it_was_touched(
    engine: SignalEngine, tmp_path: Path, under_way: bool
) -> None:
    process = program(tmp_path, IN_PLACE)
    try:
        (tmp_path / "save-1").touch()  # born before: its birth tells nothing of the next save
        CLOCK.sleep(0.05)
        (tmp_path / "go1").touch()
        until((tmp_path / "began").exists, "the first save")
        save(engine, process, tmp_path, "s1")
        first = began(tmp_path)
        (tmp_path / "go2").touch()
        if under_way:
            until(lambda: began(tmp_path) != first, "the second save")
        second = save(engine, process, tmp_path, "s2")
        assert first < second.frozen_at <= began(tmp_path) + 0.1
        assert (tmp_path / "s2" / "files" / second.files[0].copy).read_text() == "half2"
    finally:
        engine.end(process)


FORM: Shape = (("a", 1, 5, 20_000_000_000), ("b", 2, 5, 30_000_000_000))


@pytest.mark.parametrize(
    ("births", "floor", "seen", "begun"),
    [
        ((18_000_000_000, None), 0, 29.0, 18.0),  # the oldest birth
        ((None, None), 0, 29.0, 20.0),  # none known: the oldest file's last write
        ((18_000_000_000, None), 25_000_000_000, 29.0, 29.0),  # both older than the save before: of no help
        ((26_000_000_000, None), 25_000_000_000, 12.0, 12.0),  # seen untouched last at 12 s
    ],
)
def test_when_the_writing_began(
    births: tuple[int | None, ...], floor: int, seen: float, begun: float
) -> None:
    assert begun_s(FORM, births, floor, seen) == begun


@given(
    st.lists(st.none() | st.integers(0, 10**11), min_size=2, max_size=2),
    st.integers(0, 10**11),
    st.floats(0, 200),
)
def test_it_is_never_later_than_the_last_look_without_it(
    births: list[int | None], floor: int, seen: float
) -> None:
    assert begun_s(FORM, births, floor, seen) <= seen


def test_a_watch_remembers_the_last_look_without_the_save() -> None:
    old, new = (("a", 1, 1, 1),), (("a", 1, 2, 2),)
    watch = Watch.start({"a": old}, 1.0)
    watch.see({"a": old}, frozenset(), 2.0)
    watch.see({"a": new}, frozenset(), 3.0)
    watch.see({"a": new, "b": new}, frozenset(), 4.0)
    assert watch.untouched == {"a": 2.0, "b": 3.0}
    fast = Watch.start({}, 1.0)
    fast.see({"b": new}, frozenset(), 2.0)
    assert fast.untouched == {"b": 1.0}


def test_a_half_written_newest_save_is_not_there_for_the_program_to_choose(
    engine: SignalEngine, tmp_path: Path
) -> None:
    for step, names in ((5, ("model", "trainer_state.json")), (10, ("model",))):
        place = tmp_path / f"checkpoint-{step}"
        place.mkdir()
        for name in names:
            (place / name).write_text("x")
        os.utime(place, ns=(step * 1_000, step * 1_000))
    marker = str(preset_fields("transformers")["marker"])
    assert matching(marker, str(tmp_path)) == [str(tmp_path / "checkpoint-5")]
    assert len(matching(marker, str(tmp_path), finished=False)) == 2
    (tmp_path / "save" / "files").mkdir(parents=True)
    (tmp_path / "save" / "files" / "0").write_text("x")
    file = OpenFile(str(tmp_path / "checkpoint-5/model"), 1, 0o600, os.getuid(), os.getgid(), "0", "declared")
    argv = (sys.executable, "-S", "-s", "-c", "import time; time.sleep(60)")
    found = Job("j", "n", signal="none", marker=marker, resume=argv, cwd=str(tmp_path))
    details = {"cwd": str(tmp_path), "saved_mtime_ns": 5_000}
    process = engine.restore(
        RestoreRequest(found, tmp_path / "save", (file,), details, 5.0, tmp_path / "aside")
    )
    try:
        assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-5"]
    finally:
        engine.end(process)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no second file system at /dev/shm")
def test_a_directory_on_another_disk_is_set_aside_and_put_back(tmp_path: Path) -> None:
    aside = Path("/dev/shm") / f"reprieve-test-{os.getpid()}"
    (tmp_path / "checkpoint-7").mkdir()
    (tmp_path / "checkpoint-7" / "model").write_text("newer")
    rollback = Rollback(aside=aside, movable=frozenset({str(tmp_path / "checkpoint-7")}))
    try:
        aside.mkdir(mode=0o700)
        rollback.set_aside(str(tmp_path / "checkpoint-7"))
        assert not (tmp_path / "checkpoint-7").exists()
        rollback.undo()
        assert (tmp_path / "checkpoint-7" / "model").read_text() == "newer"
    finally:
        for name in ("replaced.json",):
            (aside / name).unlink(missing_ok=True)
        aside.rmdir()


def test_every_preset_is_whole_and_described() -> None:
    for name, preset in PRESETS.items():
        found = preset_fields(name if preset.directory else f"{name}=/data/run")
        made = Job("j", "n", resume=("x",), **found)
        assert made.engine == "signal"
        assert signal_number(made.signal) == (None if preset.signal == "none" else 10)
        words = next(item for item in POLICY if item.name == "preset").help
        assert name in words
        assert f"| `{name}` |" in (ROOT / "docs/self-saving.md").read_text("utf-8")
    assert preset_fields("lightning")["marker"] == "checkpoints/last*.ckpt"
    assert preset_fields("lightning=/data/")["marker"] == "/data/last*.ckpt"
    assert preset_fields("ray-train=/data/run") == {
        "engine": "signal",
        "signal": "none",
        "marker": "/data/run/checkpoint_manager_snapshot.json",
        "files": ("/data/run",),
    }


@pytest.mark.parametrize("text", ["keras", "", "ray-train", "ray-train=", "slurm="])
def test_other_presets_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not one of lightning|needs the directory"):
        preset_fields(text)
