"""GPUs of a node in words, from its facts and its status. Pure; everything foreign is cleaned."""

from __future__ import annotations

from collections import Counter
from typing import Any

from backends.clean import clean


def gpu_words(facts: dict[str, Any]) -> str | None:
    """`8x NVIDIA H100 80GB HBM3`; `none`; what is unknown, with the reason; None for facts that tell nothing of it."""
    if "gpus" not in facts:
        return None
    gpus, reason = facts.get("gpus"), clean(facts.get("gpu_reason") or "", limit=300)
    if not isinstance(gpus, list):
        return f"unknown: {reason}" if reason else "unknown"
    counted = Counter(_model(gpu) for gpu in gpus if isinstance(gpu, dict))
    text = ", ".join(f"{number}x {model}" for model, number in sorted(counted.items())) or "none"
    return f"{text} ({reason})" if reason else text


def _model(gpu: dict[str, Any]) -> str:
    text = clean(gpu.get("model") or "unknown model", limit=80)
    if not gpu.get("mig"):
        return text
    parts = gpu.get("mig_profiles")
    known = ", ".join(clean(part, limit=40) for part in parts) if isinstance(parts, list) else ""
    return f"{text} (MIG: {known or 'partitions unknown'})"


def state_lines(states: list[dict[str, Any]] | None, reason: str) -> list[str]:
    """One line a GPU: how busy, how full, how hot, and which processes compute; `–` for what is unknown."""
    if states is None:
        return [f"GPU state unknown: {clean(reason, limit=300)}"] if reason else []
    return [_line(state) for state in states]


def _line(state: dict[str, Any]) -> str:
    head = f"GPU {state.get('index')}"
    if state.get("fault"):
        return f"{head}  {clean(state['fault'], limit=200)}"
    busy, used, heat = (state.get(key) for key in ("utilisation", "memory_used_bytes", "temperature_c"))
    errors, processes = state.get("ecc_uncorrected"), state.get("processes")
    words = [
        f"busy {'–' if busy is None else f'{busy:.0%}'}",
        f"used {'–' if used is None else f'{used / 2**30:.1f} GiB'}",
        f"{'–' if heat is None else heat} °C",
    ]
    if errors:
        words.append(f"{errors} uncorrected memory errors")
    if processes:
        words.append("pids " + ", ".join(str(each.get("pid")) for each in processes))
    return f"{head}  {'  '.join(words)}"
