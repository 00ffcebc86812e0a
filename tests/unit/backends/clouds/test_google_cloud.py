"""Google Cloud as a witness, against a server of ours on loopback in the shapes of the REST reference."""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from backends.clock import SystemClock
from backends.clouds.gcp.cloud import GoogleCloud, project_here
from backends.clouds.gcp.instances import name_of
from backends.clouds.port import InstanceState
from backends.errors import CredentialsError, DamagedError, ReprieveError
from backends.fakes.clock import FakeClock
from backends.records.node import Node
from console.cli.commands.fleet_discover import planned
from tests.support.fakehttp import Asked, Reply, serving

ZONE = "us-central1-a"
INSTANCE = f"ml-p/{ZONE}/gpu-a/123"
PATH = f"/compute/v1/projects/ml-p/zones/{ZONE}"


class Google:
    """Answers like Compute Engine, its token endpoint and a metadata server."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.bodies: dict[str, tuple[int, Any]] = {}  # by path, query left out

    def __call__(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        path = asked.path.partition("?")[0]
        if path == "/token" or path.endswith("/default/token"):
            status, body = self.bodies.get("token", (200, {"access_token": "t0k", "expires_in": 3599}))
        elif asked.headers.get("authorization") != "Bearer t0k":
            status, body = 401, {"error": {"code": 401}}
        else:
            status, body = self.bodies.get(path, (404, {"error": {"code": 404}}))
        return status, "application/json", json.dumps(body)

    def vm(self, status: str, number: str = "123", **more: Any) -> None:
        self.bodies[f"{PATH}/instances/gpu-a"] = (
            200,
            {"id": number, "name": "gpu-a", "status": status, **more},
        )

    def operations(self, *rows: dict[str, Any]) -> None:
        self.bodies[f"{PATH}/operations"] = (200, {"items": list(rows)})


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Google]:
    peer = Google()
    with serving(peer) as base:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", f"{base}/compute/v1/")
        monkeypatch.setenv("GCE_METADATA_HOST", base.removeprefix("http://"))
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
            monkeypatch.delenv(name, raising=False)
        yield peer


def said(instance: str | None = INSTANCE) -> InstanceState:
    return GoogleCloud(FakeClock()).instance(Node("n", "u@h", "gcp", "gcp/us-central1/a3/linux", instance))


def operation(
    kind: str, *, target: str = "123", status: str = "DONE", at: str = "2026-11-01T00:00:00Z"
) -> dict[str, str]:
    return {"operationType": kind, "targetId": target, "status": status, "endTime": at}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("RUNNING", "running"), ("STAGING", "running"), ("STOPPING", "stopping"), ("TERMINATED", "stopped"),
        ("SUSPENDED", "unknown"), ("REPAIRING", "unknown"), ("NEW_WORD", "unknown"), ("", "unknown"),
    ],
)  # fmt: skip
def test_the_word_of_compute_engine(google: Google, status: str, state: str) -> None:
    google.vm(status)
    assert said().state == state


def test_why_a_stopped_machine_ended(google: Google) -> None:
    google.vm("TERMINATED")
    assert said().reason == "TERMINATED"  # its operations may not be read: that it ended stands
    google.operations(
        operation("stop", at="2026-10-01T00:00:00Z"), operation("compute.instances.preempted"),
        operation("delete", status="RUNNING", at="2026-11-02T00:00:00Z"), operation("delete", target="9"),
    )  # fmt: skip
    assert (said().state, said().reason) == ("stopped", "preempted")


def test_a_machine_that_is_not_there_is_gone_only_with_an_end_on_record(google: Google) -> None:
    assert said().state == "unknown"  # neither may be read
    google.operations()
    assert (said().state, "knows no gpu-a" in said().reason) == ("unknown", True)
    google.operations(operation("stop"), operation("delete", target="124"))
    assert said().state == "unknown"
    google.operations(operation("compute.instances.preempted"))
    assert (said().state, said().reason) == ("terminated", "preempted")
    google.vm("RUNNING", number="124")
    assert (said().state, said().reason) == ("terminated", "another machine (124) has its name now")


def test_what_cannot_be_told_is_never_gone(google: Google, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no instance of the form" in said(None).reason
    assert "no instance of the form" in said("i-0123").reason
    for status, words in (
        (403, "access is refused (403)"),
        (429, "answered 429"),
        (500, "answered 500"),
        (302, "answered 302"),
    ):
        google.bodies[f"{PATH}/instances/gpu-a"] = (status, {})
        assert (said().state, words in said().reason) == ("unknown", True), status
    google.bodies[f"{PATH}/instances/gpu-a"] = (200, {"status": "TERMINATED"})
    assert said().state == "unknown"  # of which machine?
    google.bodies["token"] = (200, {"access_token": "two words"})
    assert "no access token" in said().reason
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", "http://127.0.0.1:9/")
    google.bodies.pop("token")
    assert "no answer" in said().reason
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", "http://compute.example/")
    asked = len(google.asked)
    assert "an https address is expected" in said().reason
    assert len(google.asked) == asked  # no token was asked for, none was sent
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:9")
    monkeypatch.delenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE")
    assert "no Google credentials" in said().reason


def key_file(
    tmp_path: Path, google: Google, monkeypatch: pytest.MonkeyPatch, **fields: Any
) -> rsa.RSAPrivateKey:
    import os

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    base = os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"].removesuffix("/compute/v1/")
    document = {
        "type": "service_account", "client_email": "a@b", "private_key": pem, "token_uri": f"{base}/token",
        "project_id": "ml-p", **fields,
    }  # fmt: skip
    path = tmp_path / "key.json"
    path.write_text(json.dumps(document))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    return key


def test_a_service_account_signs_for_its_token_and_keeps_it(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = key_file(tmp_path, google, monkeypatch)
    google.vm("RUNNING")
    clock = FakeClock()
    cloud, node = GoogleCloud(clock), Node("n", "u@h", "gcp", None, INSTANCE)
    assert [cloud.instance(node).state for _ in range(2)] == ["running", "running"]
    (asked,) = (each for each in google.asked if each.path == "/token")
    assertion = urllib.parse.parse_qs(asked.body)["assertion"][0]
    signed, _, signature = assertion.rpartition(".")

    def plain(text: str) -> bytes:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

    key.public_key().verify(plain(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    claims = json.loads(plain(signed.partition(".")[2]))
    assert (claims["iss"], claims["exp"] - claims["iat"]) == ("a@b", 3600)
    assert claims["scope"].endswith("compute.readonly")
    clock.advance(3600)
    assert cloud.instance(node).state == "running"
    assert len([each for each in google.asked if each.path == "/token"]) == 2
    assert project_here() == "ml-p"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "external_account"}, "service_account or authorized_user is expected"),
        ({"private_key": "no key"}, "holds no RSA private key"),
        ({"token_uri": "http://evil.example/token"}, "names no https token_uri"),
    ],
)
def test_a_credentials_file_that_cannot_be_used(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], words: str
) -> None:
    key_file(tmp_path, google, monkeypatch, **fields)
    assert words in said().reason
    assert "PRIVATE KEY" not in said().reason
    (tmp_path / "key.json").write_text("not json")
    assert "cannot be read as JSON" in said().reason


def test_a_refused_grant_is_about_credentials(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file(tmp_path, google, monkeypatch)
    google.bodies["token"] = (400, {"error": "invalid_grant"})
    assert "this machine's clock is" in said().reason  # a fake clock, far from the server's
    told = GoogleCloud(FakeClock(SystemClock().wall())).instance(Node("n", "u@h", "gcp", None, INSTANCE))
    assert "expired, revoked, or this machine's clock is off" in told.reason


def listed(number: str, **more: Any) -> dict[str, Any]:
    return {
        "id": number, "name": f"gpu-{number}", "status": "RUNNING", "zone": f"https://g/zones/{ZONE}",
        "machineType": f"https://g/zones/{ZONE}/machineTypes/a3-highgpu-8g", "labels": {"team": "ml"},
        "scheduling": {"provisioningModel": "SPOT"},
        "networkInterfaces": [{"networkIP": "10.0.0.2", "accessConfigs": [{"natIP": "1.2.3.4"}]}], **more,
    }  # fmt: skip


def test_running_instances_are_found_by_label_over_all_pages(
    google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/compute/v1/projects/ml-p/aggregated/instances"
    windows = {"disks": [{"licenses": ["https://g/projects/windows-cloud/global/licenses/w"]}]}
    pages: dict[str, dict[str, Any]] = {
        "": {"items": {f"zones/{ZONE}": {"instances": [listed("1")]}, "zones/us-east1-b": {"instances": [listed("7")]}}, "nextPageToken": "p2"},
        "p2": {"items": {f"zones/{ZONE}": {"instances": [listed("2", scheduling={}, **windows)]}, "zones/us-central1-b": {"warning": {}}}},
    }  # fmt: skip

    def turn(asked: Asked) -> Reply:
        if asked.path.startswith(path):
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(asked.path).query)
            assert query["filter"] == ["(status = RUNNING) AND (labels.team = ml)"]
            return 200, "application/json", json.dumps(pages[query.get("pageToken", [""])[0]])
        return google(asked)

    google.bodies["/compute/v1/projects/ml-p/regions/us-central1"] = (200, {"name": "us-central1"})
    with serving(turn) as base:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", f"{base}/compute/v1")
        cloud = GoogleCloud(FakeClock())
        found = cloud.running("ml-p", "us-central1", [("team", "ml")])
        assert [(each.instance, each.pool, each.spot) for each in found] == [
            (f"ml-p/{ZONE}/gpu-1/1", "gcp/us-central1/a3-highgpu-8g/linux", True),
            (f"ml-p/{ZONE}/gpu-2/2", "gcp/us-central1/a3-highgpu-8g/windows", False),
        ]
        pages["p2"]["nextPageToken"] = "p2"
        with pytest.raises(DamagedError, match="no end"):
            cloud.running("ml-p", "us-central1", [("team", "ml")])
        pages["p2"] = {"unreachables": ["zones/us-central1-c"]}
        with pytest.raises(ReprieveError, match="not whole"):
            cloud.running("ml-p", "us-central1", [("team", "ml")])
    (_, node), (skipped, none) = planned(found, {}, "me", None, None, "gcp")
    assert node == Node(
        "gpu-1", "me@1.2.3.4", "gcp", "gcp/us-central1/a3-highgpu-8g/linux", f"ml-p/{ZONE}/gpu-1/1",
        labels={"lifecycle": "spot"},
    )  # fmt: skip
    assert (skipped["state"], none) == ("skipped", None)


def test_without_a_project_nothing_is_looked_for(google: Google) -> None:
    with pytest.raises(CredentialsError, match="no project is named"):
        project_here()


def test_ids() -> None:
    name = name_of(INSTANCE)
    assert name is not None
    assert str(name) == INSTANCE
    assert name_of("a/b/c") is None
    assert name_of("a/b/../1") is None
    assert name_of(None) is None
