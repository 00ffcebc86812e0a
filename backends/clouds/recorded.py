"""Launch records of pools, whoever lends: what all of them hold, how they are read from and written to fleet files. Pure."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from backends.clean import clean
from backends.errors import UsageError

_MOUNT = re.compile(r"\S+ /\S* [a-z0-9.]{1,20}(?: \S+)?\Z")
_SSH = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>[^@:\s]+)(?::(?P<port>\d{1,5}))?\Z")
OURS = ("reprieve:", "reprieve-")  # tags and labels that begin so are made anew for each machine


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a launch record of any provider holds. Lists may be empty, texts absent: the provider's default holds then."""

    tags: dict[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()  # SOURCE DIRECTORY TYPE [OPTIONS], as in fstab; made by cloud-init
    types: tuple[str, ...] = ()  # further types that may come instead
    user: str | None = None  # for SSH; None: ssh_config's
    identity_file: str | None = None
    address: str | None = None  # public | private; None: the public one where there is one
    port: int | None = None
    tested_at: str | None = None  # RFC 3339, when a trial of this record passed


R = TypeVar("R", bound=Record)


class Reader:
    """Reads one record's table; UsageError names the pool, the key and what was expected."""

    def __init__(self, pool: str, table: Mapping[str, Any]) -> None:
        self._pool, self._table = clean(pool), table

    def wrong(self, key: str, expected: str) -> UsageError:
        """The error for a key."""
        value = clean(self._table.get(key), limit=80)
        return UsageError(f"pool {self._pool}: {key} of its launch record is {value!r}; {expected} expected")

    def text(self, key: str, pattern: str = r"[^\x00-\x1f]+", expected: str = "text") -> str | None:
        """A text that matches; None where it is absent."""
        value = self._table.get(key)
        if value is not None and not (isinstance(value, str) and re.fullmatch(pattern, value)):
            raise self.wrong(key, expected)
        return value

    def needed(self, key: str, pattern: str, expected: str) -> str:
        """A text that must be there."""
        value = self.text(key, pattern, expected)
        if value is None:
            raise self.wrong(key, expected)
        return value

    def texts(self, key: str, pattern: str, expected: str) -> tuple[str, ...]:
        """A list of texts that match."""
        value = self._table.get(key, [])
        if not isinstance(value, (list, tuple)) or not all(
            isinstance(each, str) and re.fullmatch(pattern, each) for each in value
        ):
            raise self.wrong(key, expected)
        return tuple(value)

    def number(self, key: str, low: int, high: int) -> int | None:
        """A whole number from `low` to `high`."""
        value = self._table.get(key)
        if value is not None and (type(value) is not int or not low <= value <= high):
            raise self.wrong(key, f"a whole number from {low} to {high}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._table.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def common(self, kind: str) -> dict[str, Any]:
        """The keys of `Record`; `kind` is the pattern of a type's name."""
        tags = self._table.get("tags", {})
        if not isinstance(tags, dict) or not all(isinstance(each, str) for each in tags.values()):
            raise self.wrong("tags", "a table of texts")
        return {
            "tags": dict(tags),
            "mounts": self.texts("mounts", _MOUNT.pattern, "lines as in fstab, such as fs-1:/ /data nfs4"),
            "types": self.texts("types", kind, "types of machines"),
            "address": self.text("address", "public|private", "public or private"),
            "port": self.number("port", 1, 65535),
            **{key: self.text(key) for key in ("user", "identity_file", "tested_at")},
        }


def write(record: Record) -> dict[str, Any]:
    """The record as a table of a fleet file, without what is empty or not told."""
    table: dict[str, Any] = {}
    for item in dataclasses.fields(record):
        value = getattr(record, item.name)
        if value not in (None, (), [], {}):
            table[item.name] = list(value) if isinstance(value, tuple) else value
    return table


def merged(old: R | None, new: R, kept: tuple[str, ...]) -> R:
    """A record taken again, with what only people know kept from before: `kept`, mounts, types and how SSH goes."""
    if old is None:
        return new
    values = {name: getattr(old, name) for name in ("mounts", "types", *kept)}
    for name in ("user", "identity_file", "address", "port"):
        values[name] = getattr(new, name) if getattr(old, name) is None else getattr(old, name)
    return dataclasses.replace(new, **values)


def replaced(record: R, values: Mapping[str, Any]) -> R:
    """The record with other values."""
    return dataclasses.replace(record, **values)


def way_in(ssh: str, identity_file: str | None, public: str | None, private: str | None) -> dict[str, Any]:
    """How SSH reaches a node, where its record tells it: user, port, key, and which of its machine's addresses it is."""
    told = _SSH.match(ssh)
    if told is None:
        return {"identity_file": identity_file}
    kinds = {public: "public", private: "private"}
    port = told["port"]
    return {
        "user": told["user"], "port": None if port is None else int(port), "identity_file": identity_file,
        "address": kinds.get(told["host"]),
    }  # fmt: skip


def user_data(mounts: tuple[str, ...]) -> str:
    """cloud-init's configuration that mounts these file systems; JSON is YAML."""
    rows = [line.split(" ") for line in mounts]
    options = [row[3] if len(row) > 3 else "defaults,nofail" for row in rows]
    lines = [[*row[:3], option, "0", "2"] for row, option in zip(rows, options, strict=True)]
    return "#cloud-config\n" + json.dumps({"mounts": lines}) + "\n"


def kept_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """A machine's tags but for those that were made for it alone."""
    return {name: value for name, value in tags.items() if not name.startswith(OURS)}
