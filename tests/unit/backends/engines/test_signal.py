"""When a program's own save counts as complete, and what is brought back."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.clock import SystemClock
from backends.engines.port import OpenFile, Process, RestoreRequest, SaveRequest
from backends.engines.signal import SignalEngine, signal_number
from backends.engines.system.markers import Shape, Watch, is_temporary, matches, matching, newest, shape
from backends.errors import EngineError
from backends.records.job import Job
from tests.support.engines import spawn, until

CLOCK = SystemClock()


def form(name: str, size: int, mtime: int) -> Shape:
    return ((name, 1, size, mtime),)


@pytest.mark.parametrize(("text", "number"), [("USR1", 10), ("sigusr2", 12), (" 10 ", 10), ("SIGTERM", 15)])
def test_signal_names(text: str, number: int) -> None:
    assert signal_number(text) == number


@pytest.mark.parametrize("text", ["", "USR9", "999", "USR1; rm", "\x1b[31m"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(EngineError, match="is not one"):
        signal_number(text)


@pytest.mark.parametrize("name", ["x.tmp", "x.pt.part", ".hidden", "tmpabc", "x~", "X.TMP", "a.incomplete"])
def test_temporary_names(name: str) -> None:
    assert is_temporary(name)
    assert not is_temporary("step-100.pt")


def test_what_says_that_a_directory_is_unfinished(tmp_path: Path) -> None:
    save = tmp_path / "checkpoint-5"
    save.mkdir()
    (save / "trainer_state.json").write_text("{}")
    assert shape(save) is not None
    (save / "checkpoint-is-incomplete.txt").write_text("")
    assert shape(save) is None


def feed(watch: Watch, *looks: dict[str, Shape], busy: frozenset[str] = frozenset()) -> list[str | None]:
    return [watch.see(look, busy) for look in looks]


def test_a_save_counts_once_it_is_new_and_still() -> None:
    old, growing, still = form("a", 9, 1), form("b", 5, 2), form("b", 8, 3)
    watch = Watch.start({"a": old})
    looks = [{"a": old}, {"a": old, "b": growing}] + [{"a": old, "b": still}] * 4
    assert feed(watch, *looks) == [None, None, None, None, None, "b"]


def test_the_older_save_is_never_taken_for_the_new_one() -> None:
    old = form("a", 9, 1)
    assert feed(Watch.start({"a": old}), *[{"a": old}] * 9) == [None] * 9


def test_a_save_written_anew_under_the_same_name_counts() -> None:
    watch = Watch.start({"a": form("a", 9, 1)})
    assert feed(watch, *[{"a": form("a", 9, 5)}] * 4)[-1] == "a"


def test_while_the_newest_is_written_nothing_is_chosen() -> None:
    watch = Watch.start({})
    looks: list[dict[str, Shape]] = [{"a": form("a", 9, 1)}] + [
        {"a": form("a", 9, 1), "b": form("b", size, 10 + size)} for size in range(1, 6)
    ]
    assert feed(watch, *looks) == [None] * 6


def test_a_save_held_open_for_writing_is_not_complete() -> None:
    watch = Watch.start({})
    look = {"a": form("a", 9, 1)}
    assert feed(watch, *[look] * 8, busy=frozenset({"a"})) == [None] * 8
    assert feed(watch, *[look] * 4)[-1] == "a"


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=3), max_size=12))
def test_what_is_chosen_was_still_for_three_looks(steps: list[dict[str, int]]) -> None:
    watch = Watch.start({})
    looks = [{name: form(name, size, size) for name, size in step.items()} for step in steps]
    for index, look in enumerate(looks):
        chosen = watch.see(look, frozenset())
        if chosen is not None:
            assert all(past.get(chosen) == look[chosen] for past in looks[index - 3 : index])
            assert index >= 3
            assert chosen == newest(look)


def test_shapes(tmp_path: Path) -> None:
    save = tmp_path / "save"
    assert shape(save) is None
    save.mkdir()
    assert shape(save) is None, "an empty directory is no save"
    (save / "one").write_text("1")
    assert shape(save) is not None
    (save / "two.tmp").write_text("2")
    assert shape(save) is None, "something inside is unfinished"
    (tmp_path / "link").symlink_to(save / "one")
    assert shape(tmp_path / "link") is None


def test_a_marker_inside_marks_its_directory(tmp_path: Path) -> None:
    for step in ("1", "2"):
        (tmp_path / "ckpt" / step).mkdir(parents=True)
        (tmp_path / "ckpt" / step / "state").write_text("x")
    (tmp_path / "ckpt" / "1" / "COMPLETE").write_text("")
    assert list(matches("ckpt/*/COMPLETE", str(tmp_path))) == [str(tmp_path / "ckpt" / "1")]
    assert matching("ckpt/*", str(tmp_path)) == [str(tmp_path / "ckpt" / n) for n in ("1", "2")]
    assert matching(str(tmp_path / "ckpt/1/COMPLETE"), "/") == [str(tmp_path / "ckpt/1/COMPLETE")]


def test_magic_in_the_directory_is_taken_literally(tmp_path: Path) -> None:
    home = tmp_path / "a[b]*"
    home.mkdir()
    (home / "s1").write_text("x")
    assert matching("s*", str(home)) == [str(home / "s1")]


@pytest.fixture
def engine(tmp_path: Path) -> SignalEngine:
    return SignalEngine(tmp_path / "run", CLOCK)


def program(tmp_path: Path, body: str) -> Process:
    source = f"import signal, time, pathlib, os\nhome = pathlib.Path({str(tmp_path)!r})\n{body}\n(home / 'up').touch()\nwhile True: time.sleep(0.01)"
    process = spawn([sys.executable, "-S", "-s", "-c", source], tmp_path)
    until((tmp_path / "up").exists, "the program")
    return process


def request(tmp_path: Path, process: Process, job: Job, deadline_s: float = 1.0) -> SaveRequest:
    place = tmp_path / "save"
    place.mkdir(mode=0o700)
    return SaveRequest(job, process, place, deadline_s, 10.0)


def test_a_program_that_does_not_listen_is_not_shot(engine: SignalEngine, tmp_path: Path) -> None:
    process = program(tmp_path, "")
    job = Job("j", "n", marker="s*", resume=("x",), cwd=str(tmp_path))
    try:
        assert "catches SIGUSR1" in engine.examine(job, process).reasons[0]
        with pytest.raises(EngineError, match="no process of job j catches SIGUSR1"):
            engine.save(request(tmp_path, process, job), lambda: None)
        assert engine.examine(Job("j", "n"), process).answer == "impossible"
        assert len(engine.examine(Job("j", "n"), process).reasons) == 3
    finally:
        engine.end(process)


def test_a_save_that_never_ends_is_never_chosen(engine: SignalEngine, tmp_path: Path) -> None:
    body = "def save(*_):\n    global f\n    f = open(home / 's1', 'w'); f.write('half'); f.flush()\nsignal.signal(10, save)"
    process = program(tmp_path, body)
    job = Job("j", "n", marker="s[0-9]", resume=("x",), cwd=str(tmp_path))
    try:
        with pytest.raises(EngineError, match=r"no new complete save matched s\[0-9\] within 1 s"):
            engine.save(request(tmp_path, process, job), lambda: None)
    finally:
        engine.end(process)


def test_a_program_that_dies_while_saving_is_told(engine: SignalEngine, tmp_path: Path) -> None:
    process = program(tmp_path, "signal.signal(10, lambda *_: os._exit(1))")
    job = Job("j", "n", marker="s[0-9]", resume=("x",), cwd=str(tmp_path))
    with pytest.raises(EngineError, match="ended while it was asked"):
        engine.save(request(tmp_path, process, job, 10.0), lambda: None)
    engine.end(process)


def restore_request(tmp_path: Path, job: Job) -> RestoreRequest:
    (tmp_path / "save" / "files").mkdir(parents=True)
    (tmp_path / "save" / "files" / "00000").write_text("good")
    file = OpenFile(str(tmp_path / "s5"), 4, 0o600, os.getuid(), os.getgid(), "00000", "declared")
    details = {"cwd": str(tmp_path), "saved_mtime_ns": 5_000}
    return RestoreRequest(job, tmp_path / "save", (file,), details, 5.0, tmp_path / "aside")


def test_newer_saves_of_another_life_are_set_aside(engine: SignalEngine, tmp_path: Path) -> None:
    for name, when in (("s1", 1_000), ("s9", 9_000)):
        (tmp_path / name).write_text("other life")
        os.utime(tmp_path / name, ns=(when, when))
    argv = (sys.executable, "-S", "-s", "-c", "import time; time.sleep(60)")
    process = engine.restore(
        restore_request(tmp_path, Job("j", "n", marker="s*[0-9]", resume=argv, cwd=str(tmp_path)))
    )
    try:
        assert (tmp_path / "s1").exists()
        assert not (tmp_path / "s9").exists()
        assert (tmp_path / "s5").read_text() == "good"
        assert any(path.read_text() == "other life" for path in (tmp_path / "aside").glob("0*"))
    finally:
        engine.end(process)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ((sys.executable, "-S", "-c", "raise SystemExit(3)"), "ended right after it came back"),
        (("/absent/program",), "could not be started"),
    ],
)
def test_a_resume_that_fails_leaves_the_files_as_they_were(
    engine: SignalEngine, tmp_path: Path, argv: tuple[str, ...], text: str
) -> None:
    (tmp_path / "s5").write_text("before")
    with pytest.raises(EngineError, match=text):
        engine.restore(
            restore_request(tmp_path, Job("j", "n", marker="s*[0-9]", resume=argv, cwd=str(tmp_path)))
        )
    assert (tmp_path / "s5").read_text() == "before"


def test_a_resume_that_finishes_at_once_is_well(engine: SignalEngine, tmp_path: Path) -> None:
    argv = (sys.executable, "-S", "-c", "")
    process = engine.restore(
        restore_request(tmp_path, Job("j", "n", marker="s*[0-9]", resume=argv, cwd=str(tmp_path)))
    )
    until(lambda: engine.outcome(process) is not None, "its end")
    assert engine.outcome(process) == 0
