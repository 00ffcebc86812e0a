"""The examples of docs/configuration.md are read by the readers they describe."""

from __future__ import annotations

import re
from pathlib import Path

from backends.inventory.load import load
from console.config.files import read_layer

_PAGE = Path(__file__).resolve().parents[4] / "docs" / "configuration.md"


def block(containing: str) -> str:
    blocks = re.findall(r"(?:^ {4}.*\n|^\n)+", _PAGE.read_text("utf-8"), re.MULTILINE)
    found = next(text for text in blocks if containing in text)
    return re.sub(r"^ {4}", "", found, flags=re.MULTILINE)


def test_the_example_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(block("[contexts.prod]"), "utf-8")
    layer = read_layer(path)
    assert layer.contexts["prod"]["production"] is True
    assert layer.contexts["look"]["read_only"] is True
    assert layer.values["context"] == "prod"


def test_the_example_fleet(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(block("[fleet]"), "utf-8")
    inventory = load(path)
    assert inventory.job("llama-ft").min_age_s == 86400
    assert inventory.node("gpu-a").labels == {"team": "ml"}
