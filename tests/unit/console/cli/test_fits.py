"""`checkpoints fits`: nodes first, then pools from the feed; exit 6 when nothing of the fleet can take it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.fakes.clock import run
from console.cli.commands import fits
from console.cli.render import Renderer
from tests.support.cli import invocation
from tests.support.operations import Practice

FEED = {
    "ranges": [{"index": 1, "label": "5-10%", "max": 11}, {"index": 0, "label": "<5%", "max": 5}],
    "instance_types": {
        "m5.large": {"cores": 2, "ram_gb": 8},
        "m7g.large": {"cores": 2, "ram_gb": 8},
        "m6i.large": {"cores": 2, "ram_gb": 8},
    },
    "spot_advisor": {
        "r-1": {
            "Linux": {
                "m5.large": {"r": 1, "s": 60},
                "m7g.large": {"r": 0, "s": 80},
                "m6i.large": {"r": 0, "s": 70},
            }
        }
    },
}


@pytest.fixture
def practice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Practice:
    practice = Practice(tmp_path, nodes=3)
    practice.running_job("train", "n0")

    def on_fleet(given: Any, work: Callable[[Any], Any]) -> Any:
        return run(practice.clock, work(practice.fleet()))

    monkeypatch.setattr(fits, "on_fleet", on_fleet)
    return practice


def asked(tmp_path: Path, output: str = "json", **arguments: Any) -> tuple[int, str, str]:
    path = tmp_path / "feed.json"
    path.write_text(json.dumps(FEED))
    given = invocation(None, {"name": "train", "feed": str(path), **arguments}, output=output)
    code = fits.run(given)
    assert isinstance(given.renderer, Renderer)
    return code, given.renderer.stream.getvalue(), given.narrator.stream.getvalue()  # type: ignore[attr-defined]  # StringIO


def test_nodes_and_pools_of_one_job(practice: Practice, tmp_path: Path) -> None:
    code, out, _ = asked(tmp_path)
    assert code == 0
    document = json.loads(out)
    assert document["schema"] == "reprieve/fit-list/v1"
    rows = [(each["kind"], each["name"], each["verdict"]) for each in document["items"]]
    assert rows == [
        ("node", "n0", "fits"),
        ("node", "n1", "fits"),
        ("node", "n2", "fits"),
        ("pool", "aws/r-1/m6i.large/linux", "unknown"),
        ("pool", "aws/r-1/m5.large/linux", "unknown"),
        ("pool", "aws/r-1/m7g.large/linux", "refused"),
    ]
    assert all(each["checkpoint"] == "1.1" and each["job"] == "train" for each in document["items"])
    assert document["items"][0]["runs_here"] is True


def test_nothing_else_fits_is_exit_6(practice: Practice, tmp_path: Path) -> None:
    for name in ("n1", "n2"):
        practice.nodes[name].facts = {"arch": "aarch64"}
    code, out, told = asked(tmp_path, output="table", pools=1)
    assert code == 6
    assert "arch: image x86_64, node aarch64" in out
    assert out.count("pool ") == 1
    assert "0 other nodes can take it now" in told
    assert "2 unknown, 1 refused, the first 1 shown" in told
