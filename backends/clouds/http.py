"""One request to a provider's HTTP interface: no redirect is followed, so that a token goes nowhere but where it was sent."""

from __future__ import annotations

import email.utils
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backends.clean import clean
from backends.errors import CredentialsError, DamagedError, ReprieveError, UnreachableError, UsageError
from backends.records.strict import FEED_LIMIT, loads

TIMEOUT_S = 30.0
SKEW_S = 240.0  # providers refuse what was signed or issued about five minutes off
_EXPIRED = ("expired", "no longer valid", "not yet valid")


class NotFoundError(UnreachableError):
    """The server answered 404: there is no such thing for these credentials. Alone that proves nothing."""


class BadRequestError(UnreachableError):
    """The server answered 400: to a request for a token, OAuth's word for a grant that is refused or a clock that is off."""

    clock = (
        ""  # how far this machine's clock is off by the server's, in words; empty: it is not, or not known
    )


class _Stay(urllib.request.HTTPRedirectHandler):
    """Answers 3xx become errors."""

    def redirect_request(self, *_: Any) -> None:
        """Never another request."""


class RefusedError(UnreachableError):
    """The server answered with a status that is no success and has no meaning of its own here; its code and text are kept."""

    def __init__(self, message: str, *, status: int, code: str, text: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status, self.code, self.text = status, code, text


@dataclass(frozen=True)
class Answered:
    """An answer that is a success."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    document: dict[str, Any] = field(default_factory=dict)  # empty where the body was


def ask(
    request: urllib.request.Request,
    what: str,
    *,
    denied_hint: str | None = None,
    wall: Callable[[], float] | None = None,
) -> dict[str, Any]:
    """The JSON object that answers `request`, whose address the caller has checked; `what` names the service in errors.

    Raises:
        CredentialsError: it answered 401 or 403; with `wall`, this machine's clock, the message tells when that is off.
        NotFoundError: it answered 404. BadRequestError: it answered 400.
        UnreachableError: no answer, or any other that is not 200; a redirect is one of those.
        DamagedError: the answer is no JSON object, or too large.
    """
    _, _, body = _sent(request, what, denied_hint, wall, plain=True)
    return read(body, what)


def ask_rows(
    request: urllib.request.Request,
    what: str,
    *,
    denied_hint: str | None = None,
    wall: Callable[[], float] | None = None,
) -> list[dict[str, Any]]:
    """As `ask`, for an answer that is a list of objects."""
    _, _, body = _sent(request, what, denied_hint, wall, plain=True)
    rows = read(b'{"rows":' + body + b"}", what).get("rows")
    if not isinstance(rows, list):
        raise DamagedError(f"{what}: the answer is no list")
    return [row for row in rows if isinstance(row, dict)]


def send(
    request: urllib.request.Request, what: str, *, denied_hint: str | None = None, wall: Callable[[], float]
) -> Answered:
    """As `ask`, for calls that change something: status and headers too, an empty body is an empty document.

    Raises:
        RefusedError: any status from 400 on but 401, 403 and 404, with the server's own code. Others as `ask`.
    """
    status, headers, body = _sent(request, what, denied_hint, wall, plain=False)
    return Answered(status, headers, read(body, what) if body.strip() else {})


def _sent(
    request: urllib.request.Request,
    what: str,
    denied_hint: str | None,
    wall: Callable[[], float] | None,
    *,
    plain: bool,
) -> tuple[int, Mapping[str, str], bytes]:
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=TIMEOUT_S) as answer:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return answer.status, headers, answer.read(FEED_LIMIT + 1)
    except urllib.error.HTTPError as error:
        told = b"" if plain and error.code not in (401, 403) else _body(error)
        raise _refusal(what, error, told, denied_hint, wall, plain=plain) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = clean(getattr(error, "reason", error), limit=120)
        raise UnreachableError(f"{what}: no answer ({reason})") from None


def _body(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(65_536)
    except (OSError, http.client.HTTPException):
        return b""


def _refusal(
    what: str,
    error: urllib.error.HTTPError,
    told: bytes,
    denied_hint: str | None,
    wall: Callable[[], float] | None,
    *,
    plain: bool,
) -> ReprieveError:
    code, text = said(told)
    if error.code == 403 and ("ratelimit" in code.lower() or "quota" in code.lower()):
        return UnreachableError(f"{what}: too many requests (403 {code})", hint="try again in a minute")
    off = _off(error.headers.get("Date"), wall)
    if error.code in (401, 403):
        if off:
            return CredentialsError(
                f"{what}: access is refused ({error.code}), and this machine's clock is {off}",
                hint="set the clock, then try again",
            )
        if any(word in f"{code} {text}".lower() for word in _EXPIRED):
            return CredentialsError(
                f"{what}: the credentials have expired ({error.code})", hint="log in again"
            )
        return CredentialsError(f"{what}: access is refused ({error.code})", hint=denied_hint)
    if error.code == 404:
        return NotFoundError(f"{what}: the server answered 404")
    if error.code == 429:
        return UnreachableError(
            f"{what}: the server answered 429: too many requests", hint="try again in a minute"
        )
    if not plain and error.code >= 400:
        shown = ": ".join(part for part in (code, text) if part)
        return RefusedError(
            f"{what}: refused ({error.code} {shown})", status=error.code, code=code, text=text
        )
    if error.code == 400:
        bad = BadRequestError(f"{what}: the server answered 400")
        bad.clock = off
        return bad
    hint = "try again in a minute" if error.code == 503 else None
    return UnreachableError(f"{what}: the server answered {error.code}", hint=hint)


def _off(date: str | None, wall: Callable[[], float] | None) -> str:
    """`12 min behind` where this machine's clock is so far off that providers refuse what it signs; else empty."""
    off = None if wall is None else skew_s(date, wall())
    if off is None or abs(off) < SKEW_S:
        return ""
    return f"{abs(off) / 60:.0f} min {'behind' if off > 0 else 'ahead'}"


def said(body: bytes) -> tuple[str, str]:
    """Code and text of an error document, cleaned: `{"error": {"code", "message", "errors": [{"reason"}]}}` or `{"error": code}`."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return "", ""
    told = document.get("error") if isinstance(document, dict) else None
    if not isinstance(told, dict):
        return (clean(told, limit=80) if isinstance(told, str) else ""), ""
    code = told.get("code")
    rows = told.get("errors")
    if not isinstance(code, str) and isinstance(rows, list) and rows and isinstance(rows[0], dict):
        code = rows[0].get("reason") or rows[0].get("code")
    text = told.get("message")
    return (clean(code, limit=80) if isinstance(code, str) else ""), (
        clean(text, limit=200) if isinstance(text, str) else ""
    )


def skew_s(date: str | None, wall: float) -> float | None:
    """How far this machine's clock is behind that of a server that answered at `date` (an HTTP date); None: it told none."""
    try:
        moment = email.utils.parsedate_to_datetime(date or "")
    except (ValueError, TypeError):
        return None
    return moment.timestamp() - wall


def secure(variable: str, default: str) -> str:
    """The endpoint that the environment's `variable` names, else `default`, without a slash at its end.

    Raises:
        UsageError: it is no https address: a token would be sent there in the clear.
    """
    base = os.environ.get(variable) or default
    if not base.startswith(("https://", "http://127.0.0.1:")):
        raise UsageError(
            f"{variable}={clean(base, limit=80)}: an https address is expected: a token is sent there"
        )
    return base.rstrip("/")


def ask_with_token(
    variable: str,
    default: str,
    path: str,
    token: Callable[[], str],
    what: str,
    denied_hint: str,
    wall: Callable[[], float] | None = None,
) -> dict[str, Any]:
    """As `ask`, of `path` below the endpoint that the environment's `variable` names, else `default`, with a bearer token.

    Raises:
        UsageError: the endpoint is no https address.
    """
    address = f"{secure(variable, default)}/{path}"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token()}"})  # noqa: S310 - checked
    return ask(request, what, denied_hint=denied_hint, wall=wall)


def read(body: bytes, what: str) -> dict[str, Any]:
    """An answer's JSON object; DamagedError when it is none."""
    try:
        return loads(body, what=what, limit=FEED_LIMIT)
    except ReprieveError as error:
        raise DamagedError(error.message) from None
