"""The controller as a service: a systemd unit, or lines of a crontab where there is no systemd."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from backends.clean import clean
from backends.clouds.commands import run_command
from backends.errors import ReprieveError, UsageError

Form = Literal["systemd", "cron"]
CRONTAB_LIMIT = 1 << 20  # bytes; a longer one is left alone
# What decides where configuration and state lie is kept; nothing else of an environment is.
KEPT = ("REPRIEVE_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_DIRS")


@dataclass(frozen=True)
class Service:
    """What is to run, and for whom."""

    program: tuple[str, ...]  # argv up to and without `watch`
    context: str
    environment: dict[str, str]
    log: Path  # for cron: systemd has its journal

    @property
    def name(self) -> str:
        """The unit's name, and the mark of our lines in a crontab."""
        return "reprieve-watch" if self.context == "default" else f"reprieve-watch-{self.context}"

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command."""
        return (*self.program, "--context", self.context, "watch", "-o", "ndjson")


def unit_text(service: Service) -> str:
    """The unit; restarted whatever happens, except for wrong usage or configuration (exit 2)."""
    lines = [
        "# Written by reprieve: `reprieve watch uninstall` removes it.",
        "[Unit]",
        f"Description=Reprieve controller of the fleet {_unit_word(service.context)}",
        "Wants=network-online.target",
        "After=network-online.target",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        f"ExecStart={' '.join(_quoted(word) for word in service.argv)}",
        *(
            f"Environment={_quoted(f'{name}={value}', command=False)}"
            for name, value in sorted(service.environment.items())
        ),
        "Restart=always",
        "RestartSec=5",
        "RestartPreventExitStatus=2",
        "TimeoutStopSec=30",
        "UMask=0077",
        "NoNewPrivileges=yes",
        "",
        "[Install]",
        "WantedBy=default.target" if os.geteuid() else "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _unit_word(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(text: str, *, command: bool = True) -> str:
    """One word as systemd.service(5) reads it: quoted, specifiers and variables taken literally."""
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise UsageError(f"{clean(text)!r} cannot stand in a unit: it holds a control character")
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text.replace("$", "$$") if command else text}"'


def cron_lines(service: Service) -> list[str]:
    """Start at boot, and every five minutes in case it ended; one that runs lets the next one end at once."""
    words = [f"{name}={value}" for name, value in sorted(service.environment.items())]
    argv = ["env", *words, *service.argv] if words else [*service.argv]
    for word in (*argv, str(service.log)):
        if any(ord(char) < 32 or ord(char) == 127 for char in word):
            raise UsageError(f"{clean(word)!r} cannot stand in a crontab: it holds a control character")
    command = f"setsid {shlex.join([*argv, '--if-not-running'])} >>{shlex.quote(str(service.log))} 2>&1"
    command = command.replace("%", "\\%")  # crontab(5): a bare % ends the command
    return [f"{when} {command}" for when in ("@reboot", "*/5 * * * *")]


def edited(crontab: str, service: Service, lines: list[str]) -> str:
    """The crontab with our lines in it (none: taken out), everything else as it was."""
    first, last = f"# {service.name}: begin (written by reprieve)", f"# {service.name}: end"
    rows = crontab.splitlines()
    if (first in rows) != (last in rows):
        raise UsageError(
            f"the crontab holds only one of the marks of {service.name}: mend it with crontab -e"
        )
    if first in rows:
        del rows[rows.index(first) : rows.index(last) + 1]
    if lines:
        rows += [first, *lines, last]
    return "\n".join(rows) + "\n" if rows else ""


def unit_path(service: Service) -> Path:
    """Where the unit goes: root's is the system's, another user's his own."""
    if os.geteuid() == 0:
        return Path("/etc/systemd/system") / f"{service.name}.service"
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "systemd" / "user" / f"{service.name}.service"


def form_here() -> Form:
    """What this machine has; UsageError when it has neither."""
    if Path("/run/systemd/system").is_dir():
        return "systemd"
    if shutil.which("crontab"):
        return "cron"
    raise UsageError(
        "neither systemd nor crontab is on this machine",
        hint="start it by hand: setsid reprieve watch -o ndjson >>watch.log 2>&1 &",
    )


def program_here(typed: str | None) -> tuple[str, ...]:
    """The reprieve that the service will run; UsageError when none is installed."""
    found = typed or shutil.which("reprieve")
    if found is None or not os.access(found, os.X_OK):
        what = f"{clean(typed)!r}" if typed else "no `reprieve` on PATH"
        raise UsageError(
            f"--program is {what}; an installed reprieve is expected", hint="pipx install . in a clone"
        )
    return (str(Path(found).absolute()),)


def install(service: Service, form: Form, unit: Path) -> None:
    """Write it and start it.

    Raises:
        ReprieveError: a tool failed; what was written stays, and the message says which step it was.
    """
    if form == "cron":
        _crontab(service, cron_lines(service))  # cron itself starts it within five minutes
        return
    try:
        unit.parent.mkdir(parents=True, exist_ok=True)
        temporary = unit.with_suffix(".new")
        temporary.write_text(unit_text(service), "utf-8")
        temporary.replace(unit)
    except OSError as error:
        raise ReprieveError(f"{unit} cannot be written: {clean(error.strerror or error)}") from None
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", unit.name)
    _systemctl("restart", unit.name)  # a new version of an older installation


def uninstall(service: Service, form: Form, unit: Path) -> None:
    """Stop it and take away what `install` wrote; ReprieveError when a tool failed."""
    if form == "cron":
        _crontab(service, [])
        return
    if unit.exists():
        _systemctl("disable", "--now", unit.name)
        unit.unlink()
        _systemctl("daemon-reload")


def _systemctl(*words: str) -> None:
    _tool("systemctl", *(() if os.geteuid() == 0 else ("--user",)), *words)


def _tool(*argv: str) -> None:
    status, text = run_command(argv, {})
    if status != 0:
        raise ReprieveError(
            f"{shlex.join(argv)}: exit {status}: {clean(text, limit=200) or 'it said nothing'}"
        )


def _crontab(service: Service, lines: list[str]) -> None:
    status, text = run_command(("crontab", "-l"), {}, limit=CRONTAB_LIMIT)
    if len(text) >= CRONTAB_LIMIT // 4 * 3:
        raise UsageError("the crontab is too long to be edited by a program: add the lines by hand")
    if status != 0:
        if "no crontab for" not in text.lower():  # anything else: what is there must not be replaced unread
            raise ReprieveError(f"crontab -l: exit {status}: {clean(text, limit=200) or 'it said nothing'}")
        text = ""
    status, said = run_command(("crontab", "-"), {}, edited(text, service, lines).encode())
    if status != 0:
        raise ReprieveError(f"crontab: exit {status}: {clean(said, limit=200)}")
