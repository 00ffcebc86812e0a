"""What the fake metadata endpoint says, state by state."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.clock import SystemClock, parse_utc
from backends.practice import metadata
from backends.practice.metadata import Answer, Metadata, MetadataMode, answer

BASE = "/latest/meta-data/"
DATA = Path(__file__).resolve().parents[4] / "../shared/data/notices/aws"
NOW = 1_772_366_400.25


def endpoint(mode: MetadataMode = "silent", deadline: float | None = None) -> Metadata:
    return Metadata("i-1", "practice/zone-a/small/linux", mode, deadline, NOW)


def say(
    state: Metadata, path: str, *, method: str = "GET", at: float = 10.0, **headers: str
) -> Answer | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answer(state, method, path, named, wall=NOW, monotonic=at)


def token(state: Metadata, ttl: str = "60", at: float = 10.0) -> str:
    said = say(state, "/latest/api/token", method="PUT", at=at, x_aws_ec2_metadata_token_ttl_seconds=ttl)
    assert said is not None
    assert said.status == 200
    return said.body


def read(state: Metadata, name: str, at: float = 10.0) -> Answer:
    said = say(state, BASE + name, at=at, x_aws_ec2_metadata_token=token(state, at=at))
    assert said is not None
    return said


def test_a_silent_host_is_read_with_a_token_and_says_404() -> None:
    state = endpoint()
    assert read(state, "instance-id").body == "i-1"
    assert read(state, "instance-type").body == "small"
    assert read(state, "placement/availability-zone").body == "zone-a"
    for name in ("spot/instance-action", "spot/termination-time", "events/recommendations/rebalance"):
        assert read(state, name).status == 404


def test_without_a_token_or_after_its_life_it_is_401() -> None:
    state = endpoint("notice", NOW + 120)
    path = BASE + "spot/instance-action"
    for wrong in ("made-up", ""):
        said = say(state, path, x_aws_ec2_metadata_token=wrong)
        assert said is not None
        assert said.status == 401
    assert say(state, path) == say(state, path, x_aws_ec2_metadata_token="")
    held = token(state, "60", at=10.0)
    alive = say(state, path, at=69.9, x_aws_ec2_metadata_token=held)
    ended = say(state, path, at=70.0, x_aws_ec2_metadata_token=held)
    assert alive is not None
    assert ended is not None
    assert (alive.status, ended.status) == (200, 401)


@pytest.mark.parametrize("ttl", ["", "0", "21601", "-5", "1.5", "abc"])
def test_a_token_needs_a_whole_ttl_in_range(ttl: str) -> None:
    said = say(endpoint(), "/latest/api/token", method="PUT", x_aws_ec2_metadata_token_ttl_seconds=ttl)
    assert said is not None
    assert said.status == 400


def test_a_notice_has_the_shape_that_the_service_gives() -> None:
    state = endpoint("notice", NOW + 120)
    document = json.loads(read(state, "spot/instance-action").body)
    assert document == {"action": "terminate", "time": "2026-03-01T12:02:00Z"}
    assert read(state, "spot/termination-time").body == document["time"]
    assert parse_utc(document["time"]) <= NOW + 120  # never later than the truth
    sample = DATA / "imds_instance_action_terminate.json"
    if not sample.exists():
        pytest.skip("../shared/data is not here: the recorded answer cannot be compared")
    assert set(json.loads(sample.read_text())) == set(document)


def test_a_hint_is_only_a_hint() -> None:
    state = endpoint("hint")
    assert json.loads(read(state, "events/recommendations/rebalance").body) == {
        "noticeTime": "2026-03-01T12:00:00Z"
    }
    assert read(state, "spot/instance-action").status == 404


@pytest.mark.parametrize(("mode", "status"), [("forbidden", 403), ("error", 500), ("html", 200)])
def test_unreadable_ways_answer_even_the_token_request_so(mode: MetadataMode, status: int) -> None:
    said = say(endpoint(mode), "/latest/api/token", method="PUT")
    assert said is not None
    assert said.status == status
    assert not said.body.startswith("{")


@given(st.sampled_from(metadata.MODES), st.text(max_size=40), st.sampled_from(["GET", "PUT", "POST"]))
def test_any_path_gets_an_answer_and_never_a_notice_by_accident(mode: str, path: str, method: str) -> None:
    state = Metadata("i-1", "practice", mode)  # type: ignore[arg-type]  # from the list of modes
    said = say(state, path, method=method)
    assert said is None if mode == "hang" else said is not None
    assert said is None or "terminate" not in said.body


async def test_served_over_a_socket_and_hanging_holds_the_connection() -> None:
    state = endpoint()
    clock = SystemClock()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await metadata.serve(reader, writer, state, clock)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def ask(text: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        try:
            return await asyncio.wait_for(reader.read(), 5)
        finally:
            writer.close()

    put = b"PUT /latest/api/token HTTP/1.1\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\n\r\n"
    said = await ask(put)
    assert said.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\n\r\n" in said
    held = said.partition(b"\r\n\r\n")[2]
    get = b"GET /latest/meta-data/instance-id HTTP/1.1\r\nx-aws-ec2-metadata-token: " + held + b"\r\n\r\n"
    assert (await ask(get)).endswith(b"i-1")
    assert await ask(b"nonsense\r\n\r\n") == b""
    state.mode = "hang"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(put)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(), 0.3)
    writer.close()
    server.close()
