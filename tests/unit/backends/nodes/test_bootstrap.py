"""The installer's unpacking, against archives that try to leave their directory."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.nodes import bootstrap
from backends.nodes.bootstrap import RefusedError, answer, unpack, write


def archive(*members: tuple[str, bytes | str | None, dict[str, Any]]) -> io.BytesIO:
    """A packed tar; content bytes: a file, text: a link to it, None: a directory."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content, changes in members:
            member = tarfile.TarInfo(name)
            member.type = (
                tarfile.DIRTYPE
                if content is None
                else tarfile.SYMTYPE
                if isinstance(content, str)
                else tarfile.REGTYPE
            )
            member.linkname = content if isinstance(content, str) else ""
            member.size = len(content) if isinstance(content, bytes) else 0
            for key, value in changes.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return io.BytesIO(gzip.compress(plain.getvalue()))


def test_files_modes_and_links(tmp_path: Path) -> None:
    unpack(
        archive(
            ("d", None, {"mode": 0o777}),
            ("l", "d/f", {}),
            ("d/f", b"x", {"mode": 0o6777, "uid": 99}),
            ("d/g", b"y", {"mode": 0o600}),
            ("d/up", "../d/g", {}),
        ),
        tmp_path,
    )
    assert (tmp_path / "l").read_bytes() == b"x"
    assert (tmp_path / "d/up").read_bytes() == b"y"
    assert [(tmp_path / name).stat().st_mode & 0o7777 for name in ("d", "d/f", "d/g")] == [
        0o755,
        0o755,
        0o644,
    ]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ((("../out", b"x", {}),), "holds the name"),
        ((("/out", b"x", {}),), "holds the name"),
        ((("a//b", b"x", {}),), "holds the name"),
        ((("a/./b", b"x", {}),), "holds the name"),
        ((("l", "/etc", {}),), "points outside"),
        ((("l", "../x", {}),), "points outside"),
        ((("d", None, {}), ("d/l", "a/../../../x", {})), "points outside"),
        ((("dev", b"", {"type": tarfile.CHRTYPE}),), "neither file"),
        ((("fifo", b"", {"type": tarfile.FIFOTYPE}),), "neither file"),
        ((("hard", b"", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}),), "neither file"),
    ],
)
def test_what_leaves_the_directory_is_refused(tmp_path: Path, members: Any, message: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(RefusedError, match=message):
        unpack(archive(*members), work)
    assert list(tmp_path.iterdir()) == [work]


def test_nothing_is_written_through_a_link_or_twice(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (work / "planted").symlink_to(outside / "target")
    with pytest.raises(FileExistsError):
        unpack(archive(("planted", b"x", {})), work)
    with pytest.raises(FileExistsError):
        unpack(archive(("twice", b"x", {}), ("twice", b"y", {})), work)
    with pytest.raises(OSError, match=r"No such file|Not a directory"):
        unpack(archive(("l", "d", {}), ("l/f", b"x", {})), work)
    assert list(outside.iterdir()) == []


@given(st.binary(max_size=200))
def test_any_input_is_answered_with_a_document(data: bytes) -> None:
    found = answer(io.BytesIO(data))
    assert set(found["error"]) == {"code", "kind", "message", "hint"}


@pytest.mark.parametrize(
    "header", [b"[]", b"{}", b'{"do": "rm"}', b'{"do": "install"}', b'{"do": "install", "digest": "../x"}']
)
def test_odd_headers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: bytes) -> None:
    monkeypatch.setenv("REPRIEVE_NODE_ROOT", str(tmp_path / "root"))
    assert "error" in answer(io.BytesIO(len(header).to_bytes(8, "big") + header))
    assert list(tmp_path.iterdir()) == []


def test_write_says_whether_it_changed_something(tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert write(path, "a", 0o600)
    assert not write(path, "a", 0o600)
    assert write(path, "a", 0o644)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert write(path, "b", 0o600)
    assert not path.is_symlink()
    assert [item.name for item in tmp_path.iterdir()] == ["f"]


def test_systemd_runs_the_guard_where_it_is_in_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, unit = tmp_path / "opt", tmp_path / "unit.service"
    data = archive(("bundle.json", b"{}", {})).getvalue()
    digest = hashlib.sha256(data).hexdigest()
    commands: list[list[str]] = []
    started = False

    def run(argv: list[str], stdin: bytes = b"", seconds: float = 60.0) -> subprocess.CompletedProcess[bytes]:
        nonlocal started
        if argv[-1] == "status":
            return subprocess.CompletedProcess(argv, 0 if started else 5, b"{}", b"")
        commands.append([Path(argv[0]).name, *argv[1:]])
        started = argv[:2] == ["systemctl", "restart"]
        return subprocess.CompletedProcess(argv, 0, b"", b"")

    monkeypatch.setenv("REPRIEVE_NODE_ROOT", str(root))
    monkeypatch.setattr(bootstrap, "run", run)
    monkeypatch.setattr(bootstrap, "systemd", lambda root: True)
    monkeypatch.setattr(bootstrap, "UNIT", unit)
    header = {
        "do": "install",
        "digest": digest,
        "size": len(data),
        "unpacked_bytes": 2,
        "node": "n1",
        "guard": "g" * 20,
        "version": "1",
    }
    sent = json.dumps(header).encode()
    done = answer(io.BytesIO(len(sent).to_bytes(8, "big") + sent + data))
    assert done["systemd"] is True, done
    text = unit.read_text()
    assert f"ExecStart={root}/bin/reprieve-node serve\n" in text
    assert "KillMode=process" in text
    assert [command[1] for command in commands] == ["daemon-reload", "enable", "restart"]
    commands.clear()
    ask = b'{"do": "uninstall"}'
    done = answer(io.BytesIO(len(ask).to_bytes(8, "big") + ask))
    assert str(unit) in done["removed"]
    assert not unit.exists()
    assert not root.exists()
    assert [command[:2] for command in commands] == [
        ["systemctl", "stop"], ["reprieve-node", "shutdown"], ["systemctl", "disable"], ["systemctl", "daemon-reload"],
    ]  # fmt: skip


def test_a_guard_that_holds_its_lock_is_not_uninstalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "opt"
    (root / "state").mkdir(parents=True)
    with (root / "state/lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setattr(threading.Event, "wait", lambda self, seconds: True)
        monkeypatch.setenv("REPRIEVE_NODE_ROOT", str(root))
        ask = b'{"do": "uninstall"}'
        done = answer(io.BytesIO(len(ask).to_bytes(8, "big") + ask))
    assert "does not end; nothing was removed" in done["error"]["message"]
    assert (root / "state").is_dir()


def test_inside_an_allocation_the_guard_is_waited_for_and_never_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "reprieve-slurm-77"
    (root / "state").mkdir(parents=True)
    ended = root / "state/ended"
    ended.touch()
    asked: list[list[str]] = []

    def run(argv: list[str], stdin: bytes = b"", seconds: float = 60.0) -> subprocess.CompletedProcess[bytes]:
        asked.append(argv[1:])
        return subprocess.CompletedProcess(argv, 0 if len(asked) > 2 else 5, b"{}", b"")

    monkeypatch.setattr(bootstrap, "run", run)
    monkeypatch.setattr(threading.Event, "wait", lambda self, seconds: True)
    bootstrap.await_guard(root)
    assert asked == [["status"]] * 3
    assert not ended.exists(), "it says that the guard is meant to run"
    monkeypatch.setattr(bootstrap, "answers", lambda command: False)
    with pytest.raises(bootstrap.RefusedError, match="nothing inside Slurm job 77 starts it") as told:
        bootstrap.await_guard(root)
    assert f"srun --jobid=77 --overlap -N1 -n1 --mem=0 {root}/bin/reprieve-node serve" in str(told.value.hint)


def test_the_program_needs_nothing_of_ours() -> None:
    text = Path(bootstrap.__file__).read_text()
    assert "import backends" not in text
    assert "from backends" not in text
    assert len(text.encode()) < 100_000, "one argument of a command line holds 128 KiB at most"
