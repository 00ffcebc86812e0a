"""`fleet reap`, `pools test` and the queue of notices, by the command line and real clients, against moto behind a proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock, format_utc
from backends.clouds.aws.calls import client
from backends.clouds.aws.cloud import AwsCloud
from backends.clouds.aws.queue import Queue
from backends.errors import UsageError
from backends.inventory.model import Pool
from backends.records.node import Node
from console.cli import run as command_line
from console.cli import session
from console.operations.real.toml_records import TomlRecords
from tests.support.motoproxy import Proxy, moto_behind_proxy
from tests.support.operations import Practice

REGION, AMI = "us-east-1", "ami-04681a1dbd79675a5"
POOL = f"aws/{REGION}/g5.xlarge/linux"


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with moto_behind_proxy() as made:
        yield made


class Line:
    """The command line on a fleet of fakes whose provider is the real adapter."""

    def __init__(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.practice = Practice(directory, nodes=0, provider="aws", pool=POOL)
        self.practice.clock.set_wall(SystemClock().wall())
        self.capsys = capsys
        records = self.practice.records
        records.put_pool(Pool(POOL, {"image": AMI}))
        self.cloud = AwsCloud(
            SystemClock(),
            launches=lambda: {name: pool.launch for name, pool in records.pools().items() if pool.launch},
            price_of=lambda pool, market: 1.0,
            fleet=lambda: "fedcba9876543210",
        )
        for name in ("STATE", "CONFIG", "CACHE", "DATA"):
            monkeypatch.setenv(f"XDG_{name}_HOME", str(directory / name))
        monkeypatch.setattr(session, "open_fleet", self.opened)

    def opened(self, context: Any, clock: Any, role: str, *, version: str) -> Any:
        fleet = self.practice.fleet(role)
        fleet.cloud_of = lambda node: self.cloud
        return fleet

    def run(self, *words: str) -> tuple[int, Any, str]:
        code = command_line.run([*words, "-o", "json"])
        said = self.capsys.readouterr()
        return code, json.loads(said.out) if said.out else None, said.err


@pytest.fixture
def line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], proxy: Proxy
) -> Line:
    proxy.calls.clear()
    return Line(tmp_path, monkeypatch, capsys)


def test_a_pool_is_launchable_once_its_record_was_tried_and_a_dry_run_shows_the_request(
    line: Line, proxy: Proxy
) -> None:
    assert "never tested" in (line.cloud.launchable(POOL) or "")
    code, _, err = line.run("pools", "test", POOL, "--dry-run")
    assert code == 0
    assert '"ImageId": "ami-04681a1dbd79675a5"' in err
    assert proxy.calls == []
    code, document, _ = line.run("pools", "test", POOL, "--yes")
    assert (code, document["pool"], document["request"]["call"]) == (0, POOL, "RunInstances")
    assert line.cloud.launchable(POOL) is None
    assert {form["DryRun"] for form in proxy.named("RunInstances")} == {"true"}
    proxy.refusals.append((400, "InvalidAMIID.NotFound", "The image id does not exist"))
    assert line.run("pools", "test", POOL, "--yes")[0] == 2
    assert line.run("pools", "test", "aws/us-east-1/t3.micro/linux", "--yes")[0] == 2


def test_reap_lists_first_and_removes_only_on_the_counted_word(line: Line, proxy: Proxy) -> None:
    line.run("pools", "test", POOL, "--yes")
    line.cloud.rent(POOL, "t", market="spot", max_usd=5.0)
    node = line.cloud.rent(POOL, "t", market="spot", max_usd=5.0).node
    assert node is not None
    code, document, _ = line.run("fleet", "reap", "aws")
    assert (code, [row["state"] for row in document["items"]]) == (0, ["kept"]), (
        "young, and nobody's: a request may be under way"
    )
    code, _, err = line.run("fleet", "reap", "aws", "--min-age", "0s", "--dry-run")
    assert (code, str(node.instance) in err) == (0, True)
    assert proxy.named("TerminateInstances") == []
    assert line.run("fleet", "reap", "aws", "--min-age", "0s", "--yes")[0] == 9
    assert proxy.named("TerminateInstances") == []
    code, document, _ = line.run("fleet", "reap", "aws", "--min-age", "0s", "--yes", "--confirm", "1")
    assert (code, document["items"][0]["state"]) == (0, "removed")
    code, document, _ = line.run("fleet", "reap", "aws")
    assert (code, document["items"]) == (0, [])


def test_a_region_that_cannot_be_asked_is_an_error_and_never_an_empty_list(line: Line, proxy: Proxy) -> None:
    for refused, code in (("UnauthorizedOperation", 4), ("RequestLimitExceeded", 5)):
        proxy.refusals += [(403 if code == 4 else 503, refused, "no")] * 3
        assert line.run("fleet", "reap", "aws")[:2] == (code, None)
        proxy.refusals.clear()


def test_an_event_reaches_the_listener_through_a_real_queue(proxy: Proxy) -> None:
    sqs = client("sqs", REGION)
    url = sqs.create_queue(QueueName="reprieve")["QueueUrl"]
    body = {
        "version": "0", "id": "1", "detail-type": "EC2 Spot Instance Interruption Warning", "source": "aws.ec2",
        "time": format_utc(SystemClock().wall()), "region": REGION, "resources": [],
        "detail": {"instance-id": "i-0aaaabbbbccccdddd", "instance-action": "terminate"},
    }  # fmt: skip
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(body))
    queue = Queue(REGION, "reprieve", SystemClock())
    answer = queue.receive(0)
    (message,) = answer.messages
    assert message.word is not None
    assert (message.word.kind, message.word.instance) == ("notice", "i-0aaaabbbbccccdddd")
    assert 100 < message.word.left_s(answer.provider_now) <= 120
    queue.delete([message.handle])
    left = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (left["ApproximateNumberOfMessages"], left["ApproximateNumberOfMessagesNotVisible"]) == ("0", "0")
    with pytest.raises(UsageError, match="no queue nowhere in us-east-1"):
        Queue(REGION, "nowhere", SystemClock()).receive(0)


def test_a_launch_record_and_the_limits_survive_the_fleets_files(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(
        '[fleet]\nnotices = ["aws-sqs:us-east-1/reprieve"]\nrent = true\nmax_usd = 5\nmax_nodes = 2\nmax_usd_month = 100\n'
    )
    records = TomlRecords(tmp_path)
    table = {
        "image": AMI,
        "volumes": [{"device": "/dev/sdf", "size_gib": 40, "kind": "gp3", "encrypted": True}],
        "tags": {"a b": "c"},
    }
    records.put_pool(Pool(POOL, table))
    assert records.pools() == {POOL: Pool(POOL, table)}
    assert (records.notices(), records.renting().max_usd_month) == (("aws-sqs:us-east-1/reprieve",), 100.0)
    for name in ("aws/../../x/linux", "aws/us-east-1/g5.xlarge", "/etc/x/y/z"):
        with pytest.raises(UsageError, match="provider/region/type/os"):
            records.put_pool(Pool(name, table))


def test_a_node_needs_an_instance_and_a_region_for_a_record() -> None:
    with pytest.raises(UsageError, match="an instance id"):
        AwsCloud(SystemClock()).record(Node("a", "x", "aws", POOL))
