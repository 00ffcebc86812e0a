"""The table of public reports in docs/providers names tests that exist, one row a report."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`((?:contract|unit|simulation|stores)/[\w/]+\.py)(?:::(\w+))?`")


def test_every_report_has_a_row_and_every_test_it_names_is_there() -> None:
    text = (ROOT / "docs" / "providers" / "reports.md").read_text()
    rows = re.findall(r"^\| (\d+) \| .+ \| .+ \| (.+) \|$", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 43))
    for number, here in rows:
        assert len(here) > 20, number
        for path, name in NAMED.findall(here):
            source = (ROOT / "tests" / path).read_text()
            assert not name or f"def {name}(" in source, f"{number}: {path}::{name}"
    assert sum(bool(NAMED.search(here)) for _, here in rows) >= 38
