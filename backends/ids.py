"""Names and identifiers: what a job or node may be called, how checkpoints are ordered."""

from __future__ import annotations

import re
from dataclasses import dataclass

from backends.clean import clean
from backends.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_UID = re.compile(r"[a-z0-9]{20}\Z")
_CHECKPOINT = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\Z")


def check_name(kind: str, value: str) -> str:
    """Return `value` when it may name a `kind` (job, node, group …); raise UsageError otherwise."""
    if not _NAME.match(value):
        raise UsageError(
            f"{kind} name {clean(value, limit=80)!r} is not allowed: letters, digits, '.', '_' and '-', "
            f"at most 63, starting with a letter or digit"
        )
    return value


def new_uid() -> str:
    """A fresh job uid: 20 characters, 100 random bits; a reused job name gets a new one."""
    import secrets  # loads OpenSSL's hashes: only where something random is made

    alphabet = "abcdefghijklmnopqrstuvwxyz234567"
    return "".join(secrets.choice(alphabet) for _ in range(20))


def check_uid(value: str) -> str:
    """Return `value` when it is a job uid; raise UsageError otherwise (it becomes part of object keys)."""
    if not _UID.match(value):
        raise UsageError(
            f"job uid {clean(value, limit=80)!r} is not one: 20 lower-case letters or digits expected"
        )
    return value


def new_nonce() -> str:
    """128 random bits as hex: tells our own write from another's after a conflict or time-out."""
    import secrets  # loads OpenSSL's hashes: only where something random is made

    return secrets.token_hex(16)


@dataclass(frozen=True, order=True)
class CheckpointId:
    """A checkpoint's place in its job's history: ordered by (epoch, seq), never by time."""

    epoch: int  # fencing number of the incarnation that made it, from 1
    seq: int  # number of the save inside the epoch, from 1

    def __str__(self) -> str:
        return f"{self.epoch}.{self.seq}"

    @classmethod
    def parse(cls, text: str) -> CheckpointId:
        """Read `<epoch>.<seq>`; raise UsageError on anything else."""
        match = _CHECKPOINT.match(text)
        if match is None:
            raise UsageError(
                f"checkpoint id {clean(text, limit=80)!r} is not one: <epoch>.<seq> expected, such as 2.14"
            )
        return cls(int(match.group(1)), int(match.group(2)))
