"""One request to a provider's HTTP interface: no redirect is followed, so that a token goes nowhere but where it was sent."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Any

from backends.clean import clean
from backends.errors import CredentialsError, DamagedError, ReprieveError, UnreachableError
from backends.records.strict import FEED_LIMIT, loads

TIMEOUT_S = 30.0


class NotFoundError(UnreachableError):
    """The server answered 404: there is no such thing for these credentials. Alone that proves nothing."""


class _Stay(urllib.request.HTTPRedirectHandler):
    """Answers 3xx become errors."""

    def redirect_request(self, *_: Any) -> None:
        """Never another request."""


def ask(request: urllib.request.Request, what: str, *, denied_hint: str | None = None) -> dict[str, Any]:
    """The JSON object that answers `request`, whose address the caller has checked; `what` names the service in errors.

    Raises:
        CredentialsError: it answered 401 or 403.
        NotFoundError: it answered 404.
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
        hint = "try again in a minute" if error.code in (429, 503) else None
        raise UnreachableError(f"{what}: the server answered {error.code}", hint=hint) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = clean(getattr(error, "reason", error), limit=120)
        raise UnreachableError(f"{what}: no answer ({reason})") from None
    return read(body, what)


def read(body: bytes, what: str) -> dict[str, Any]:
    """An answer's JSON object; DamagedError when it is none."""
    try:
        return loads(body, what=what, limit=FEED_LIMIT)
    except ReprieveError as error:
        raise DamagedError(error.message) from None
