"""One request to a provider's HTTP interface: no redirect is followed, so that a token goes nowhere but where it was sent."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from backends.clean import clean
from backends.errors import CredentialsError, DamagedError, ReprieveError, UnreachableError, UsageError
from backends.records.strict import FEED_LIMIT, loads

TIMEOUT_S = 30.0


class NotFoundError(UnreachableError):
    """The server answered 404: there is no such thing for these credentials. Alone that proves nothing."""


class BadRequestError(UnreachableError):
    """The server answered 400: to a request for a token, OAuth's word for a grant that is refused or a clock that is off."""


class _Stay(urllib.request.HTTPRedirectHandler):
    """Answers 3xx become errors."""

    def redirect_request(self, *_: Any) -> None:
        """Never another request."""


def ask(request: urllib.request.Request, what: str, *, denied_hint: str | None = None) -> dict[str, Any]:
    """The JSON object that answers `request`, whose address the caller has checked; `what` names the service in errors.

    Raises:
        CredentialsError: it answered 401 or 403.
        NotFoundError: it answered 404. BadRequestError: it answered 400.
        UnreachableError: no answer, or any other that is not 200; a redirect is one of those.
        DamagedError: the answer is no JSON object, or too large.
    """
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=TIMEOUT_S) as answer:
            body = answer.read(FEED_LIMIT + 1)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise CredentialsError(f"{what}: access is refused ({error.code})", hint=denied_hint) from None
        if error.code == 404:
            raise NotFoundError(f"{what}: the server answered 404") from None
        if error.code == 400:
            raise BadRequestError(f"{what}: the server answered 400") from None
        hint = "try again in a minute" if error.code in (429, 503) else None
        raise UnreachableError(f"{what}: the server answered {error.code}", hint=hint) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = clean(getattr(error, "reason", error), limit=120)
        raise UnreachableError(f"{what}: no answer ({reason})") from None
    return read(body, what)


def ask_with_token(
    variable: str, default: str, path: str, token: Callable[[], str], what: str, denied_hint: str
) -> dict[str, Any]:
    """As `ask`, of `path` below the endpoint that the environment's `variable` names, else `default`, with a bearer token.

    Raises:
        UsageError: the endpoint is no https address: a token would be sent there in the clear.
    """
    base = os.environ.get(variable) or default
    if not base.startswith(("https://", "http://127.0.0.1:")):
        raise UsageError(
            f"{variable}={clean(base, limit=80)}: an https address is expected: a token is sent there"
        )
    headers = {"Authorization": f"Bearer {token()}"}
    request = urllib.request.Request(f"{base.rstrip('/')}/{path}", headers=headers)  # noqa: S310 - checked above
    return ask(request, what, denied_hint=denied_hint)


def read(body: bytes, what: str) -> dict[str, Any]:
    """An answer's JSON object; DamagedError when it is none."""
    try:
        return loads(body, what=what, limit=FEED_LIMIT)
    except ReprieveError as error:
        raise DamagedError(error.message) from None
