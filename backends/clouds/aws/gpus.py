"""GPU model and count of instance types, as data: a type that is not here is unknown, not without a GPU.

Source: the provider's pages on accelerated instance types, compared with the tables of the RAPIDS deployment guide, TorchX and
Porter (read 2026-12-01). A fraction of a GPU (g6f, gr6f) is left out: no whole device to match.
"""

from __future__ import annotations

import re

from backends.clean import clean
from backends.errors import UsageError


def _sizes(family: str, model: str, **counts: int) -> dict[str, tuple[str, int]]:
    """`x2=1` is `<family>.2xlarge` with one GPU; `x=1` is `.xlarge`."""
    return {
        f"{family}.{size.removeprefix('x')}xlarge" if size != "metal" else f"{family}.metal": (model, count)
        for size, count in counts.items()
    }


GPUS: dict[str, tuple[str, int]] = {
    **_sizes("p2", "K80", x=1, x8=8, x16=16),
    **_sizes("p3", "V100", x2=1, x8=4, x16=8),
    **_sizes("p3dn", "V100", x24=8),
    **_sizes("p4d", "A100", x24=8),
    **_sizes("p4de", "A100", x24=8),
    **_sizes("p5", "H100", x4=1, x48=8),
    **_sizes("p5e", "H200", x48=8),
    **_sizes("p5en", "H200", x48=8),
    **_sizes("g4dn", "T4", x=1, x2=1, x4=1, x8=1, x16=1, x12=4, metal=8),
    **_sizes("g5", "A10G", x=1, x2=1, x4=1, x8=1, x16=1, x12=4, x24=4, x48=8),
    **_sizes("g6", "L4", x=1, x2=1, x4=1, x8=1, x16=1, x12=4, x24=4, x48=8),
    **_sizes("gr6", "L4", x4=1, x8=1),
    **_sizes("g6e", "L40S", x=1, x2=1, x4=1, x8=1, x16=1, x12=4, x24=4, x48=8),
}
_WANTED = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,15})(?::([1-9][0-9]{0,2}))?\Z")


def parse_gpu(text: str) -> tuple[str, int | None]:
    """(model, count) of `H100:8`; the count may be left out. UsageError for an unknown model, naming those there are."""
    match = _WANTED.match(text.strip())
    models = sorted({model for model, _ in GPUS.values()})
    if match is None or match.group(1).upper() not in models:
        raise UsageError(
            f"--gpu is {clean(text, limit=40)!r}; MODEL:N is expected, such as H100:8, with a model of {', '.join(models)}"
        )
    return match.group(1).upper(), int(match.group(2)) if match.group(2) else None


def fits(instance_type: str, wanted: tuple[str, int | None]) -> bool | None:
    """Whether a type has this GPU in this number; None when the type is not in the table."""
    found = GPUS.get(instance_type)
    if found is None:
        return None
    return found[0] == wanted[0] and wanted[1] in (None, found[1])
