"""Which files travel, and how they are copied."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.open_files import (
    TORCH_HELPER,
    Mount,
    Plan,
    Wanted,
    _handed_over,
    capture,
    check_size,
    file_system,
    on_network,
    parse_mounts,
    plan_capture,
    read_mounts,
    surroundings,
)  # fmt: skip
from backends.engines.proc import Tree, read_member
from backends.engines.system.copying import copy_contents, data_ranges
from backends.engines.system.rollback import Rollback
from backends.errors import EngineError

MOUNTS = (Mount("/", "ext4"), Mount("/nfs", "nfs4"), Mount("/nfs/local", "xfs"), Mount("/dev/shm", "tmpfs"))


def own_tree() -> Tree:
    member = read_member(os.getpid())
    assert member is not None
    return Tree((member,))


def test_mountinfo() -> None:
    text = (
        "36 35 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 - ext3 /dev/root rw\n"
        "odd line\n"
        "37 35 0:50 / /nfs rw - nfs4 server:/x rw\n"
    )
    assert parse_mounts(text) == (Mount("/mnt/a b", "ext3"), Mount("/nfs", "nfs4"))
    assert any(mount.point == "/" for mount in read_mounts())
    assert read_mounts(1 << 23) == ()


@given(st.text(max_size=200))
def test_any_mountinfo_is_read(text: str) -> None:
    assert all(mount.kind is not None for mount in parse_mounts(text))


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/x", "ext4", False),
        ("/nfs/a", "nfs4", True),
        ("/nfs", "nfs4", True),
        ("/nfsx", "ext4", False),
        ("/nfs/local/a", "xfs", False),
        ("/dev/shm/s", "tmpfs", False),
    ],
)
def test_where_a_path_lies(path: str, kind: str, network: bool) -> None:
    assert file_system(path, MOUNTS) == kind
    assert on_network(path, MOUNTS) is network


def test_a_later_mount_hides_an_earlier_one() -> None:
    assert file_system("/a/b", (Mount("/", "ext4"), Mount("/a", "nfs"), Mount("/a", "tmpfs"))) == "tmpfs"


def test_written_files_travel_and_read_ones_stay(tmp_path: Path) -> None:
    here = tmp_path / "work"
    here.mkdir()
    (here / "input").write_text("input")
    (here / "gone").write_text("gone")
    mounts = (Mount("/", "ext4"),)
    with (
        (here / "log").open("a") as log,
        (here / "input").open() as reading,
        (here / "gone").open("r+") as gone,
    ):
        (here / "gone").unlink()
        log.write("one\n")
        log.flush()
        plan = plan_capture(own_tree(), [], mounts, rollback=False)
        paths = [item.path for item in plan.files if item.path.startswith(str(here))]
        expected = [str(here / "log")]
        if str(here).startswith(("/tmp/", "/var/tmp/", "/run/", "/dev/shm/")):
            expected.append(str(here / "input"))  # volatile place: also what is only read
        assert sorted(paths) == sorted(expected)
        assert reading.fileno() != gone.fileno()


def test_what_nobody_here_can_change_stays(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.write_text("code")
    places = (Mount("/", "ext4"), Mount(str(tmp_path), "tmpfs", read_only=True))
    with library.open():
        taken = plan_capture(own_tree(), [], places, rollback=False)
        assert str(library) not in [item.path for item in taken.files]
        taken = plan_capture(own_tree(), [], (places[0], Mount(str(tmp_path), "tmpfs")), rollback=False)
        assert str(library) in [item.path for item in taken.files]


def test_mounts_say_whether_they_are_read_only() -> None:
    text = (
        "22 1 0:20 / /a ro,nosuid - ext4 /dev/x rw\n23 1 0:21 / /b rw - ext4 /dev/x ro\n"
        "24 1 0:22 / /c rw - ext4 /dev/x rw\n"
    )
    assert [mount.read_only for mount in parse_mounts(text)] == [True, True, False]


def test_declared_files_are_taken_with_all_below(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "one").write_text("1")
    (tmp_path / "d" / "two").write_text("22")
    (tmp_path / "outside").write_text("no")
    (tmp_path / "d" / "link").symlink_to(tmp_path / "outside")
    plan = plan_capture(Tree(()), ["d", "absent"], MOUNTS, rollback=False, base=str(tmp_path))
    assert [item.path for item in plan.files] == [
        str(tmp_path / "d" / "two"),
        str(tmp_path / "d" / "e" / "one"),
    ]
    assert {item.origin for item in plan.files} == {"declared"}
    assert plan.skipped == (
        (str(tmp_path / "absent"), "it is declared in the job's files and does not exist"),
    )


def test_network_file_systems_are_left_alone_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "shared").write_text("x")
    mounts = (Mount("/", "nfs4"),)
    plan = plan_capture(Tree(()), ["shared"], mounts, rollback=False, base=str(tmp_path))
    assert plan.files == ()
    assert "nfs4" in plan.skipped[0][1]
    asked = plan_capture(Tree(()), ["shared"], mounts, rollback=True, base=str(tmp_path))
    assert [item.path for item in asked.files] == [str(tmp_path / "shared")]


def test_a_name_that_is_no_text_is_skipped_with_the_reason(tmp_path: Path) -> None:
    name = os.fsdecode(b"bad\xff")
    (tmp_path / name).write_text("x")
    plan = plan_capture(Tree(()), ["."], MOUNTS, rollback=False, base=str(tmp_path))
    assert plan.files == ()
    assert plan.skipped[0][1] == "its name is not UTF-8"
    assert plan.skipped[0][0].isprintable()


def test_capture_keeps_content_mode_and_owner(tmp_path: Path) -> None:
    source = tmp_path / "file"
    source.write_bytes(b"content")
    source.chmod(0o640)
    target = tmp_path / "files"
    target.mkdir(mode=0o700)
    plan = plan_capture(Tree(()), ["file"], MOUNTS, rollback=False, base=str(tmp_path))
    taken = capture(plan, target, Tree(()), ())
    file = taken.files[0]
    assert (file.path, file.size, file.mode, file.uid) == (str(source), 7, 0o640, os.getuid())
    assert (target / file.copy).read_bytes() == b"content"
    assert (target / file.copy).stat().st_mode & 0o777 == 0o600
    described = {entry["path"]: entry for entry in taken.surroundings["directories"]}
    assert described[str(tmp_path)]["mode"] == tmp_path.stat().st_mode & 0o7777


def test_links_and_empty_directories_of_declared_trees_travel(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "empty").mkdir(parents=True)
    (home / "link").symlink_to("data")
    (home / "data").write_text("x")
    (tmp_path / "files").mkdir()
    plan = plan_capture(Tree(()), ["home"], MOUNTS, rollback=False, base=str(tmp_path))
    taken = capture(plan, tmp_path / "files", Tree(()), (), [str(home)])
    assert taken.surroundings["links"] == [{"path": str(home / "link"), "target": "data"}]
    home.rename(tmp_path / "old")
    Rollback(tmp_path / "aside").put_back(taken.files, tmp_path / "files", taken.surroundings)
    assert (home / "link").read_text() == "x"
    assert (home / "empty").is_dir()


def test_a_working_directory_that_is_gone_is_not_made() -> None:
    member = replace(own_tree().root, cwd="/no-such-directory (deleted)", descriptors=(), mappings=())
    assert surroundings(Tree((member,)), (), [])["places"] == []


def test_a_file_that_vanishes_is_told(tmp_path: Path) -> None:
    plan = Plan((Wanted(str(tmp_path / "x"), tmp_path / "x", "open"),))
    assert capture(plan, tmp_path, Tree(()), ()).skipped[0][1] == "it vanished before it could be copied"


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    plan = Plan((Wanted("/x", tmp_path / "loop", "open"),))
    with pytest.raises(EngineError, match="file /x cannot be captured"):
        capture(plan, tmp_path, Tree(()), ())


def test_a_long_pause_is_refused_with_its_length() -> None:
    plan = Plan((), (), 4 << 30)
    with pytest.raises(EngineError, match=r"4\.0 GiB .* adds about 10 s"):
        check_size(plan, 1 << 30, reflinks=False)
    check_size(plan, 1 << 30, reflinks=True)
    check_size(replace(plan, size_bytes=1 << 30), 1 << 30, reflinks=False)


@given(
    st.lists(st.tuples(st.integers(0, 200_000), st.binary(min_size=1, max_size=5000)), max_size=4),
    st.integers(0, 50_000),
)
def test_copies_are_equal_and_holes_stay(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[int, bytes]], more: int
) -> None:
    place = tmp_path_factory.mktemp("copy")
    source, target = place / "source", place / "target"
    with source.open("wb") as file:
        for position, data in parts:
            file.seek(position)
            file.write(data)
        file.seek(0, os.SEEK_END)
        file.truncate(file.tell() + more)
    size = source.stat().st_size
    with source.open("rb") as reading, target.open("wb") as writing:
        copy_contents(reading.fileno(), writing.fileno(), size)
        assert sum(end - start for start, end in data_ranges(reading.fileno(), size)) <= size
    assert target.read_bytes() == source.read_bytes()


def test_a_large_hole_costs_no_disk(tmp_path: Path) -> None:
    with (tmp_path / "s").open("wb") as file:
        file.truncate(64 << 20)
        file.seek(1 << 20)
        file.write(b"x" * 4096)
    with (tmp_path / "s").open("rb") as reading, (tmp_path / "t").open("wb") as writing:
        copy_contents(reading.fileno(), writing.fileno(), 64 << 20)
    assert (tmp_path / "t").stat().st_blocks * 512 < 1 << 20
    assert (tmp_path / "t").stat().st_size == 64 << 20


def test_a_source_that_is_too_short_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"short")
    with (tmp_path / "s").open("rb") as reading, (tmp_path / "t").open("wb") as writing:
        copy_contents(reading.fileno(), writing.fileno(), 5)
    assert (tmp_path / "t").read_bytes() == b"short"


def test_shared_segments_that_nobody_has_open_travel_with_their_helper(tmp_path: Path) -> None:
    own = read_member(os.getpid())
    assert own is not None
    mine, others = f"torch_{own.pid}_77_1", f"torch_{own.pid + 1}_77_1"
    for name in (mine, others, f"other_{own.pid}_1", "torch_"):
        (tmp_path / name).write_bytes(b"x")
    helper = replace(own, name=TORCH_HELPER, pid=own.pid + 2)
    assert [w.path for w in _handed_over(Tree((own, helper)), str(tmp_path))] == [str(tmp_path / mine)]
    assert list(_handed_over(Tree((own,)), str(tmp_path))) == []
