"""The README's table of providers and engines is what the code holds, and what it calls proven has a test."""

from __future__ import annotations

from pathlib import Path

from backends.clouds.proven import COLUMNS, TABLE, table
from backends.records.node import PROVIDERS

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_the_table_as_it_is() -> None:
    assert table() in (ROOT / "README.md").read_text("utf-8"), "put `backends.clouds.proven.table()` there"


def test_every_provider_and_every_engine_is_in_it() -> None:
    assert set(TABLE) == set(PROVIDERS) - {"none"}
    assert all(len(entries) == len(COLUMNS) for entries in TABLE.values())


def test_what_is_called_proven_names_the_test_that_showed_it_and_what_is_impossible_says_why() -> None:
    for provider, entries in TABLE.items():
        for engine, entry in zip(COLUMNS, entries, strict=True):
            where = f"{provider} {engine}"
            assert (entry.word == "proven") == bool(entry.test), where
            assert not entry.test or (ROOT / entry.test).exists(), where
            assert entry.word != "impossible" or entry.why, where


def test_no_rented_place_is_called_proven_without_an_account() -> None:
    rented = ("aws", "gcp", "azure", "runpod", "vast", "kubernetes")
    assert all(entry.word != "proven" for provider in rented for entry in TABLE[provider])
