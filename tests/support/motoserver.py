"""A moto server on loopback (EC2 as moto imitates it) and instances on it."""

from __future__ import annotations

import contextlib
import os
import urllib.request
import warnings
from collections.abc import Iterator
from typing import Any

from backends.clouds.aws import calls
from tests.support.fakeaws import ENVIRONMENT

REGION = "us-east-1"


@contextlib.contextmanager
def moto_server() -> Iterator[dict[str, str]]:
    """The environment that leads boto3 to a fresh server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from moto.server import ThreadedMotoServer

        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
    host, port = server.get_host_and_port()
    request = urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
    with urllib.request.urlopen(request, timeout=120):  # its instances are the process's, not the server's
        pass
    kept = dict(os.environ)
    patience, calls.READ_S = calls.READ_S, 120.0  # its first answers take long on a busy machine
    environment = {**ENVIRONMENT, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    os.environ.update(environment)
    try:
        yield environment
    finally:
        calls.READ_S = patience
        os.environ.clear()
        os.environ.update(kept)
        server.stop()


def launch(ec2: Any, *, spot: bool, **tags: str) -> str:
    """One instance with these tags; its id."""
    tags = tags or {"any": "thing"}
    market = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
    answer = ec2.run_instances(
        ImageId="ami-04681a1dbd79675a5", InstanceType="g5.xlarge", MinCount=1, MaxCount=1,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        ],
        **market,
    )  # fmt: skip
    found: str = answer["Instances"][0]["InstanceId"]
    return found
