"""Draws every screen at every size as SVG and PNG: `python -m tests.tui.pictures [FOLDER] [NAME…]`.

PNG needs Chromium with Fira Code and DejaVu (Debian: chromium fonts-firacode fonts-dejavu-core); without, SVG only.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from console.tui import themes
from console.tui.app import ConsoleApp
from console.tui.modes import IDS
from tests.support.tui_fleet import ScriptedFleet, StillClock, rich_view

SIZES = ((80, 24), (120, 40), (200, 60))
Shot = tuple[str, tuple[int, int], tuple[str, ...], str, dict[str, object]]
GUIDE = "3/7  gpu-e was reclaimed without notice. Watch protein-mpnn come back on free-1."


def shots() -> list[Shot]:
    """Name, size, keys, theme, changes of the view."""
    found: list[Shot] = []
    for width, height in SIZES:
        for key, mode in enumerate(IDS, 1):
            found.append((f"{mode}-{width}x{height}", (width, height), (str(key),), themes.NIGHT, {}))
        fold = ("2", "/", *"fold-9", "enter", "R")
        found.append((f"where-{width}x{height}", (width, height), fold, themes.NIGHT, {}))
        found.append((f"plan-{width}x{height}", (width, height), (*fold, "enter"), themes.NIGHT, {}))
        found.append((f"operations-{width}x{height}", (width, height), ("2", "0"), themes.NIGHT, {}))
    mid = (120, 40)
    found += [
        ("detail-80x24", (80, 24), ("2", "down", "enter"), themes.NIGHT, {}),
        ("tiny-60x14", (60, 14), ("2",), themes.NIGHT, {}),
        ("micro-20x5", (20, 5), ("2",), themes.NIGHT, {}),
        ("save-120x40", mid, ("2", "/", *"llama", "enter", "S"), themes.NIGHT, {}),
        ("save-80x24", (80, 24), ("2", "/", *"llama", "enter", "S"), themes.NIGHT, {}),
        ("begin-120x40", mid, ("2", "/", *"fold-9", "enter", "R", "enter", "enter"), themes.NIGHT, {}),
        ("interval-120x40", mid, ("2", "/", *"llama", "enter", "I"), themes.NIGHT, {}),
        ("log-120x40", mid, ("2", "L"), themes.NIGHT, {}),
        ("settings-120x40", mid, ("2", ","), themes.NIGHT, {}),
        ("drain-120x40", mid, ("1", "N"), themes.NIGHT, {}),
        ("numbers-120x40", mid, ("6", "t"), themes.NIGHT, {}),
        ("typing-120x40", mid, ("6", "i"), themes.NIGHT, {}),
        ("production-120x40", mid, ("2", "/", *"llama", "enter", "P"), themes.NIGHT, {"production": True}),
        ("readonly-120x40", mid, ("2", "S"), themes.NIGHT, {"read_only": True}),
        ("help-120x40", mid, ("2", "?"), themes.NIGHT, {}),
        ("command-120x40", mid, ("2", ":", *"mo"), themes.NIGHT, {}),
        ("filter-120x40", mid, ("2", "/", *"risk>10m"), themes.NIGHT, {}),
        ("contrast-120x40", mid, ("2",), themes.CONTRAST, {}),
        ("terminal-120x40", mid, ("2",), themes.TERMINAL, {}),
        ("mono-120x40", mid, ("2",), "mono", {}),
        ("guide-120x40", mid, ("2",), "guide", {}),
    ]  # fmt: skip
    return found


async def draw(shot: Shot, folder: Path) -> Path:
    """One picture as SVG."""
    name, size, keys, theme, changes = shot
    clock = StillClock()
    fleet = ScriptedFleet(clock, rich_view(**changes))
    os.environ.pop("NO_COLOR", None)
    if theme == "mono":
        os.environ["NO_COLOR"] = "1"
    app = ConsoleApp(
        fleet, clock, theme=theme if theme in (themes.CONTRAST, themes.TERMINAL) else themes.NIGHT
    )
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        await pilot.pause()
        if theme == "guide":
            app.say(GUIDE)
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await pilot.pause(0.3)
        target = folder / f"{name}.svg"
        target.write_text(app.export_screenshot(title="reprieve"), encoding="utf-8")
    return target


def rasterize(svg: Path) -> None:
    """SVG to PNG by headless Chromium."""
    found = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg.read_text(encoding="utf-8"))
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None or found is None:
        return
    width, height = (int(float(value)) + 1 for value in found.groups())
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             f"--user-data-dir={profile}", f"--window-size={width},{height}",
             f"--screenshot={svg.with_suffix('.png')}", svg.resolve().as_uri()],
            check=True, timeout=60, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Draw all pictures, or those whose name starts with one of the names given."""
    folder = Path(arguments[0] if arguments else "build/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    wanted = tuple(arguments[1:])
    for shot in shots():
        if not wanted or shot[0].startswith(wanted):
            svg = asyncio.run(draw(shot, folder))
            rasterize(svg)
            print(svg.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
