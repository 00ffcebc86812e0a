"""Single values: addresses that no shell or option parser can act on, and durations that read back exactly."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.inventory import values


@pytest.mark.parametrize(
    "address",
    [
        "gpu-1", "ubuntu@10.0.0.4", "ubuntu@10.0.0.4:22", "nœud-α", "root@[2001:db8::7]:2222", "2001:db8::7",
        "fe80::1%eth0", "aws-ssm:i-0abc", "gcp-iap:project/zone/name", "a" * 253,
    ],
)  # fmt: skip
def test_addresses_that_are_taken(address: str) -> None:
    assert values.ssh(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "-oX", "ubuntu@-oX", "-u@host", "a b", "a\tb", "a;b", "$(x)", "a@b@c", "a:port", "host:123456", "a/b", "ssh://a",
        "aws-ssm:", "aws-ssm:-x", "a" * 254, "host\x1b", "a%h", "", "u" * 65 + "@h",
    ],
)  # fmt: skip
def test_addresses_that_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"address|text of at least"):
        values.ssh(address)


@given(st.floats(min_value=0, max_value=1e12).filter(lambda value: value == 0 or value > 1e-12))
def test_a_written_duration_reads_back_exactly(seconds: float) -> None:
    assert values.duration(values.write_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0s"), (90.0, "90s"), (600.0, "10m"), (7200.0, "2h"), (0.1, "0.1s")]
)
def test_durations_are_written_short(seconds: float, text: str) -> None:
    assert values.write_duration(seconds) == text


def test_times_of_day_get_a_hint() -> None:
    for value in (datetime.time(12, 30, 45), "12:30:45"):
        with pytest.raises(ValueError, match='write "12h30m45s"'):
            values.duration(value)


def test_instants() -> None:
    assert values.instant("2026-12-05T00:00:00Z") == "2026-12-05T00:00:00Z"
    zoned = datetime.datetime(2026, 12, 5, tzinfo=datetime.UTC)
    assert values.instant(zoned) == "2026-12-05T00:00:00+00:00"


def test_places_to_restore() -> None:
    assert values.restore({"on-demand-after": "2h"}) == "on-demand-after=2h"
    assert values.restore("same-pool") == "same-pool"
    for wrong in ("on-demand-after=2", {"on-demand-after": "2h", "x": 1}, 3):
        with pytest.raises(ValueError, match=r"duration|expected"):
            values.restore(wrong)


def test_store_urls_hold_no_credentials_and_the_refusal_does_not_repeat_them() -> None:
    for good in ("file:///srv/reprieve", "s3://bucket/prefix", "gs://b", "az://c/p@2"):
        assert values.url(good) == good
    for wrong in ("bucket", "/srv/x", "s3://", "S3 bucket", "file:// x"):
        with pytest.raises(ValueError, match="no store URL"):
            values.url(wrong)
    with pytest.raises(ValueError, match="no credentials") as caught:
        values.url("s3://key:hunter2@bucket/x")
    assert "hunter2" not in str(caught.value)
