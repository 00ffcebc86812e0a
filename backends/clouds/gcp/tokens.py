"""Access tokens for Google's interfaces: from a credentials file, else from the machine's metadata server.

Sources: "Application Default Credentials"; RFC 7523 (a signed assertion for a token), RFC 6749 section 6 (a refresh token).
"""

from __future__ import annotations

import base64
import json
import os
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.clouds.http import BadRequestError, ask
from backends.errors import CredentialsError, DamagedError, ReprieveError, UnreachableError
from backends.records.strict import loads

FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
METADATA_VARIABLE = "GCE_METADATA_HOST"
SCOPE = "https://www.googleapis.com/auth/compute.readonly"
WRITING = "https://www.googleapis.com/auth/compute"
EARLY_S = 120.0  # a token is renewed so long before its end
LIFE_S = 3600  # of an assertion; Google allows no more
_USER = Path(".config/gcloud/application_default_credentials.json")


class Tokens:
    """Gives a token, kept until shortly before its end. Not shared between threads without a lock of the caller's."""

    def __init__(self, clock: Clock, scope: str = SCOPE) -> None:
        self._clock, self._scope = clock, scope
        self._token, self._until = "", float("-inf")

    def token(self) -> str:
        """A token that is good now.

        Raises:
            CredentialsError: there are no credentials, or they are refused. UnreachableError: nobody answers.
        """
        now = self._clock.monotonic()
        if now < self._until:
            return self._token
        path = credentials_file()
        answer = _by_metadata() if path is None else _by_file(path, self._clock, self._scope)
        token, life = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
            raise DamagedError("Google credentials: the answer holds no access token")
        self._token = token
        self._until = now + (float(life) - EARLY_S if isinstance(life, int) else 0.0)
        return token


def credentials_file() -> Path | None:
    """The credentials file that is named or that gcloud left; None: the metadata server is asked."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    users = Path.home() / _USER
    return users if users.exists() else None


def document_of(path: Path) -> dict[str, Any]:
    """The credentials file's object; CredentialsError without a word of its content."""
    try:
        return loads(path.read_bytes(), what="it")
    except (OSError, ReprieveError):
        raise CredentialsError(
            f"Google credentials: {clean(path)} cannot be read as JSON",
            hint=f"name a service account's key file in {FILE_VARIABLE}, or run `gcloud auth application-default login`",
        ) from None


def _by_file(path: Path, clock: Clock, scope: str) -> dict[str, Any]:
    document = document_of(path)
    kind = document.get("type")
    if kind == "service_account":
        address = _address(document.get("token_uri"), path)
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": _assertion(document, address, int(clock.wall()), path, scope),
        }
    elif kind == "authorized_user":
        address = _address(document.get("token_uri") or "https://oauth2.googleapis.com/token", path)
        names = ("client_id", "client_secret", "refresh_token")
        form = {"grant_type": "refresh_token", **{name: str(document.get(name, "")) for name in names}}
    else:
        raise CredentialsError(
            f"Google credentials: {clean(path)} is of type {clean(str(kind), limit=40)!r}; service_account or "
            "authorized_user is expected"
        )
    data = urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(address, data, method="POST")  # noqa: S310 - checked by _address
    try:
        return ask(request, "Google credentials", wall=clock.wall)
    except BadRequestError as error:
        off = f"this machine's clock is {error.clock}"
        why = off if error.clock else "expired, revoked, or this machine's clock is off"
        raise CredentialsError(
            f"Google credentials: {clean(path)} is refused (400): {why}",
            hint="set the clock, then try again" if error.clock else "make a new key, or log in again",
        ) from None


def _address(value: object, path: Path) -> str:
    if isinstance(value, str) and value.startswith(("https://", "http://127.0.0.1:")):
        return value
    raise CredentialsError(f"Google credentials: {clean(path)} names no https token_uri")


def _assertion(document: dict[str, Any], audience: str, now: int, path: Path, scope: str) -> str:
    from backends.store.assertions import rs256

    claims = {
        "iss": str(document.get("client_email", "")), "scope": scope, "aud": audience, "iat": now, "exp": now + LIFE_S,
    }  # fmt: skip
    signed = f"{_part({'alg': 'RS256', 'typ': 'JWT'})}.{_part(claims)}"
    try:
        signature = rs256(str(document.get("private_key", "")), signed.encode())
    except CredentialsError:
        raise CredentialsError(f"Google credentials: {clean(path)} holds no RSA private key") from None
    return f"{signed}.{_text(signature)}"


def _part(document: dict[str, Any]) -> str:
    return _text(json.dumps(document, separators=(",", ":")).encode())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _by_metadata() -> dict[str, Any]:
    host = os.environ.get(METADATA_VARIABLE) or "metadata.google.internal"
    url = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
    try:
        return ask(urllib.request.Request(url, headers={"Metadata-Flavor": "Google"}), "Google metadata")
    except UnreachableError:
        raise CredentialsError(
            "no Google credentials: no file is named, and no metadata server gives a token here",
            hint=f"name a service account's key file in {FILE_VARIABLE}, or run `gcloud auth application-default login`",
        ) from None
