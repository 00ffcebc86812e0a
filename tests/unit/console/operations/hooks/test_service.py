"""The unit and the crontab lines: quoted for what reads them, put in and taken out without a trace."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import ReprieveError, UsageError
from console.operations.hooks import service as services
from console.operations.hooks.service import Service, cron_lines, edited, unit_text

HERE = Service(
    ("/opt/re prieve/bin/reprieve",), "prod", {"REPRIEVE_CONFIG": "/etc/50% $x.toml"}, Path("/s/watch.log")
)


def test_the_unit_takes_every_word_literally() -> None:
    lines = unit_text(HERE).splitlines()
    assert 'ExecStart="/opt/re prieve/bin/reprieve" "--context" "prod" "watch" "-o" "ndjson"' in lines
    assert 'Environment="REPRIEVE_CONFIG=/etc/50%% $x.toml"' in lines
    assert "Restart=always" in lines
    assert "RestartPreventExitStatus=2" in lines
    tricky = unit_text(Service(('/a"b\\c$d%e',), "default", {}, Path("/l")))
    assert 'ExecStart="/a\\"b\\\\c$$d%%e"' in tricky
    assert HERE.name == "reprieve-watch-prod"
    with pytest.raises(UsageError, match="control character"):
        unit_text(Service(("/a\nExecStart=/bin/evil",), "default", {}, Path("/l")))


def test_cron_lines_start_at_boot_and_look_again() -> None:
    boot, again = cron_lines(HERE)
    assert boot.startswith("@reboot setsid env ")
    assert again.startswith("*/5 * * * * ")
    command = boot.removeprefix("@reboot ").replace("\\%", "%")
    words = shlex.split(command)
    assert words[:4] == ["setsid", "env", "REPRIEVE_CONFIG=/etc/50% $x.toml", "/opt/re prieve/bin/reprieve"]
    assert words[-3:] == ["--if-not-running", ">>/s/watch.log", "2>&1"]
    assert "%" not in boot.replace("\\%", ""), "a bare % ends a command in a crontab"


LINE = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=20
)


@given(st.lists(LINE, max_size=5))
def test_what_was_in_the_crontab_stays_as_it_was(rows: list[str]) -> None:
    before = "".join(f"{row}\n" for row in rows)
    once = edited(before, HERE, cron_lines(HERE))
    assert edited(once, HERE, cron_lines(HERE)) == once, "installing again changes nothing"
    assert once.startswith(before)
    assert edited(once, HERE, []) == before
    other = Service(HERE.program, "default", {}, HERE.log)
    both = edited(once, other, cron_lines(other))
    assert edited(both, other, []) == once


def test_half_of_our_marks_is_not_edited() -> None:
    broken = "\n".join(edited("", HERE, cron_lines(HERE)).splitlines()[:-1])
    with pytest.raises(UsageError, match="only one of the marks"):
        edited(broken, HERE, [])


TOOL = """#!/bin/sh
echo "$0 $*" | sed 's|.*/||' >> "$TOOLS/log"
case "$1" in
  -l) if [ -e "$TOOLS/tab" ]; then cat "$TOOLS/tab"; else echo "${WORD:-no crontab for root}" >&2; exit 1; fi ;;
  -) cat > "$TOOLS/tab" ;;
esac
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`systemctl` and `crontab` of our own, first on PATH."""
    for name in ("systemctl", "crontab"):
        (tmp_path / name).write_text(TOOL)
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("TOOLS", str(tmp_path))
    return tmp_path


def test_a_unit_is_written_started_and_taken_away(tools: Path) -> None:
    unit = tools / "units" / "reprieve-watch-prod.service"
    services.install(HERE, "systemd", unit)
    assert unit.read_text() == unit_text(HERE)
    services.uninstall(HERE, "systemd", unit)
    assert not unit.exists()
    called = [line.split() for line in (tools / "log").read_text().splitlines()]
    verbs = [next(word for word in line[1:] if not word.startswith("-")) for line in called]
    assert verbs == ["daemon-reload", "enable", "restart", "disable", "daemon-reload"]


def test_the_crontab_of_a_user_is_kept(tools: Path) -> None:
    services.install(HERE, "cron", tools / "unused")
    assert "--if-not-running" in (tools / "tab").read_text()
    (tools / "tab").write_text("5 4 * * * backup\n" + (tools / "tab").read_text())
    services.uninstall(HERE, "cron", tools / "unused")
    assert (tools / "tab").read_text() == "5 4 * * * backup\n"


def test_a_crontab_that_cannot_be_read_is_not_replaced(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "the disk does not answer")
    with pytest.raises(ReprieveError, match="the disk does not answer"):
        services.install(HERE, "cron", tools / "unused")
    assert not (tools / "tab").exists()


def test_a_tool_that_fails_is_named_with_what_it_said(tools: Path) -> None:
    (tools / "systemctl").write_text("#!/bin/sh\necho Failed to connect to bus; exit 1\n")
    with pytest.raises(ReprieveError, match="daemon-reload: exit 1: Failed to connect to bus"):
        services.install(HERE, "systemd", tools / "units" / "x.service")
    with pytest.raises(UsageError, match="an installed reprieve is expected"):
        services.program_here(str(tools / "absent"))
