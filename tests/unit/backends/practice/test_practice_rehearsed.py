"""The uninterrupted run is one of the same job in the same surroundings."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from backends.errors import ReprieveError
from backends.practice import rehearsed

_TELLS = "import json, os, sys; open(sys.argv[-1] + '/DONE', 'w').write(json.dumps(dict(os.environ), separators=(',', ':')))"


def test_what_steers_arithmetic_in_this_shell_does_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENBLAS_CORETYPE", "MKL_CBWR", "NPY_DISABLE_CPU_FEATURES", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "7")
    found = json.loads(asyncio.run(rehearsed.uninterrupted((sys.executable, "-c", _TELLS))))
    assert found["OMP_NUM_THREADS"] == "1"
    assert not {"OPENBLAS_CORETYPE", "MKL_CBWR", "NPY_DISABLE_CPU_FEATURES"} & set(found)


def test_a_run_that_fails_says_why_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(ReprieveError, match="the uninterrupted run failed: no such luck"):
        asyncio.run(rehearsed.uninterrupted((sys.executable, "-c", "raise SystemExit('no such luck')")))
    assert list(tmp_path.iterdir()) == []
