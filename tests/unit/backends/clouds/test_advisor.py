"""The advisor feed on real snapshots, bad files, and through the cache."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.clock import SystemClock
from backends.clouds.aws import advisor, advisor_cache, feed
from backends.errors import DamagedError, UnreachableError, UsageError
from planner.hazards import band_edges
from tests.support.data import data

SMALL = {
    "ranges": [{"index": 1, "label": "5-10%", "max": 11}, {"index": 0, "label": "<5%", "max": 5}],
    "instance_types": {"m5.large": {"cores": 2, "ram_gb": 8}},
    "spot_advisor": {
        "r-1": {"Linux": {"m5.large": {"r": 1, "s": 70}}, "Windows": {"m5.large": {"r": 0, "s": -62}}}
    },
}


def small() -> bytes:
    return json.dumps(SMALL).encode()


def test_real_snapshots_are_read_whole() -> None:
    counts = {}
    for name in ("2021-02", "2024-02", "2025-06"):
        fetched = feed.fetch(str(data("spot-advisor", f"spot-advisor-{name}.json.gz")), SystemClock())
        assert fetched.snapshot == name
        counts[name] = len(advisor.parse(fetched.data or b"", what=name).pools)
    assert counts["2025-06"] == 25323
    fetched = feed.fetch(str(data("spot-advisor", "spot-advisor-2025-06.json.gz")), SystemClock())
    pools = advisor.parse(fetched.data or b"", what="feed").pools
    dear = advisor.select(pools, region="ca-central-1", instance="p5.48xlarge", system="linux")
    assert dear[0].discount == pytest.approx(-0.62)
    assert sum(pool.discount is None for pool in pools) == 89
    assert {pool.band.label for pool in pools} == {"<5%", "5-10%", "10-15%", "15-20%", ">20%"}


def test_systems_are_never_mixed_and_bands_come_from_labels() -> None:
    pools = advisor.parse(small(), what="feed").pools
    linux = advisor.select(pools, region=None, instance="m5*", system="linux")
    assert [(pool.pool, pool.band.high, pool.discount, pool.vcpus) for pool in linux] == [
        ("aws/r-1/m5.large/linux", 0.10, 0.70, 2)
    ]
    assert advisor.select(pools, region="r-1", instance=None, system="windows")[0].discount == pytest.approx(
        -0.62
    )


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"spot_advisor": 1, "ranges": []}', b"\xff\xfe", b'{"a":' * 40]
)
def test_what_is_no_feed_is_refused(text: bytes) -> None:
    with pytest.raises(DamagedError):
        advisor.parse(text, what="feed")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda x: st.lists(x) | st.dictionaries(st.text(max_size=5), x), max_leaves=20))  # fmt: skip
def test_any_regions_give_rows_or_gaps(value: object) -> None:
    text = json.dumps(
        {"ranges": [{"index": 0, "label": "<5%"}], "spot_advisor": {"r": value, "s": {"Linux": value}}}
    )
    try:
        parsed = advisor.parse(text.encode(), what="feed")
    except DamagedError:
        return
    assert isinstance(parsed.pools, tuple)


@pytest.mark.parametrize("label", ["5-10%", "<5%", ">20%", "20+%", "0-5%", "20%+", "15 - 20 %"])
def test_labels_that_are_known(label: str) -> None:
    low, high = band_edges(label)
    assert 0 <= low < high <= 0.95


@pytest.mark.parametrize("label", ["", "5", "10-5%", "<0%", "5-101%", "about 5%", "<5% <5%", ">96%"])
def test_labels_that_are_unknown(label: str) -> None:
    with pytest.raises(ValueError, match="not a band"):
        band_edges(label)


def test_bad_files_are_one_line(tmp_path: Path) -> None:
    torn, bomb = tmp_path / "torn.gz", tmp_path / "bomb.gz"
    torn.write_bytes(gzip.compress(small())[:-20])
    bomb.write_bytes(gzip.compress(b"0" * (20 << 20)))
    for path in (torn, bomb, tmp_path / "absent.json", tmp_path):
        with pytest.raises(UsageError) as caught:
            feed.fetch(str(path), SystemClock())
        assert "\n" not in caught.value.message


def test_the_cache_answers_what_the_feed_says(tmp_path: Path) -> None:
    parsed = advisor.parse(small(), what="feed")
    whole = advisor.Feed(
        parsed.pools, "here", "2025-06", "file name", "2026-01-01T00:00:00.000Z", parsed.gaps, parsed.regions
    )
    assert advisor_cache.load(tmp_path) is None
    advisor_cache.save(tmp_path, whole, "tag")
    found = advisor_cache.load(tmp_path, region="r-1")
    assert found is not None
    assert found.pools == advisor.select(parsed.pools, region="r-1", instance=None, system="linux")
    assert advisor_cache.etag(tmp_path) == ("here", "tag")


def test_a_server_with_nothing_new_costs_one_small_request() -> None:
    seen: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("If-None-Match"))
            if self.headers.get("If-None-Match") == '"v1"':
                self.send_response(304)
                self.end_headers()
                return
            body = gzip.compress(small())
            self.send_response(200)
            self.send_header("ETag", '"v1"')
            self.send_header("Last-Modified", "Sun, 29 Nov 2026 10:00:00 GMT")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/feed.json"
        first = feed.fetch(url, SystemClock())
        assert first.data == small()
        assert (first.snapshot, first.etag) == ("2026-11-29", '"v1"')
        assert feed.fetch(url, SystemClock(), etag=first.etag).data is None
        assert seen == [None, '"v1"']
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(UnreachableError):
        feed.fetch(url, SystemClock())
