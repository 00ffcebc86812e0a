"""The program as scripts meet it: exit codes, pure output, one line for every error."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import MAIN, ROOT, clean_environment, reprieve

_LIMIT_S = 60
_PROGRAM = """
import sys, types
from console.registry import index
from console.registry.model import Command
handlers = types.ModuleType("console.cli.commands.testing")
def boom(invocation): raise RuntimeError("a fault\\nof ours")
def flood(invocation):
    while True: invocation.renderer.text("x" * 1000)
def ask(invocation):
    invocation.confirm({tier}, ["do it"], "it")
    invocation.emit({{"done": True}})
    return 0
def change(invocation):
    invocation.emit({{"done": True}})
    return 0
def wait(invocation):
    sys.stdout.write("ready\\n"); sys.stdout.flush()
    invocation.clock.sleep(50)
    return 0
for function in (boom, flood, ask, change, wait): setattr(handlers, function.__name__, function)
sys.modules["console.cli.commands.testing"] = handlers
made = types.ModuleType("console.registry.testing")
made.COMMANDS = tuple(
    Command("testing", name, "s", f"console.cli.commands.testing:{{name}}", tier={tier} if name in ("ask", "change") else 0)
    for name in ("boom", "flood", "ask", "change", "wait")
)
sys.modules["console.registry.testing"] = made
index.NOUNS += (index.Noun("testing", "g", "s", "testing"),)
from console.cli.main import main
sys.exit(main())
"""
_TIER_ONE, _TIER_THREE = _PROGRAM.format(tier=1), _PROGRAM.format(tier=3)


def test_nothing_typed_without_a_terminal_is_short_help_on_stderr(tmp_path: Path) -> None:
    ran = reprieve(tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert "reprieve --help" in ran.err
    assert reprieve(tmp_path, "-q").code == 2


@pytest.mark.parametrize(
    "argv",
    [
        ["nonsense"],
        ["jobs"],
        ["jobs", "nonsense"],
        ["jobs", "save"],
        ["jobs", "save", "j", "--nonsense"],
        ["--context", "nowhere", "config", "show"],
        ["--config", "/nowhere.toml", "config", "show"],
        ["--color", "blue", "config", "show"],
        ["config", "show", "-o", "xml"],
        ["config", "schema", "-o", "csv"],
        ["fleet", "list", "--watch", "-o", "json"],
        ["help", "nonsense"],
        ["--context", "practice", "config", "validate"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_2_with_one_line_and_nothing_on_stdout(tmp_path: Path, argv: list[str]) -> None:
    ran = reprieve(tmp_path, *argv)
    assert (ran.code, ran.out) == (2, "")
    assert argv == ["jobs"] or ran.err.count("\n") == 1
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "argv", [["-o", "json", "nonsense"], ["jobs", "save", "-ojson"], ["config", "show", "--output=yaml", "x"]]
)
def test_under_a_machine_format_an_error_is_one_object(tmp_path: Path, argv: list[str]) -> None:
    ran = reprieve(tmp_path, *argv)
    document = json.loads(ran.err)
    assert (document["code"], document["kind"], document["hint"]) == (2, "usage", None)
    assert set(document) == {"code", "kind", "message", "hint"}
    assert (ran.code, ran.out) == (2, "")


def test_the_environment_can_ask_for_a_machine_format(tmp_path: Path) -> None:
    ran = reprieve(tmp_path, "nonsense", environ={"REPRIEVE_OUTPUT": "json"})
    assert json.loads(ran.err)["code"] == 2
    shown = reprieve(tmp_path, "config", "show", "--origin", environ={"REPRIEVE_OUTPUT": "json"})
    document = json.loads(shown.out)
    assert document["schema"] == "reprieve/config/v1"
    assert document["settings"]["output"] == "json"
    assert document["origins"]["output"] == "REPRIEVE_OUTPUT"
    assert shown.err == ""


def test_a_wish_of_the_environment_that_a_command_cannot_meet_is_no_error(tmp_path: Path) -> None:
    ran = reprieve(tmp_path, "completion", "bash", environ={"REPRIEVE_OUTPUT": "json"})
    assert ran.code == 0
    assert ran.out.startswith("# reprieve completion")
    assert reprieve(tmp_path, "completion", "bash", "-o", "json").code == 2


@pytest.mark.parametrize("output", ["json", "yaml", "csv", "name", "ndjson"])
def test_machine_formats_hold_nothing_but_data(tmp_path: Path, output: str) -> None:
    ran = reprieve(tmp_path, "config", "path", "-o", output, "--color", "always")
    assert ran.code == 0
    assert ran.err == ""
    assert "\x1b" not in ran.out
    if output == "json":
        assert json.loads(ran.out)["schema"] == "reprieve/path-list/v1"
    if output == "ndjson":
        assert all(json.loads(line)["schema"] == "reprieve/path/v1" for line in ran.out.splitlines())


def test_version_and_help(tmp_path: Path) -> None:
    assert reprieve(tmp_path, "version").out.startswith("reprieve 0.")
    assert json.loads(reprieve(tmp_path, "version", "-o", "json").out)["schema"] == "reprieve/version/v1"
    described = json.loads(reprieve(tmp_path, "help", "-o", "json").out)
    assert {"words", "summary", "options", "examples"} <= set(described["commands"][0])
    assert json.loads(reprieve(tmp_path, "help", "jobs", "save", "--json").out)["commands"][0]["tier"] == 1
    assert reprieve(tmp_path, "help", "jobs", "save").out == reprieve(tmp_path, "jobs", "save", "--help").out


def test_validation_says_what_the_files_hold_and_what_is_wrong(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text('[nodes.a]\nssh = "a"\n[jobs.j]\nnode = "b"\n', "utf-8")
    ran = reprieve(tmp_path, "config", "validate", "-o", "json", environ={"REPRIEVE_FLEET": str(fleet)})
    document = json.loads(ran.out)
    assert (document["nodes"], document["jobs"], document["ok"]) == (1, 1, True)
    assert "job 'j' is on node 'b', which is not in the fleet" in document["remarks"][0]
    fleet.write_text('[nodes.a]\nshs = "a"\n', "utf-8")
    ran = reprieve(tmp_path, "config", "validate", environ={"REPRIEVE_FLEET": str(fleet)})
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {fleet}:2: unknown key 'shs' in [nodes.a]; did you mean 'ssh'?\n"


def test_a_fault_of_ours_is_one_line_and_a_private_log(tmp_path: Path) -> None:
    ran = reprieve(tmp_path, "testing", "boom", code=_TIER_ONE)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    log = Path(ran.err.strip().rpartition(" ")[2])
    assert "RuntimeError" in log.read_text("utf-8")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "Traceback" in reprieve(tmp_path, "testing", "boom", "-vv", code=_TIER_ONE).err
    document = json.loads(reprieve(tmp_path, "testing", "boom", "-o", "json", code=_TIER_ONE).err)
    assert (document["code"], document["kind"]) == (1, "failed")


@pytest.mark.parametrize(
    ("program", "argv", "code"),
    [
        (_TIER_ONE, [], 9),
        (_TIER_ONE, ["--yes"], 0),
        (_TIER_ONE, ["-y", "-o", "json"], 0),
        (_TIER_ONE, ["--yes", "--read-only"], 2),
        (_TIER_ONE, ["--dry-run"], 0),
        (_TIER_THREE, ["--yes"], 9),
        (_TIER_THREE, ["--yes", "--confirm", "other"], 9),
        (_TIER_THREE, ["--yes", "--confirm", "it"], 0),
    ],
)
def test_consent(tmp_path: Path, program: str, argv: list[str], code: int) -> None:
    ran = reprieve(
        tmp_path, "testing", "ask", *argv, code=program, stdin="y\n", environ={"REPRIEVE_YES": "1"}
    )
    assert ran.code == code
    assert ("done" in ran.out) == (code == 0 and "--dry-run" not in argv)


def test_read_only_and_production_come_from_the_context_too(tmp_path: Path) -> None:
    config = tmp_path / "config" / "reprieve" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[contexts.ro]\nread_only = true\n[contexts.prod]\nproduction = true\n", "utf-8")
    read_only = reprieve(tmp_path, "testing", "ask", "--yes", "--context", "ro", code=_TIER_ONE)
    assert read_only.code == 2
    assert "read-only" in read_only.err
    ran = reprieve(
        tmp_path, "testing", "ask", "--yes", code=_TIER_THREE, environ={"REPRIEVE_CONTEXT": "prod"}
    )
    assert ran.code == 9


def test_a_read_only_run_stops_before_a_handler_that_asks_nothing(tmp_path: Path) -> None:
    assert reprieve(tmp_path, "testing", "change", code=_TIER_ONE).code == 0
    refused = reprieve(tmp_path, "testing", "change", code=_TIER_ONE, environ={"REPRIEVE_READ_ONLY": "1"})
    assert (refused.code, refused.out) == (2, "")


def test_on_a_terminal_people_are_asked_and_programs_are_not(tmp_path: Path) -> None:
    assert "Go on? [y/N]" in on_a_terminal(tmp_path, "testing", "ask", code=_TIER_ONE, typed="y\n")
    asked = on_a_terminal(tmp_path, "testing", "ask", "-o", "json", code=_TIER_ONE, typed="y\n")
    assert "Go on?" not in asked
    assert '"confirmation_needed"' in asked
    assert "Go on?" not in on_a_terminal(tmp_path, "testing", "ask", "--no-input", code=_TIER_ONE)


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _TIER_ONE, "testing", "flood"],
        cwd=ROOT,
        env=clean_environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(_LIMIT_S) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it_with_their_code(tmp_path: Path, number: signal.Signals, code: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _TIER_ONE, "testing", "wait"],
        cwd=ROOT,
        env=clean_environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=_LIMIT_S)
    assert process.returncode == code
    assert "Traceback" not in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_the_console_with_their_code_and_give_the_terminal_back(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN],
        cwd=ROOT,
        env=clean_environment(tmp_path, {"TERM": "xterm-256color"}),
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
    )
    os.close(secondary)
    drawn, sent = b"", False
    try:
        while chunk := os.read(primary, 65536):
            drawn += chunk
            if not sent and b"no jobs yet" in drawn:
                process.send_signal(number)
                sent = True
    except OSError:
        pass  # the other side was closed: all was read
    finally:
        os.close(primary)
        returned = process.wait(_LIMIT_S)
    assert (sent, returned) == (True, code)
    assert b"\x1b[?1049l" in drawn, "the screen of before is shown again"
    assert b"Traceback" not in drawn


def on_a_terminal(home: Path, *argv: str, code: str = MAIN, typed: str = "", **environ: str) -> str:
    """What the program draws on a terminal that is its stdin, stdout and stderr."""
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        cwd=ROOT,
        env=clean_environment(home, {"TERM": "xterm-256color", **environ}),
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
    )
    os.close(secondary)
    os.write(primary, typed.encode())
    drawn = b""
    try:
        while chunk := os.read(primary, 65536):
            drawn += chunk
    except OSError:
        pass  # the other side was closed: all was read
    finally:
        os.close(primary)
        process.wait(_LIMIT_S)
    return drawn.decode()


def test_colour_is_for_terminals_and_no_color_is_honoured(tmp_path: Path) -> None:
    assert "\x1b[1m" in on_a_terminal(tmp_path, "config", "path")
    for environ in ({"NO_COLOR": "1"}, {"NO_COLOR": ""}, {"TERM": "dumb"}, {"REPRIEVE_COLOR": "never"}):
        assert "\x1b" not in on_a_terminal(tmp_path, "config", "path", **environ), environ
    assert "\x1b[1m" in on_a_terminal(tmp_path, "config", "path", "--color", "always", NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(tmp_path, "config", "path", "-o", "json", "--color", "always")
    assert "\x1b" not in reprieve(tmp_path, "config", "path").out
    assert "\x1b[1m" in reprieve(tmp_path, "config", "path", "--color", "always").out


def test_alone_on_a_terminal_it_is_the_console(tmp_path: Path) -> None:
    program = (
        "import sys, types\n"
        "application = types.ModuleType('console.tui.start')\n"
        "application.main = lambda context, clock: print('console of', context.name, context.read_only) or 0\n"
        "sys.modules['console.tui.start'] = application\n" + MAIN
    )
    assert "console of default False" in on_a_terminal(tmp_path, code=program)
    assert "console of default True" in on_a_terminal(tmp_path, "--read-only", code=program)
    assert "no practice fleet was started" in on_a_terminal(tmp_path, "--context", "practice", code=program)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(tmp_path: Path, shell: str) -> None:
    ran = reprieve(tmp_path, "completion", shell)
    assert ran.code == 0
    if shell == "bash":
        probe = 'COMP_WORDS=(reprieve jobs re); COMP_CWORD=2; _reprieve; echo "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "-c", f"{ran.out}\n{probe}"],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        )
        assert set(done.stdout.split()) == {"restore", "rehearse", "resume", "remove"}
