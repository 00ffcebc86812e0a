"""What a user reads when a provider cannot be asked: one line, exit 4 or 5, for each provider and each way."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from console.cli import run as command_line
from tests.support.azurepeer import azure_peer
from tests.support.fakeaws import ENVIRONMENT, fake_aws
from tests.support.googlepeer import google_peer

REGIONS = {"aws": "us-east-1", "gcp": "us-central1", "azure": "eastus"}
TROUBLES = ("missing", "expired", "refused", "region", "throttled", "clock")
WORDS = {
    ("aws", "missing"): (4, "no AWS credentials were found"),
    ("aws", "expired"): (4, "the credentials have expired (ExpiredToken)"),
    ("aws", "refused"): (4, "refused (UnauthorizedOperation"),
    ("aws", "region"): (5, "no answer"),
    ("aws", "throttled"): (5, "too many requests (RequestLimitExceeded)"),
    ("aws", "clock"): (4, "this machine's clock is off"),
    ("gcp", "missing"): (4, "no Google credentials"),
    ("gcp", "expired"): (4, "refused (400): expired, revoked"),
    ("gcp", "refused"): (4, "access is refused (403)"),
    ("gcp", "region"): (5, "no region 'us-nowhere1'"),
    ("gcp", "throttled"): (5, "too many requests (403 rateLimitExceeded)"),
    ("gcp", "clock"): (4, "this machine's clock is 10 min behind"),
    ("azure", "missing"): (4, "no Azure credentials"),
    ("azure", "expired"): (4, "the credentials have expired (401)"),
    ("azure", "refused"): (4, "access is refused (403)"),
    ("azure", "region"): (5, "no region 'us-nowhere1'"),
    ("azure", "throttled"): (5, "answered 429: too many requests"),
    ("azure", "clock"): (4, "this machine's clock is 10 min behind"),
}  # fmt: skip


def google(trouble: str, directory: Path, stack: contextlib.ExitStack) -> None:
    peer = stack.enter_context(google_peer())
    if trouble in ("expired", "clock"):  # of a key file's grant
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        base = os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"].removesuffix("/compute/v1/")
        document = {"type": "service_account", "client_email": "a@b", "private_key": key.private_bytes(*form).decode(),
                    "token_uri": f"{base}/token"}  # fmt: skip
        (directory / "key.json").write_text(json.dumps(document))
        stack.enter_context(
            mock.patch.dict(os.environ, {"GOOGLE_APPLICATION_CREDENTIALS": str(directory / "key.json")})
        )
        peer.token = (
            400,
            {"error": "invalid_grant", "error_description": "Token has been expired or revoked."},
        )
    elif trouble == "missing":
        peer.token = (404, {})
    elif trouble == "refused":
        peer.refusal = (403, {"error": {"code": 403, "errors": [{"reason": "forbidden"}]}})
    elif trouble == "throttled":
        peer.refusal = (403, {"error": {"code": 403, "errors": [{"reason": "rateLimitExceeded"}]}})


def azure(trouble: str, stack: contextlib.ExitStack) -> None:
    peer = stack.enter_context(azure_peer())
    if trouble == "missing":
        peer.token = (400, {"error": "invalid_request"})
    elif trouble == "expired":
        peer.refusal = (
            401,
            {"error": {"code": "ExpiredAuthenticationToken", "message": "The access token has expired."}},
        )
    elif trouble == "refused":
        peer.refusal = (403, {"error": {"code": "AuthorizationFailed"}})
    elif trouble == "throttled":
        peer.refusal = (429, {"error": {"code": "TooManyRequests"}})
    elif trouble == "clock":
        peer.refusal = (401, {"error": {"code": "InvalidAuthenticationToken"}})


def amazon(trouble: str, stack: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)  # between its tries
    if trouble == "region":
        stack.enter_context(mock.patch.dict(os.environ, ENVIRONMENT))
        os.environ.pop("AWS_ENDPOINT_URL", None)

        def nowhere(*_words: Any, **_more: Any) -> Any:
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", nowhere)
        return
    fake, environment = stack.enter_context(fake_aws())
    stack.enter_context(mock.patch.dict(os.environ, environment))
    if trouble == "missing":
        del os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    refusals = {
        "expired": (400, "ExpiredToken", "The security token included in the request is expired"),
        "refused": (403, "UnauthorizedOperation", "You are not authorized"),
        "throttled": (503, "RequestLimitExceeded", "Request limit exceeded."),
        "clock": (
            403,
            "SignatureDoesNotMatch",
            "Signature expired: 20261201T000000Z is now earlier than 20261201T001000Z",
        ),
    }
    fake.refusal = refusals.get(trouble)


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as made:
        yield made


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("provider", REGIONS)
def test_one_clear_line_and_its_exit_code(
    provider: str, trouble: str, tmp_path: Path, stack: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in ("STATE", "CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    if trouble == "clock":  # the peer's clock is ten minutes ahead of ours
        late = BaseHTTPRequestHandler.date_time_string
        monkeypatch.setattr(
            BaseHTTPRequestHandler, "date_time_string", lambda self, _at=None: late(self, time.time() + 600)
        )
    if provider == "gcp":
        google(trouble, tmp_path, stack)
    elif provider == "azure":
        azure(trouble, stack)
    else:
        amazon(trouble, stack, monkeypatch)
    wrong = {"aws": "us-nowhere-1"}.get(provider, "us-nowhere1")
    region = wrong if trouble == "region" else REGIONS[provider]
    code = command_line.run(
        ["fleet", "discover", provider, "--region", region, "--tag", "team=ml", "--dry-run"]
    )
    shown = capsys.readouterr()
    expected, words = WORDS[provider, trouble]
    assert (code, words in shown.err) == (expected, True), shown.err
    lines = [line for line in shown.err.splitlines() if line.strip()]
    assert len(lines) <= 2, "one line, and one that says what to do"
    assert "Traceback" not in shown.err
    assert shown.out == ""
