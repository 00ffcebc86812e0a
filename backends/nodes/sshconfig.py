"""A safe reader of ssh_config: aliases and hops, never a command.

Reads HostName, User, Port, IdentityFile, ProxyJump, HostKeyAlias, Include, `Host` patterns and the harmless
`Match` criteria, with the meaning of ssh_config(5): the first value obtained wins. `Match exec` is never run and
its block never applied; a `ProxyCommand` that would be used is refused; agent forwarding, host-key checks and
known-hosts files are not taken from the file (architecture decision 12). What is left out is told in `notes`.
A file that another user could write is refused.
"""

from __future__ import annotations

import fnmatch
import getpass
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from backends.clean import clean
from backends.errors import UsageError

_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*?)\s*\Z")
_WORD = re.compile(r'"([^"]*)"|(\S+)')
_TOKEN = re.compile(r"%(.)")
_SINGLE = ("hostname", "user", "port", "proxyjump", "proxycommand", "hostkeyalias")
_NOT_FROM_FILE = {
    "forwardagent": ("yes", "agent forwarding stays off"),
    "forwardx11": ("yes", "X11 forwarding stays off"),
    "stricthostkeychecking": ("no", "host keys are checked all the same"),
    "userknownhostsfile": ("/dev/null", "host keys are checked all the same"),
}
SIZE_LIMIT = 1 << 20  # bytes of one file
INCLUDE_DEPTH = 16


@dataclass(frozen=True)
class Line:
    """One directive with the place it stands at."""

    keyword: str  # lower case
    words: tuple[str, ...]
    place: str  # file:line, for messages


@dataclass
class Settings:
    """What the file says about one alias; `notes` names what it says and we do not do."""

    values: dict[str, str] = field(default_factory=dict)  # keywords of _SINGLE
    places: dict[str, str] = field(default_factory=dict)
    identity_files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_lines(path: Path, depth: int = 0) -> list[Line]:
    """The directives of `path` with its includes in place; an absent file has none.

    Raises:
        UsageError: another user may write it, it is too large, not UTF-8, or a line is malformed.
    """
    text = _read_safely(path)
    lines: list[Line] = []
    for number, raw in enumerate(text.splitlines(), 1):
        place = f"{path}:{number}"
        if not raw.strip() or raw.lstrip().startswith("#"):
            continue
        match = _LINE.match(raw)
        if match is None:
            raise UsageError(f"{place}: {clean(raw.strip(), limit=80)!r} is not a line of ssh_config")
        keyword = match.group(1).lower()
        words = tuple(_unquoted(item) for item in _WORD.finditer(match.group(2)))
        if keyword == "include":
            lines += _included(words, path, depth, place)
        else:
            lines.append(Line(keyword, words, place))
    return lines


def settings_for(lines: list[Line], alias: str, user: str | None = None) -> Settings:
    """What `lines` say about `alias`; `user` is the one given beside it, for `Match user`."""
    found = Settings()
    applies = True
    skipped: str | None = None  # place of a block with `Match exec`, which is never applied
    for line in lines:
        if line.keyword == "host":
            applies, skipped = _host_matches(line.words, alias), None
        elif line.keyword == "match":
            applies, skipped = _match_applies(line, alias, user, found)
        elif skipped is not None and line.keyword not in found.values:
            found.notes.append(f"{skipped}: Match exec is never run; {line.keyword} of its block is not used")
        elif applies:
            _take(line, found)
    return found


def expand(text: str, *, alias: str, host: str, user: str, place: str) -> str:
    """Replace %%, %h, %n, %r, %u, %d as ssh_config(5) does; raise UsageError for another token."""
    tokens = {"%": "%", "h": host, "n": alias, "r": user, "u": local_user(), "d": str(Path.home())}

    def value(match: re.Match[str]) -> str:
        if match.group(1) not in tokens:
            raise UsageError(
                f"{place}: the token %{clean(match.group(1))} is not read; write the value itself"
            )
        return tokens[match.group(1)]

    return _TOKEN.sub(value, text)


