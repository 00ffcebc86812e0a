"""On which drivers and GPUs an engine has been shown to work: `engine = auto` picks no other without the operator's word.

An entry is added when the tests marked `gpu` have passed on such a machine, never from somebody's documentation.
"""

from __future__ import annotations

from collections.abc import Iterable

from backends.clean import clean

# engine → (driver branch, GPU model); engines that are not here need no proof of their own
PROVEN: dict[str, frozenset[tuple[str, str]]] = {"criu-cuda": frozenset()}


def unproven(
    engine: str,
    driver: str | None,
    models: Iterable[str | None],
    proven: dict[str, frozenset[tuple[str, str]]] = PROVEN,
) -> str:
    """What the engine was not shown to work on, in words; empty when it was, or needs no proof."""
    if engine not in proven:
        return ""
    branch = (driver or "").split(".")[0]
    pairs = sorted({(branch, model or "") for model in models}) or [(branch, "")]
    missing = [pair for pair in pairs if pair not in proven[engine]]
    if not missing:
        return ""
    shown = ", ".join(clean(model, limit=80) or "an unknown GPU" for _, model in missing)
    return f"engine {engine} is unproven on driver {clean(driver or 'unknown', limit=40)} with {shown}"
