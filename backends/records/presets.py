"""What is known of how common frameworks save themselves: defaults of a job's `signal`, `marker` and `files`.

Data only. Whatever the operator says beside a preset wins. `docs/self-saving.md` has the flags that each program needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """One framework's convention."""

    name: str
    title: str
    pattern: str  # below the directory of saves; the job's `marker`
    directory: str | None  # where saves lie when the operator does not say; None: he must
    signal: str  # what asks for a save; `none`: it saves on its own schedule
    files: tuple[str, ...] = ()  # below the directory: what travels beside the save itself


_ALL = (
    # `last.ckpt` and no other: it is what ckpt_path="last" looks for.
    Preset("lightning", "PyTorch Lightning", "last*.ckpt", "checkpoints", "none"),
    # trainer_state.json is written after weights, optimizer and scheduler.
    Preset("transformers", "Hugging Face Trainer", "checkpoint-*/trainer_state.json", ".", "none"),
    # The run's own list of checkpoints, written anew once each is whole; it names the directories beside it.
    Preset("ray-train", "Ray Train", "checkpoint_manager_snapshot.json", None, "none", (".",)),
    Preset("sagemaker", "SageMaker", "*", "/opt/ml/checkpoints", "none"),
    Preset("slurm", "Slurm --signal", "*", "checkpoints", "USR1"),
    Preset("skypilot", "SkyPilot managed jobs", "*", "/checkpoint", "none"),
)
PRESETS = {preset.name: preset for preset in _ALL}


def preset_fields(text: str) -> dict[str, Any]:
    """Fields of a job for `NAME` or `NAME=DIRECTORY`: engine, signal, marker, files.

    Raises:
        ValueError: no such preset, or one that needs a directory has none.
    """
    name, given, directory = text.partition("=")
    preset = PRESETS.get(name.strip())
    if preset is None:
        raise ValueError(f"preset {name.strip()[:40]!r} is not one of {', '.join(PRESETS)}")
    place = directory.strip() if given else preset.directory
    if not place:
        raise ValueError(f"preset {preset.name} needs the directory of saves: {preset.name}=DIRECTORY")
    found: dict[str, Any] = {
        "engine": "signal",
        "signal": preset.signal,
        "marker": _below(place, preset.pattern),
    }
    if preset.files:
        found["files"] = tuple(_below(place, each) for each in preset.files)
    return found


def _below(directory: str, pattern: str) -> str:
    base = directory.rstrip("/") or "/"
    if pattern == ".":
        return base
    return pattern if base == "." else f"{base.rstrip('/')}/{pattern}"