def local_user() -> str:
    """The name of the user who runs this program."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _unquoted(match: re.Match[str]) -> str:
    quoted, bare = match.groups()
    return bare if quoted is None else quoted


def _read_safely(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise UsageError(f"{path} is not a regular file")
        if info.st_uid not in (0, os.getuid()) or info.st_mode & 0o022:
            raise UsageError(
                f"{path} may be written by others (mode {stat.S_IMODE(info.st_mode):04o}, owner {info.st_uid}); "
                f"it is not read: run `chmod go-w {path}` after a look at what it says"
            )
        data = os.read(descriptor, SIZE_LIMIT + 1)
    finally:
        os.close(descriptor)
    if len(data) > SIZE_LIMIT:
        raise UsageError(f"{path} is larger than {SIZE_LIMIT} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None


def _included(words: tuple[str, ...], path: Path, depth: int, place: str) -> list[Line]:
    if depth >= INCLUDE_DEPTH:
        raise UsageError(f"{place}: includes are nested deeper than {INCLUDE_DEPTH}")
    lines: list[Line] = []
    for word in words:
        pattern = Path(word).expanduser()
        anchor = pattern if pattern.is_absolute() else path.parent / pattern
        for item in sorted(Path("/").glob(str(anchor)[1:])):
            lines += read_lines(item, depth + 1)
    return lines


def _host_matches(patterns: tuple[str, ...], value: str) -> bool:
    positive = False
    for pattern in patterns:
        if pattern.startswith("!"):
            if _glob(pattern[1:], value):
                return False
        elif _glob(pattern, value):
            positive = True
    return positive


def _glob(pattern: str, value: str) -> bool:
    literal = pattern.replace("[", "[[]")  # only * and ? are special in ssh_config
    return fnmatch.fnmatchcase(value.lower(), literal.lower())


def _match_applies(line: Line, alias: str, user: str | None, found: Settings) -> tuple[bool, str | None]:
    """Whether a Match block applies, and its place when only a command could tell."""
    words = list(line.words)
    runs_command = False
    while words:
        criterion = words.pop(0).lower()
        negated = criterion.startswith("!")
        criterion = criterion.lstrip("!")
        if criterion == "all":
            matched = True
        elif criterion in ("canonical", "final"):
            matched = False
        elif not words:
            raise UsageError(f"{line.place}: Match {clean(criterion, limit=40)} needs a value")
        else:
            value = words.pop(0)
            if criterion == "exec":
                runs_command = True
                continue
            subject = {
                "host": found.values.get("hostname", alias),
                "originalhost": alias,
                "user": user or found.values.get("user", local_user()),
                "localuser": local_user(),
            }.get(criterion)
            if subject is None:
                found.notes.append(
                    f"{line.place}: Match {clean(criterion, limit=40)} is not read; its block is not used"
                )
                return False, None
            matched = _host_matches(tuple(value.split(",")), subject)
        if matched == negated:
            return False, None
    return (False, line.place) if runs_command else (True, None)


def _take(line: Line, found: Settings) -> None:
    if line.keyword == "identityfile" and line.words:
        found.identity_files.append(line.words[0])
    elif line.keyword in _SINGLE and line.words:
        value = " ".join(line.words)
        # ssh_config(5): whichever of the two comes first prevents later instances of the other.
        proxies = {"proxyjump", "proxycommand"}
        taken = proxies if line.keyword in proxies else {line.keyword}
        if not taken & found.values.keys():
            found.values[line.keyword] = value
            found.places[line.keyword] = line.place
    elif line.keyword in _NOT_FROM_FILE and line.words:
        refused, instead = _NOT_FROM_FILE[line.keyword]
        if line.words[0].lower() == refused:
            found.notes.append(f"{line.place}: {line.keyword} {refused}: {instead}")
