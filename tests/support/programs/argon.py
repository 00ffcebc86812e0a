"""Input for GROMACS: 216 argon atoms on a grid, which no force-field file is needed for."""

from __future__ import annotations

import itertools
from pathlib import Path

SIDE = 6
APART_NM = 0.4
TOPOLOGY = """[ defaults ]
1 1 no 1.0 1.0
[ atomtypes ]
AR 39.948 0.0 A 0.0062 9.7e-6
[ moleculetype ]
AR 1
[ atoms ]
1 AR 1 AR AR 1 0.0 39.948
[ system ]
argon
[ molecules ]
AR 216
"""
OPTIONS = {
    "integrator": "md", "dt": "0.002", "nstxout": "500", "nstlog": "500", "nstenergy": "500", "rcoulomb": "1.0",
    "rvdw": "1.0", "gen-vel": "yes", "gen-temp": "94", "gen-seed": "7", "ld-seed": "7", "tcoupl": "no",
}  # fmt: skip


def write_argon(directory: Path, steps: int) -> None:
    """argon.gro, argon.top and argon.mdp for a run of `steps` steps."""
    lines = ["argon", str(SIDE**3)]
    for number, place in enumerate(itertools.product(range(SIDE), repeat=3), 1):
        x, y, z = ((n + 0.5) * APART_NM for n in place)
        lines.append(f"{number:5d}AR      AR{number:5d}{x:8.3f}{y:8.3f}{z:8.3f}")
    edge = SIDE * APART_NM
    lines.append(f"{edge:10.5f}{edge:10.5f}{edge:10.5f}")
    (directory / "argon.gro").write_text("\n".join(lines) + "\n")
    (directory / "argon.top").write_text(TOPOLOGY)
    options = {**OPTIONS, "nsteps": str(steps)}
    (directory / "argon.mdp").write_text("".join(f"{key} = {value}\n" for key, value in options.items()))
