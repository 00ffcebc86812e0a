"""Access tokens for Azure's management interface: given, of a service principal, or of the machine's own identity.

Sources: "OAuth 2.0 client credentials flow on the Microsoft identity platform"; "Use managed identities on a virtual machine".
"""

from __future__ import annotations

import os
import re
import urllib.parse
import urllib.request
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.clouds.http import BadRequestError, ask
from backends.errors import CredentialsError, DamagedError, UnreachableError, UsageError

TOKEN_VARIABLE = "AZURE_ACCESS_TOKEN"  # as printed by `az account get-access-token`
SERVICE = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")  # the Azure SDKs' own names
AUTHORITY_VARIABLE = "AZURE_AUTHORITY_HOST"
IDENTITY_VARIABLE = "AZURE_POD_IDENTITY_AUTHORITY_HOST"  # of the machine's identity service
DEFAULT_AUTHORITY = "https://login.microsoftonline.com"
DEFAULT_IDENTITY = "http://169.254.169.254"
RESOURCE = "https://management.azure.com/"
EARLY_S = 120.0  # a token is renewed so long before its end
_HINT = f"set {TOKEN_VARIABLE} (`az account get-access-token`), or {', '.join(SERVICE)}"


class Tokens:
    """Gives a token, kept until shortly before its end. Not shared between threads without a lock of the caller's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._token, self._until = "", float("-inf")

    def token(self) -> str:
        """A token that is good now.

        Raises:
            CredentialsError: there are none, or they are refused. UnreachableError: nobody answers.
        """
        given = os.environ.get(TOKEN_VARIABLE)
        if given:
            return _checked(given)
        now = self._clock.monotonic()
        if now >= self._until:
            secrets = [os.environ.get(name, "") for name in SERVICE]
            answer = _by_service(*secrets) if all(secrets) else _by_machine()
            self._token = _checked(answer.get("access_token"))
            life = str(answer.get("expires_in", ""))  # the machine's identity service writes it as text
            self._until = now + (float(life) - EARLY_S if re.fullmatch(r"[0-9]{1,9}", life) else 0.0)
        return self._token


def _checked(token: object) -> str:
    if (
        not isinstance(token, str)
        or not token
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        raise DamagedError("Azure credentials: what came is no access token")
    return token


def _by_service(tenant: str, client: str, secret: str) -> dict[str, Any]:
    base = os.environ.get(AUTHORITY_VARIABLE) or DEFAULT_AUTHORITY
    if not base.startswith(("https://", "http://127.0.0.1:")):
        raise UsageError(
            f"{AUTHORITY_VARIABLE}={clean(base, limit=80)}: an https address is expected: a secret is sent there"
        )
    form = {
        "grant_type": "client_credentials", "client_id": client, "client_secret": secret, "scope": f"{RESOURCE}.default",
    }  # fmt: skip
    address = f"{base.rstrip('/')}/{urllib.parse.quote(tenant, safe='')}/oauth2/v2.0/token"
    data = urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(address, data, method="POST")  # noqa: S310 - checked above
    try:
        return ask(request, "Azure credentials")
    except BadRequestError:
        raise CredentialsError(
            "Azure credentials: the service principal is refused (400): its secret has expired, or is wrong"
        ) from None


def _by_machine() -> dict[str, Any]:
    base = os.environ.get(IDENTITY_VARIABLE) or DEFAULT_IDENTITY
    if not base.startswith(("http://", "https://")):
        raise UsageError(f"{IDENTITY_VARIABLE}={clean(base, limit=80)}: an http address is expected")
    query = urllib.parse.urlencode({"api-version": "2018-02-01", "resource": RESOURCE})
    address = f"{base.rstrip('/')}/metadata/identity/oauth2/token?{query}"
    request = urllib.request.Request(address, headers={"Metadata": "true"})  # noqa: S310 - checked above
    try:
        return ask(request, "Azure identity")
    except UnreachableError:
        raise CredentialsError(
            "no Azure credentials: none in the environment, and this machine's identity service gives none",
            hint=_HINT,
        ) from None
