"""Another user polls the staging and store directories during saves, and gets nothing."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import RealBench, criu_tool
from tests.support.guard_node import Fleet, Node, request, wait_for
from tests.support.spy import NOBODY, watching

pytestmark = pytest.mark.lab


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory that everybody may enter, so that only our own modes keep others out."""
    if os.geteuid() != 0:
        pytest.skip("not root: it cannot become another user")
    made = Path(tempfile.mkdtemp(prefix="reprieve-private-"))
    made.chmod(0o755)
    old = os.umask(0)  # the most careless one: nothing is private by accident
    try:
        yield made
    finally:
        os.umask(old)
        shutil.rmtree(made)


@pytest.mark.parametrize(
    ("engine", "count"),
    [
        ("fake", 30),
        pytest.param("fake", 100, marks=pytest.mark.prove),
        pytest.param("criu", 100, marks=pytest.mark.prove),
    ],
)
def test_another_user_reads_nothing_during_saves(base: Path, engine: str, count: int) -> None:
    if engine == "criu" and criu_tool() is None:
        pytest.skip("no CRIU on this machine or in the cache")
    fleet = Fleet(base)
    node = Node(base / "node", {"REPRIEVE_TEST_ENGINES": "real"} if engine == "criu" else {})
    job: dict[str, Any] = fleet.job(interval_s=0.05)
    if engine == "criu":
        home = base / "home"
        home.mkdir(mode=0o700)
        bench = RealBench(None, home, pause_s=0.02, last=1_000_000)  # type: ignore[arg-type]  # its engine is not used
        job |= {"engine": "criu", "command": bench.argv, "cwd": str(home), "files": []}
    layout, store = node.layout, fleet.store_directory
    prefix = store / "jobs" / fleet.uid
    names = [f"1.{seq}" for seq in range(1, count + 1)]
    guesses = [
        layout.socket, layout.lock, layout.heartbeat, layout.keys / f"{fleet.uid}.json", layout.desired / f"{fleet.uid}.json",
        layout.run / "guard.log", prefix / "job.json", prefix / "latest", prefix / "epochs" / "1",
        *(prefix / "checkpoints" / name / "manifest.json" for name in names),
        *(prefix / area / name / "0" for area in ("packs", "files") for name in names),
    ]  # fmt: skip
    places = [
        layout.state,
        layout.staging,
        layout.run,
        layout.keys,
        layout.spool,
        store,
        prefix,
        prefix / "packs",
    ]
    control = base / "control"
    control.write_text("for everybody")
    pid = None
    try:
        with watching([*places, base], [*guesses, control]) as seen:
            node.start()
            answer = node.call("start", request=request(), job=job, grant=fleet.genesis(node.guard))
            pid = answer["job"]["pid"]
            wait_for(f"{count} saves", lambda: _count(node.checkpoint()) >= count, 240)
    finally:
        node.end()
        if pid is not None and Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)
    assert seen.rounds > count, f"only {seen.rounds} looks"
    found = [each for each in seen.got if "control" in each or each == f"listed {base}"]
    assert f"read {control}" in found, "the spy can see what is open to all"
    inner = (str(layout.root), str(store))
    assert [
        each for each in seen.got if each.split()[1].startswith(tuple(f"{path}/" for path in inner))
    ] == []
    own = (
        (store, layout.state) if engine == "fake" else (store, layout.state, layout.staging)
    )  # a test's engine is careless
    assert sorted(_open_to_others(*own)) == []


def _count(checkpoint: str | None) -> int:
    return 0 if checkpoint is None else int(checkpoint.split(".")[1])


def _open_to_others(*places: Path) -> Iterator[str]:
    """Everything below these that has a permission for group or others, or belongs to somebody else."""
    for place in places:
        for path in (place, *place.rglob("*")):
            info = path.lstat()
            if info.st_mode & 0o077 and not path.is_symlink():
                yield f"{path} {info.st_mode:o}"
            if info.st_uid == NOBODY:
                yield f"{path} belongs to another"
