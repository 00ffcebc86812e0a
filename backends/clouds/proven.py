"""Which engine was shown to work at which provider: proven, unproven, or impossible. The README's table is made of this.

An entry is `proven` by a test that ran on the real thing of that provider (the practice fleet is its own), never by documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Word = Literal["proven", "unproven", "impossible"]
COLUMNS = ("criu", "criu-cuda", "crun, runc", "signal")


@dataclass(frozen=True)
class Entry:
    """One engine at one provider."""

    word: Word
    why: str = ""  # in short: where it was shown, or what stands in the way
    test: str = ""  # the test that showed it, below the repository


_NO_ACCOUNT = Entry("unproven")
_NO_RIGHTS = Entry("impossible", "ordinary pods lack the rights")
_SELF = Entry("unproven", "notice and self-save only")
_CLOUD = (_NO_ACCOUNT, _NO_ACCOUNT, _NO_ACCOUNT, _NO_ACCOUNT)

TABLE: dict[str, tuple[Entry, Entry, Entry, Entry]] = {
    "practice": (
        Entry("proven", "every push", "tests/lab/test_criu_kinds.py"),
        Entry("unproven", "no GPU"),
        Entry("proven", "crun every push, runc with `make prove`", "tests/lab/test_oci.py"),
        Entry("proven", "every push", "tests/integration/guard/test_guard_signal.py"),
    ),
    "aws": _CLOUD,
    "gcp": _CLOUD,
    "azure": _CLOUD,
    "slurm": (
        Entry("proven", "real Slurm on two hosts, with `make prove`", "tests/lab/test_slurm.py"),
        Entry("unproven"),
        Entry("unproven"),
        Entry("unproven"),
    ),
    "kubernetes": (
        Entry("unproven", "a privileged guard with the host's PIDs; no kubelet yet"),
        Entry("unproven", "as criu"),
        Entry("impossible", "the kubelet owns its containers"),
        _SELF,
    ),
    "runpod": (_NO_RIGHTS, _NO_RIGHTS, _NO_RIGHTS, _SELF),
    "vast": (
        _NO_RIGHTS,
        _NO_RIGHTS,
        _NO_RIGHTS,
        Entry("unproven", "no notice: self-save on its own schedule"),
    ),
}


def table() -> str:
    """The table in Markdown."""
    head = [
        "| provider | " + " | ".join(f"`{name}`" for name in COLUMNS) + " |",
        "| --- |" + " --- |" * len(COLUMNS),
    ]
    head[0] = head[0].replace("`crun, runc`", "`crun`, `runc`")
    rows = [
        f"| {provider} | "
        + " | ".join(f"{each.word}: {each.why}" if each.why else each.word for each in entries)
        + " |"
        for provider, entries in TABLE.items()
    ]
    return "\n".join([*head, *rows]) + "\n"
