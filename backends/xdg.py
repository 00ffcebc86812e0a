"""Where files of this program live: XDG base directories, created 0700."""

from __future__ import annotations

import os
from pathlib import Path

_DEFAULTS = {"CONFIG": ".config", "STATE": ".local/state", "CACHE": ".cache", "DATA": ".local/share"}


def base(kind: str) -> Path:
    """The `reprieve` directory of `kind` (CONFIG, STATE, CACHE, DATA); not created."""
    value = os.environ.get(f"XDG_{kind}_HOME", "")
    root = Path(value) if value.startswith("/") else Path.home() / _DEFAULTS[kind]
    return root / "reprieve"


def private(path: Path) -> Path:
    """Create `path` (and parents) readable by the owner only and return it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path
