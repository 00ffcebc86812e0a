"""Where the real-world data lie: beside a checkout, absent on other machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[2].parent / "shared/data"


def data(*parts: str) -> Path:
    """A file or folder of the data; skips the test with a clear word where the data are absent."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"real-world data are not on this machine ({'/'.join(parts)})")
    return path


def case(number: int) -> dict[str, Any]:
    """Real-world case `RC-nn`."""
    wanted = f"RC-{number:02d}"
    for line in data("cases", "cases.jsonl").read_text(encoding="utf-8").splitlines():
        found: dict[str, Any] = json.loads(line)
        if found["id"] == wanted:
            return found
    raise KeyError(wanted)
