"""The ledger keeps what it was told, also after a kill, and never replaces a file it cannot read."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.errors import ReprieveError, UsageError
from backends.ledger.records import Reclaim
from backends.ledger.sqlite import SqliteLedger
from backends.records.event import Event


def reclaim(key: str, at: float = 5.0) -> Reclaim:
    return Reclaim(key, at, "train", "u" * 20, "a", False, None, 61.5, 60.0, 4.0, 2.0, "1.3", "b", 2, 1)


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
