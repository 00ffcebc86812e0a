"""What a machine of a marketplace is called in a pool's name: GPU count and model, as in `8x-h100-sxm`. Pure."""

from __future__ import annotations

import re

from backends.clean import clean
from backends.errors import UsageError

_KIND = re.compile(r"([1-9][0-9]?)x-([a-z0-9]+(?:-[a-z0-9]+)*)\Z")


def slug(model: object) -> str:
    """`H100 SXM` as `h100-sxm`; empty for nothing."""
    text = clean(model, limit=60).lower() if isinstance(model, str) else ""
    return re.sub(r"[^a-z0-9]+", "-", text.removeprefix("nvidia ").removeprefix("geforce ")).strip("-")


def kind_of(model: object, count: object) -> str:
    """The name of `count` GPUs of `model`; `unknown` where either is not told."""
    known = slug(model)
    return f"{count}x-{known}" if known and type(count) is int and 0 < count < 100 else "unknown"


def parts_of(kind: str) -> tuple[int, str]:
    """Count and model of a name; UsageError for anything else."""
    match = _KIND.match(kind)
    if match is None:
        raise UsageError(f"{clean(kind, limit=60)!r}: GPU count and model are expected, such as 8x-h100-sxm")
    return int(match.group(1)), match.group(2)
