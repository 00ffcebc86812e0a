"""Files are put back as they were at the freeze; what they replace is kept; links are never followed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.open_files import Mount
from backends.engines.port import OpenFile
from backends.engines.system.rollback import INDEX, Rollback
from backends.errors import EngineError


def copy_of(copies: Path, path: Path, data: bytes, name: str = "00000", mode: int = 0o640) -> OpenFile:
    copies.mkdir(exist_ok=True)
    (copies / name).write_bytes(data)
    return OpenFile(str(path), len(data), mode, os.getuid(), os.getgid(), name, "open")


def test_a_file_that_went_on_is_replaced_and_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\nthree\n")
    file = copy_of(tmp_path / "copies", log, b"one\n")
    back = Rollback(tmp_path / "aside")
    back.put_back((file,), tmp_path / "copies", {})
    assert log.read_bytes() == b"one\n"
    assert log.stat().st_mode & 0o7777 == 0o640
    rows = json.loads((tmp_path / "aside" / INDEX).read_text())
    assert rows == [{"path": str(log), "kept_as": "00000"}]
    assert (tmp_path / "aside" / "00000").read_bytes() == b"one\ntwo\nthree\n"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".reprieve")] == []


@pytest.mark.parametrize("there", [b"abc", b"abd", None])
def test_a_file_that_is_so_already_is_not_touched(tmp_path: Path, there: bytes | None) -> None:
    place = tmp_path / "library"
    if there is not None:
        place.write_bytes(there)
        place.chmod(0o640)
    before = place.stat().st_ino if there is not None else None
    file = copy_of(tmp_path / "copies", place, b"abc")
    back = Rollback(tmp_path / "aside")
    back.put_back((file,), tmp_path / "copies", {})
    assert place.read_bytes() == b"abc"
    assert (place.stat().st_ino == before) is (there == b"abc")
    assert bool(back.replaced) is (there == b"abd")


def test_missing_directories_come_back_with_mode_and_owner(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "log"
    file = copy_of(tmp_path / "copies", target, b"x")
    around = {
        "directories": [
            {"path": str(tmp_path / "a" / "b"), "mode": 0o711, "uid": os.getuid(), "gid": os.getgid()}
        ],
        "places": [str(tmp_path / "c")],
        "fifos": [{"path": str(tmp_path / "a" / "pipe"), "mode": 0o600}],
    }
    back = Rollback(tmp_path / "aside")
    back.put_back((file,), tmp_path / "copies", around)
    assert target.read_bytes() == b"x"
    assert target.parent.stat().st_mode & 0o7777 == 0o711
    assert (tmp_path / "c").is_dir()
    assert (tmp_path / "a" / "pipe").is_fifo()
    back.undo()
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "c").exists()


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.tuples(st.none() | st.binary(max_size=9), st.binary(max_size=9)),
        min_size=1,
    )
)
def test_undo_is_exact(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, tuple[bytes | None, bytes]]
) -> None:
    place = tmp_path_factory.mktemp("undo")
    home, copies = place / "home", place / "copies"
    home.mkdir()
    files = []
    for number, (name, (before, captured)) in enumerate(table.items()):
        if before is not None:
            (home / name).write_bytes(before)
        files.append(copy_of(copies, home / name, captured, f"{number:05d}"))
    back = Rollback(place / "aside")
    back.put_back(tuple(files), copies, {})
    assert {p.name: p.read_bytes() for p in home.iterdir()} == {name: row[1] for name, row in table.items()}
    back.undo()
    expected = {name: row[0] for name, row in table.items() if row[0] is not None}
    assert {p.name: p.read_bytes() for p in home.iterdir()} == expected


def test_a_link_on_the_way_is_refused_and_all_is_undone(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "first").write_text("first")
    one = copy_of(tmp_path / "copies", tmp_path / "first", b"new", "00000")
    two = copy_of(tmp_path / "copies", tmp_path / "link" / "f", b"new", "00001")
    with pytest.raises(EngineError, match="link is a link or a file here"):
        Rollback(tmp_path / "aside").put_back((one, two), tmp_path / "copies", {})
    assert (tmp_path / "real" / "f").read_text() == "mine"
    assert (tmp_path / "first").read_text() == "first"


def test_a_link_at_the_place_is_moved_aside_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "f").symlink_to(tmp_path / "victim")
    file = copy_of(tmp_path / "copies", tmp_path / "f", b"new")
    Rollback(tmp_path / "aside").put_back((file,), tmp_path / "copies", {})
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (tmp_path / "f").is_symlink()
    assert (tmp_path / "f").read_text() == "new"
    assert (tmp_path / "aside" / "00000").is_symlink()


def test_a_directory_at_the_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    file = copy_of(tmp_path / "copies", tmp_path / "f", b"new")
    with pytest.raises(EngineError, match="is a directory here"):
        Rollback(tmp_path / "aside").put_back((file,), tmp_path / "copies", {})
    assert (tmp_path / "f").is_dir()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".reprieve")] == []


def test_a_damaged_copy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("mine")
    file = copy_of(tmp_path / "copies", tmp_path / "f", b"whole")
    (tmp_path / "copies" / "00000").write_bytes(b"who")
    with pytest.raises(EngineError, match="has 3 bytes, 5 expected"):
        Rollback(tmp_path / "aside").put_back((file,), tmp_path / "copies", {})
    assert (tmp_path / "f").read_text() == "mine"


def test_the_copy_s_name_cannot_leave_its_directory(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"12345")
    (tmp_path / "copies").mkdir()
    file = OpenFile(str(tmp_path / "f"), 5, 0o600, 0, 0, "../secret", "open")
    with pytest.raises(EngineError):
        Rollback(tmp_path / "aside").put_back((file,), tmp_path / "copies", {})
    assert not (tmp_path / "f").exists()


def test_files_that_others_may_share_are_left_alone_when_they_exist(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("shared")
    file = copy_of(tmp_path / "copies", tmp_path / "f", b"old")
    mounts = (Mount("/", "nfs4"),)
    back = Rollback(tmp_path / "aside", mounts=mounts)
    back.put_back((file,), tmp_path / "copies", {})
    assert (tmp_path / "f").read_text() == "shared"
    assert "nfs4" in back.left[0][1]
    Rollback(tmp_path / "aside", mounts=mounts, rollback_network=True).put_back(
        (file,), tmp_path / "copies", {}
    )
    assert (tmp_path / "f").read_text() == "old"


def test_what_cannot_be_put_back_is_told_by_the_file_s_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return real(path, flags, *rest, **named)

    file = copy_of(tmp_path / "copies", tmp_path / "lib.so", b"code")
    monkeypatch.setattr("backends.engines.system.rollback.os.open", refuse)
    with pytest.raises(EngineError, match=f"cannot be put back: {tmp_path}/lib.so Read-only file system"):
        Rollback(tmp_path / "aside").put_back((file,), tmp_path / "copies", {})


def test_a_rehearsal_puts_everything_below_its_root(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o750)
    (tmp_path / "home" / "f").write_text("real")
    file = copy_of(tmp_path / "copies", tmp_path / "home" / "f", b"old")
    root = tmp_path / "scratch" / "tree"
    Rollback(tmp_path / "aside", root=root).put_back((file,), tmp_path / "copies", {})
    assert (tmp_path / "home" / "f").read_text() == "real"
    inside = root / str(tmp_path).lstrip("/") / "home"
    assert (inside / "f").read_text() == "old"
    assert inside.stat().st_mode & 0o777 == (tmp_path / "home").stat().st_mode & 0o777


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no second file system to move to")
def test_moving_aside_across_file_systems(tmp_path: Path) -> None:
    other = Path("/dev/shm") / f"reprieve-aside-{os.getpid()}"
    (tmp_path / "f").write_text("mine")
    (tmp_path / "f").chmod(0o604)
    file = copy_of(tmp_path / "copies", tmp_path / "f", b"new")
    back = Rollback(other)
    try:
        back.put_back((file,), tmp_path / "copies", {})
        assert (other / "00000").read_text() == "mine"
        assert (other / "00000").stat().st_mode & 0o777 == 0o604
        back.undo()
        assert (tmp_path / "f").read_text() == "mine"
    finally:
        for entry in other.iterdir():
            entry.unlink()
        other.rmdir()
