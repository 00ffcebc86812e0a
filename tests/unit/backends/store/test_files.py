"""`file://`: modes, links, what is synced before what, errors in plain words."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from backends.errors import (
    CredentialsError,
    DamagedError,
    ExistsError,
    FullError,
    ReprieveError,
    UnreachableError,
    UsageError,
)
from backends.fakes.fileops import Crashed, FailingOps, SimulatedOps
from backends.store.fileops import RealOps, read_all, write_new
from backends.store.files import FileStore
from backends.store.open import open_store


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = FileStore(tmp_path / "a" / "s")
        store.create("jobs/x/y", b"1")
        store.replace("jobs/x/latest", b"2")
    finally:
        os.umask(old)
    for path in (tmp_path / "a").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    assert sorted(path.name for path in (tmp_path / "a/s/jobs/x").iterdir()) == ["latest", "y"]


def test_links_are_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s")
    store = FileStore(tmp_path / "s")
    store.create("jobs/a", b"1")
    (tmp_path / "s/jobs/link").symlink_to(outside / "secret")
    (tmp_path / "s/jobs/dir").symlink_to(outside)
    with pytest.raises(DamagedError):
        store.read("jobs/link")
    with pytest.raises(DamagedError):
        store.read("jobs/dir/secret")
    with pytest.raises(ReprieveError):
        store.create("jobs/dir/new", b"x")
    with pytest.raises(ExistsError):
        store.create("jobs/link", b"x")
    assert store.info("jobs/link") is None
    assert [info.key for info in store.list("")] == ["jobs/a"]
    assert sorted(p.name for p in outside.iterdir()) == ["secret"]


def test_a_device_or_pipe_is_no_object(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DamagedError, match="plain file"):
        store.read("pipe")
    assert store.list("") == []


def test_every_name_is_synced_before_create_returns() -> None:
    ops = FailingOps(SimulatedOps())
    FileStore(Path("/s"), ops, nonce=lambda: "n").create("jobs/u/epochs/1", b"claim")
    calls = ops.calls
    assert calls == [
        "mkdir ", "sync_dir ", "mkdir jobs", "sync_dir ", "mkdir jobs/u", "sync_dir jobs", "mkdir jobs/u/epochs",
        "sync_dir jobs/u", "create jobs/u/epochs/.tmp-n", "write", "sync", "link jobs/u/epochs/1",
        "sync_dir jobs/u/epochs", "unlink jobs/u/epochs/.tmp-n",
    ]  # fmt: skip


def test_exists_is_said_only_after_the_others_name_is_durable() -> None:
    ops = SimulatedOps()
    FileStore(Path("/s"), ops).create("d/other", b"")
    dying = FailingOps(ops, at=9, kind="crash_before")  # after the link, before its directory is synced
    with pytest.raises(Crashed):
        FileStore(Path("/s"), dying).create("d/k", b"1")
    assert dying.calls[-2:] == ["link d/k", "sync_dir d"]
    assert any(after.stat("d/k") is None for after in ops.survivals(64, 1))
    with pytest.raises(ExistsError):
        FileStore(Path("/s"), ops).create("d/k", b"2")
    assert all(after.stat("d/k") is not None for after in ops.survivals(64, 1))


def test_temporary_files_of_crashed_writers_are_unseen_and_swept(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.create("jobs/a", b"1")
    left = tmp_path / "jobs/.tmp-dead"
    left.write_bytes(b"half")
    assert [info.key for info in store.list("")] == ["jobs/a"]
    os.utime(left, (1000, 1000))
    fresh = tmp_path / "jobs/.tmp-fresh"
    fresh.write_bytes(b"half")
    assert store.sweep(2000.0) == 1
    assert not left.exists()
    assert fresh.exists()
    assert store.read("jobs/a") == b"1"


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.ENOSPC, FullError), (errno.EDQUOT, FullError), (errno.EIO, FullError), (errno.EROFS, FullError),
     (errno.ETIMEDOUT, UnreachableError), (errno.ESTALE, UnreachableError), (errno.EACCES, CredentialsError),
     (errno.ELOOP, UsageError)],
)  # fmt: skip
def test_errors_while_writing(code: int, kind: type[ReprieveError], monkeypatch: pytest.MonkeyPatch) -> None:
    ops = SimulatedOps()

    def fail(handle: int, data: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(ops, "write", fail)
    store = FileStore(Path("/s"), ops)
    with pytest.raises(kind, match="k"):
        store.create("k", b"1")
    assert store.list("") == []
    assert ops.list("") == []


def test_an_unreadable_object_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = SimulatedOps()
    store = FileStore(Path("/s"), ops)
    store.create("k", b"1")

    def fail(handle: int, length: int, offset: int) -> bytes:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(ops, "read", fail)
    with pytest.raises(DamagedError, match="k"):
        store.read("k")


def test_foreign_files_are_listed_and_untouched(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    (tmp_path / "000003 (copy)").mkdir()
    (tmp_path / "000003 (copy)/manifest.json").write_text("{}")
    (tmp_path / ".DS_Store").write_text("")
    assert [info.key for info in store.list("")] == [".DS_Store", "000003 (copy)/manifest.json"]


def test_real_files_are_read_and_written_whole(tmp_path: Path) -> None:
    ops = RealOps(tmp_path)
    write_new(ops, "a", b"12345")
    assert read_all(ops, "a") == b"12345"
    with pytest.raises(OSError, match="longer"):
        read_all(ops, "a", limit=4)
    for path in ("../a", "x/../a", "", "a/", "\0"):
        with pytest.raises(OSError, match=r".*"):
            ops.open(path)
    assert ops.stat("none/below") is None
    ops.rename("a", "b")
    assert ops.stat("a") is None


@pytest.mark.parametrize(
    ("url", "words"),
    [("gs://b", "bucket of 3"), ("az://b", "container of 3"), ("file://[", "not a URL"),
     ("/plain/path", "unknown kind"), ("file://host/x", "without host"), ("file:relative", "absolute"),
     ("file:///", "other than /"), ("file:///a/../b", "without '..'"), ("file:///a?x=1", "query"), ("", "unknown"),
     ("ftp://user:pw@h/x", "credentials")],
)  # fmt: skip
def test_addresses_that_are_no_store_here(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        open_store(url)
    assert "pw" not in caught.value.message


def test_a_file_address_opens(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/a%20b")
    store.create("k", b"1")
    assert (tmp_path / "a b/k").read_bytes() == b"1"
    assert store.url == f"file://{tmp_path}/a b"
