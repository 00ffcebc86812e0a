"""The ledger keeps what it was told, also after a kill, and never replaces a file it cannot read."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.errors import ReprieveError, StillRunningError, UsageError
from backends.ledger.locks import only_runner
from backends.ledger.records import Item, JobCurrent, NodeSeen, Reclaim, Run, SaveMeasure, Word
from backends.ledger.sqlite import SqliteLedger
from backends.records.event import Event


def reclaim(key: str, at: float = 5.0) -> Reclaim:
    return Reclaim(key, at, "train", "u" * 20, "a", False, None, 61.5, 60.0, 4.0, 2.0, "1.3", "b", 2, 1)


def test_everything_kept_is_read_back_by_a_second_opening(tmp_path: Path) -> None:
    path = tmp_path / "state" / "ledger.db"
    ledger = SqliteLedger(path)
    job = JobCurrent("train", "u" * 20, "a", 1, "protected", "1.3", 10.0, 11.0, 11.0, "", {"pid": 4})
    node = NodeSeen("a", 12.0, "g1", 0.5, "none", None, 7, {"x": 1}, {})
    ledger.put_job(job)
    ledger.put_node(node)
    ledger.put_reclaim(reclaim("r/1"))
    ledger.put_reclaim(reclaim("r/1", 6.0))
    ledger.add_save(SaveMeasure("u" * 20, "1.3", 9.0, 0.2, 1.5, 1000))
    ledger.add_save(SaveMeasure("u" * 20, "1.3", 9.0, 0.2, 1.5, 1000))
    ledger.add_observed("a", "p", 1800)
    ledger.add_observed("a", "p", 1800)
    ledger.add_word(Word(1.0, "root", "dead", "train", "u" * 20, 1))
    ledger.close()
    again = SqliteLedger(path)
    assert again.jobs() == {"u" * 20: job}
    assert again.nodes() == {"a": node}
    assert again.reclaims() == [reclaim("r/1", 6.0)]
    assert len(again.saves("u" * 20)) == 1
    assert again.observed_hours() == {"p": 1.0}
    assert [word.who for word in again.words()] == ["root"]
    assert path.stat().st_mode & 0o777 == 0o600
    again.close()


def test_events_are_kept_once_and_the_newest_come_last(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "l.db")
    for number in range(5):
        assert ledger.add_event(
            Event(f"g/{number}", "t", "save.committed", "a", "train" if number % 2 else "x")
        )
    assert not ledger.add_event(Event("g/1", "t", "other"))
    assert [event.id for _, event in ledger.events(limit=2)] == ["g/3", "g/4"]
    assert [event.id for _, event in ledger.events(job="train")] == ["g/1", "g/3"]
    assert [number for number, _ in ledger.events(after=3)] == [4, 5]
    ledger.close()


def test_a_journal_step_survives_kill_of_its_process(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    program = (
        "import os,sys,pathlib\n"
        "from backends.ledger.sqlite import SqliteLedger\n"
        "from backends.ledger.records import Run, Item\n"
        "l = SqliteLedger(pathlib.Path(sys.argv[1]))\n"
        "l.open_run(Run('r', 'batch', 1.0, {}), [Item('r', '1', 'train', {})])\n"
        "l.intend('r', '1', 'claim', {'nonce': 'n'}, 2.0)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    root = Path(__file__).parents[4]
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=root, timeout=60, check=False)
    assert done.returncode == -9
    ledger = SqliteLedger(path)
    assert [(s.step, s.phase, s.data) for s in ledger.steps("r", "1")] == [
        ("claim", "intended", {"nonce": "n"})
    ]
    assert [run.state for run in ledger.runs()] == ["running"]
    ledger.close()


def test_run_and_item_states(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "l.db")
    ledger.open_run(
        Run("r1", "batch", 1.0, {"file": "x"}), [Item("r1", str(n), f"j{n}", {}) for n in range(12)]
    )
    ledger.close_item("r1", "3", "failed", "no node fits", {"epoch": None})
    ledger.close_run("r1", "partial", "1 failed", 9.0)
    assert [item.item for item in ledger.items("r1")] == [str(n) for n in range(12)]
    assert ledger.items("r1")[3].reason == "no node fits"
    found = ledger.find_run("r1")
    assert found is not None
    assert (found.state, found.finished_at) == ("partial", 9.0)
    assert ledger.find_run("r2") is None
    ledger.close()


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to be read as one" * 20, b"SQLite"]
)
def test_an_unreadable_file_stops_and_is_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "l.db"
    path.write_bytes(content)
    with pytest.raises(ReprieveError, match="left as it is"):
        SqliteLedger(path)
    assert path.read_bytes() == content


def test_a_newer_version_and_a_foreign_database_are_refused(tmp_path: Path) -> None:
    newer, foreign = tmp_path / "n.db", tmp_path / "f.db"
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(UsageError, match="version 99"):
        SqliteLedger(newer)
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    with pytest.raises(ReprieveError, match="not a ledger"):
        SqliteLedger(foreign)


def test_two_openings_write_in_turn(tmp_path: Path) -> None:
    first, second = SqliteLedger(tmp_path / "l.db"), SqliteLedger(tmp_path / "l.db")
    first.add_event(Event("a/1", "t", "k"))
    second.add_event(Event("b/1", "t", "k"))
    assert [event.id for _, event in first.events()] == ["a/1", "b/1"]
    first.close()
    second.close()


def test_one_runner_per_item(tmp_path: Path) -> None:
    with only_runner(tmp_path, "job.x", "job x"):
        with pytest.raises(StillRunningError, match="job x"), only_runner(tmp_path, "job.x", "job x"):
            pass
        with only_runner(tmp_path, "job.y", "job y"):
            pass
    with only_runner(tmp_path, "job.x", "job x"):
        pass
    with pytest.raises(UsageError), only_runner(tmp_path, "../x", "x"):
        pass


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=8), st.one_of(st.none(), st.integers(-9, 9), st.text(max_size=9)), max_size=4
    )
)
def test_event_data_round_trips(data: dict[str, object]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        ledger = SqliteLedger(Path(directory) / "l.db")
        ledger.add_event(Event("a/1", "t", "k", data=data))
        assert ledger.events()[0][1].data == data
        ledger.close()
