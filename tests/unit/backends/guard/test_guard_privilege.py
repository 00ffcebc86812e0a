"""The ways into a root process: the narrow helper, the guard's verbs, and CRIU's command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.clock import SystemClock
from backends.engines.criu_tool import CriuTool
from backends.engines.dump import Dump
from backends.engines.port import Process, SaveRequest
from backends.engines.profile import Options
from backends.errors import ReprieveError, UnreachableError, UsageError
from backends.guard import helper
from backends.guard.entry import VERBS
from backends.guard.verbs import Begin, Restore
from backends.nodes.bootstrap import HELPER
from backends.records.grant import Grant
from backends.records.job import Job
from backends.records.strict import read, to_document

# Every long option that makes criu as good as root in the hands of a caller, and a few more.
CRIU_OPTIONS = (
    "--action-script", "--libdir", "--lib", "--config", "--images-dir", "--work-dir", "--log-file", "--pidfile", "--exec-cmd",
    "--external", "--ext-unix-sk", "--inherit-fd", "--join-ns", "--root", "--lsm-profile", "--lsm-mount-context", "--cgroup-root",
    "--veth-pair", "--ext-mount-map", "--enable-external-masters", "--tcp-established", "--shell-job", "--unprivileged",
    "--page-server", "--address", "--port", "--status-fd", "--ps-socket", "--network-lock", "-D", "-W", "-o", "-v4", "-t", "-d",
)  # fmt: skip


def forbidden(verb: str, document: dict[str, Any], limit_s: float) -> dict[str, Any]:
    raise AssertionError(f"the guard was called: {verb} {document}")


@pytest.mark.parametrize("option", CRIU_OPTIONS)
def test_no_option_of_criu_gets_through(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        [option], [option, "x"], [f"{option}=x"], ["save", option], ["save", f"{option}=x"], ["save", "job", option],
        ["probe", option], ["status", option, "x"], ["--", "status"], ["save", "--", "job"],
    ):  # fmt: skip
        assert helper.main(arguments, forbidden) == 2, arguments
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("verb", sorted({*VERBS, "serve", "", "Save", "SAVE", "save job"} - {"status"}))
def test_other_verbs_of_the_node_are_not_offered(verb: str) -> None:
    assert helper.main([verb], forbidden) == 2
    if verb != "save":
        assert helper.main([verb, "job"], forbidden) == 2


@given(st.lists(st.text(max_size=12), max_size=4))
def test_three_forms_and_nothing_else(arguments: list[str]) -> None:
    try:
        verb, document, _ = helper.plan(arguments)
    except UsageError:
        return
    assert verb in ("status", "save")
    assert arguments in (["probe"], ["status"]) or (arguments[0] == "save" and len(arguments) == 2)
    assert set(document) <= {"request", "job", "wait_s"}
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", document.get("job", "x"))


def test_the_answer_holds_nothing_that_helps_to_become_root(capsys: pytest.CaptureFixture[str]) -> None:
    job = {
        "name": "train",
        "state": "protected",
        "pid": 7,
        "store": "s3://secret/x",
        "uid": "u" * 20,
        "progress": "p",
    }

    def answers(verb: str, document: dict[str, Any], limit_s: float) -> dict[str, Any]:
        return {"node": "n1", "guard": "g1", "notice": "none", "version": "1", "jobs": [job], "bundle": "b"}

    for verb in ("status", "probe"):
        assert helper.main([verb], answers) == 0
        out = capsys.readouterr().out
        assert json.loads(out)["node"] == "n1"
        assert not any(secret in out for secret in ("secret", "uuuu", "g1", "pid"))


def test_exit_status_says_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    def away(verb: str, document: dict[str, Any], limit_s: float) -> dict[str, Any]:
        raise UnreachableError("no guard")

    assert helper.main(["status"], away) == 5
    refused: dict[str, Any] = {"error": {"message": "job x is not on this node"}}
    assert helper.main(["save", "x"], lambda *call: refused) == 1
    assert "not on this node" in capsys.readouterr().err
    assert helper.main(["save", "x"], lambda *call: {"state": "failed", "error": "full"}) == 1
    assert helper.main(["save", "x"], lambda *call: {"state": "saved", "checkpoint": "1.2"}) == 0


def test_the_installed_command_takes_nothing_from_its_callers_environment(tmp_path: Path) -> None:
    package = tmp_path / "bundle" / "b1" / "python" / "backends" / "guard"
    package.mkdir(parents=True)
    for place in (package.parent, package):
        (place / "__init__.py").write_text("")
    (package / "helper.py").write_text(
        "import os, sys, json\nprint(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
    )
    (tmp_path / "current").symlink_to("bundle/b1")
    command = tmp_path / "reprieve-helper"
    command.write_text(HELPER.format(root=tmp_path, python=sys.executable))
    hostile = {
        "PYTHONPATH": "/evil", "PYTHONSTARTUP": "/evil", "LD_PRELOAD": "", "REPRIEVE_NODE_ROOT": "/evil", "PATH": "/evil:/usr/bin:/bin",
        "CRIU_CONFIG_FILE": "/evil", "AWS_PROFILE": "evil",
    }  # fmt: skip
    done = subprocess.run(
        ["/bin/sh", str(command), "save", "a b;$(id)"],
        env=hostile,
        capture_output=True,
        text=True,
        check=True,
    )
    arguments, environment = json.loads(done.stdout)
    assert arguments == ["save", "a b;$(id)"]
    assert "evil" not in json.dumps(environment)
    assert environment["REPRIEVE_NODE_ROOT"] == str(tmp_path)


EXTRA = (
    "criu_options",
    "action_script",
    "libdir",
    "plugin_dir",
    "config",
    "path",
    "argv",
    "images_dir",
    "options",
)
JOB = Job("train", "n1", "u" * 20, command=("true",))
GRANT = Grant("file:///srv/x", 1, "0a", "00" * 32, "00" * 32, "genesis")


@pytest.mark.parametrize("extra", EXTRA)
@pytest.mark.parametrize("where", [(), ("job",), ("grant",)])
def test_no_verb_takes_a_field_it_does_not_know(extra: str, where: tuple[str, ...]) -> None:
    orders: tuple[tuple[type[Any], Any], ...] = (
        (Begin, Begin("r", JOB, GRANT)),
        (Restore, Restore("r", JOB, GRANT, "1.1")),
    )
    for kind, order in orders:
        document = to_document(order)
        read(kind, document, what="order")  # as it is, it is taken
        inner = document
        for step in where:
            inner = inner[step]
        inner[extra] = "--action-script=/evil"
        with pytest.raises(ReprieveError, match=extra):
            read(kind, document, what="order")


HOSTILE = st.sampled_from(CRIU_OPTIONS).map(lambda option: f"{option}=/evil")


@given(st.lists(HOSTILE, max_size=4), HOSTILE, st.dictionaries(HOSTILE, HOSTILE, max_size=3))
def test_nothing_of_a_jobs_record_reaches_the_command_line_of_criu(
    words: list[str], word: str, table: dict[str, str]
) -> None:
    job = replace(
        JOB, command=tuple(words), files=tuple(words), environment=table, runtime=table, marker=word, resume=tuple(words),
        done_file=word, group=word, cwd=word, store=word, signal=word,
    )  # fmt: skip
    directory = Path("/staging/x")
    request = SaveRequest(job, Process(7, 1), directory, 10.0, 10.0)
    dump = Dump(CriuTool(("criu",), "4.2"), request, SystemClock(), 1 << 30)
    argv = command_of(dump)
    assert not [part for part in argv if "evil" in part]
    assert argv[:3] == ["criu", "dump", "--no-default-config"]


def command_of(dump: Dump) -> list[str]:
    """The argv of a dump, its action script written to a scratch place."""
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        dump.control = Path(scratch)
        return dump._command(Options())
