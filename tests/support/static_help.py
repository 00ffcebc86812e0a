"""Makes `console/cli/static_help.py` from the registry: `python -m tests.support.static_help` rewrites it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from console.cli import helptext

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "console" / "cli" / "static_help.py"


def render() -> str:
    """The module's text as it must be."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return (
        '"""Texts printed before anything is imported. Generated: `python -m tests.support.static_help`."""\n\n'
        f'VERSION = "{version}"\n\n'
        f'TOP = """\\\n{helptext.top()}"""\n\n'
        f'SHORT = """\\\n{helptext.short()}"""\n'
    )


if __name__ == "__main__":
    TARGET.write_text(render(), "utf-8")
