"""The spool: numbers without gaps, kept until acknowledged, bounded, whole after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.clock import SystemClock
from backends.guard.disk import spool as module
from backends.guard.disk.spool import Spool


def opened(directory: Path) -> Spool:
    directory.mkdir(exist_ok=True)
    return Spool(directory, "g", "node", SystemClock())


def texts(spool: Spool, since: int = 0, limit: int = 10_000) -> list[str]:
    return [event.text for event in spool.events(since, limit)[0]]


def test_numbers_and_paging(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    assert spool.next == 1
    ids = [spool.add("k", f"event {number}").id for number in range(1, 8)]
    assert ids == [f"g/{number}" for number in range(1, 8)]
    first, following = spool.events(0, 3)
    assert [event.text for event in first] == ["event 1", "event 2", "event 3"]
    assert following == 4
    rest, following = spool.events(following, 100)
    assert rest[0].text == "event 4"
    assert following == 8
    assert spool.events(following, 100) == ([], 8)
    assert spool.events(999, 100) == ([], 8)


def test_it_survives_a_restart_with_its_numbers(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for number in range(5):
        spool.add("k", str(number))
    again = opened(tmp_path)
    assert again.next == 6
    assert again.add("k", "5").id == "g/6"
    assert texts(again) == ["0", "1", "2", "3", "4", "5"]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 400))
def test_a_torn_last_line_is_dropped(cut: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        spool = opened(directory)
        for number in range(3):
            spool.add("k", str(number))
        path = next(directory.glob("*.ndjson"))
        data = path.read_bytes()
        kept = data[: max(0, len(data) - cut)]
        path.write_bytes(kept)
        whole = kept.count(b"\n")
        again = opened(directory)
        assert texts(again) == [str(number) for number in range(whole)]
        again.add("k", "new")
        assert texts(again)[-1] == "new"
        assert again.next == whole + 2


def test_bounded_with_a_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_EVENTS", 4)
    monkeypatch.setattr(module, "MOST_SEGMENTS", 3)
    spool = opened(tmp_path)
    for number in range(30):
        spool.add("k", str(number))
    assert len(list(tmp_path.glob("*.ndjson"))) == 3
    found, _ = spool.events(0, 100)
    markers = [event for event in found if event.kind == "spool.dropped"]
    assert markers
    oldest = int(found[0].id.split("/")[1])
    assert max(event.data["last"] for event in markers) == oldest - 1
    assert texts(opened(tmp_path)) == [event.text for event in found]


def test_acknowledged_segments_go_and_numbers_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_EVENTS", 4)
    spool = opened(tmp_path)
    for number in range(10):
        spool.add("k", str(number))
    spool.acknowledge(6)
    assert texts(spool)[0] == "4"
    spool.acknowledge(999)
    assert len(list(tmp_path.glob("*.ndjson"))) == 1
    assert opened(tmp_path).next == 11


def test_files_are_private(tmp_path: Path) -> None:
    opened(tmp_path).add("k", "x")
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
