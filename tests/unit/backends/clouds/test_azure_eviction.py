"""Azure's eviction figures: from a file, by pages with a token, and into the cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backends.clouds import price_cache
from backends.clouds.azure import eviction
from backends.errors import CredentialsError, DamagedError, ReprieveError, UnreachableError, UsageError
from planner.hazards import band_edges
from tests.support.data import data
from tests.support.fakehttp import Asked, Reply, serving


def row(kind: str, region: str, label: object) -> dict[str, object]:
    return {"skuName": kind, "location": region, "spotEvictionRate": label}


def test_the_recorded_answer() -> None:
    found = eviction.parse(data("notices", "azure", "resource_graph_eviction.json").read_bytes(), "file")
    labels = {(figure.region, figure.instance_type): figure.label for figure in found}
    assert labels == {
        ("eastus", "standard_nc24ads_a100_v4"): "20+",
        ("westeurope", "standard_nc24ads_a100_v4"): "5-10",
        ("eastus", "standard_d4s_v4"): "0-5",
    }
    assert [band_edges(label) for label in labels.values()] == [(0.2, 0.95), (0.05, 0.1), (0.0, 0.05)]


def test_rows_without_a_figure_are_left_out() -> None:
    rows = [row("a", "r", None), row("b", "r", ""), row("c", "r", 5), "x", {}, row("D", "R", "0-5")]
    (figure,) = eviction.parse(json.dumps({"data": rows}).encode(), "s")
    assert (figure.region, figure.instance_type, figure.label) == ("r", "d", "0-5")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"data": 7}'])
def test_what_is_no_answer_of_resource_graph(body: bytes) -> None:
    with pytest.raises(DamagedError):
        eviction.parse(body, "s")


def test_pages_with_a_token() -> None:
    asked: list[Asked] = []

    def answer(request: Asked) -> Reply:
        asked.append(request)
        skip = json.loads(request.body).get("options", {}).get("$skipToken")
        page = (
            {"data": [row("b", "r", "20+")]} if skip else {"data": [row("a", "r", "0-5")], "$skipToken": "s1"}
        )
        return 200, "application/json", json.dumps(page)

    with serving(answer) as url:
        found = eviction.fetch(url, "TOKEN")
    assert [figure.instance_type for figure in found] == ["a", "b"]
    assert [request.headers["authorization"] for request in asked] == ["Bearer TOKEN"] * 2
    assert "skuspotevictionrate" in json.loads(asked[0].body)["query"]


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ((401, "text/plain", ""), CredentialsError),
        ((403, "text/plain", ""), CredentialsError),
        ((429, "text/plain", ""), UnreachableError),
        ((200, "application/json", '{"data": [], "$skipToken": "again"}'), DamagedError),
    ],
)
def test_refusals(reply: Reply, error: type[ReprieveError]) -> None:
    with serving(lambda asked: reply) as url, pytest.raises(error) as caught:
        eviction.fetch(url, "TOKEN")
    assert "TOKEN" not in caught.value.message.replace("AZURE_ACCESS_TOKEN", "")


def test_a_redirect_does_not_carry_the_token_along() -> None:
    elsewhere: list[Asked] = []

    def note(asked: Asked) -> Reply:
        elsewhere.append(asked)
        return 200, "application/json", "{}"

    with (
        serving(note) as other,
        serving(lambda asked: (302, f"{other}/steal", "")) as url,
        pytest.raises(UnreachableError, match="302"),
    ):
        eviction.fetch(url, "TOKEN")
    assert elsewhere == []


def test_a_token_is_sent_to_https_only_and_must_be_one() -> None:
    with pytest.raises(UsageError, match="https"):
        eviction.fetch("http://example.org", "TOKEN")
    with pytest.raises(UsageError, match="no token"):
        eviction.fetch("https://management.azure.com", "two\nlines")


def test_a_pull_replaces_the_providers_figures(tmp_path: Path) -> None:
    assert price_cache.load_figures(tmp_path, "azure") == {}
    first = eviction.parse(json.dumps({"data": [row("a", "r", "0-5"), row("b", "r", "20+")]}).encode(), "s")
    price_cache.save_figures(tmp_path, "azure", first, "T1")
    price_cache.save_figures(tmp_path, "azure", first[:1], "T2")
    kept = price_cache.load_figures(tmp_path, "azure", "r")
    assert {key: value.fetched_at for key, value in kept.items()} == {("r", "a"): "T2"}
    assert price_cache.load_figures(tmp_path, "azure", "elsewhere") == {}
