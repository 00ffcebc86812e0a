"""Calls to AWS: the one place that names boto3, and one line for each way in which a call goes wrong.

Credentials come from where AWS users keep them (environment, shared files, instance profile); none is read here.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from backends.clean import clean
from backends.errors import CredentialsError, DamagedError, ReprieveError, UnreachableError, UsageError

CONNECT_S, READ_S, ATTEMPTS = 5.0, 20.0, 3
PAGES_LIMIT = 1000

_SKEWED = ("RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired")
_REFUSED = (
    "UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure", "InvalidClientTokenId",
    "UnrecognizedClientException", "SignatureDoesNotMatch", "MissingAuthenticationToken", "OptInRequired",
    "InvalidSignatureException", "IncompleteSignature", "PendingVerification", "Blocked",
)  # fmt: skip
_THROTTLED = (
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "SlowDown",
)


def client(service: str, region: str | None, *, attempts: int | None = None) -> Any:
    """A client of boto3; nothing is contacted yet.

    Args:
        service: such as ec2.
        region: such as us-east-1; None: what the user's settings say.
        attempts: tries of one call, for whoever repeats it himself; None: the usual number.

    Raises:
        UsageError: boto3 is not installed, or no region is known.
    """
    try:
        import boto3
        import botocore.session
        from botocore.config import Config
    except ImportError:
        raise UsageError(
            "AWS cannot be asked: the package boto3 is not installed",
            hint="install it beside Reprieve, such as by `pipx inject reprieve boto3`",
        ) from None
    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS if attempts is None else attempts},
        user_agent_extra="reprieve",
    )
    with explained(service, region):
        session = botocore.session.Session()
        session.register_component("data_loader", _loader())
        return boto3.session.Session(botocore_session=session).client(
            service, region_name=region, config=config
        )


@functools.cache
def _loader() -> Any:
    """What botocore knows of AWS's services: read once a process, not once a client (EC2's takes half a second)."""
    from botocore import loaders

    return loaders.create_loader()


@contextlib.contextmanager
def explained(what: str, region: str | None) -> Iterator[None]:
    """Turn what boto3 raises into errors of ours; none of them ever means that an instance is gone.

    Raises:
        UsageError: no region, an unknown region or profile, a request that AWS calls wrong.
        CredentialsError: missing, expired or refused credentials, or a clock that is off.
        UnreachableError: no answer, or too many requests.
    """
    from botocore import exceptions as bad
    from botocore.parsers import ResponseParserError

    place = f"AWS {what}" + (f" in {clean(region, limit=40)}" if region else "")
    try:
        yield
    except bad.ClientError as error:
        raise _refusal(place, error) from None
    except (bad.NoCredentialsError, bad.PartialCredentialsError):
        raise CredentialsError(
            f"{place}: no AWS credentials were found",
            hint="`aws configure`, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ) from None
    except (bad.CredentialRetrievalError, bad.SSOError, bad.TokenRetrievalError) as error:
        raise CredentialsError(
            f"{place}: credentials could not be had ({_short(error)})",
            hint="log in again, such as by `aws sso login`",
        ) from None
    except (bad.NoRegionError, bad.InvalidRegionError):
        raise UsageError(
            f"{place}: a region is needed, such as us-east-1", hint="name one with --region"
        ) from None
    except bad.ProfileNotFound as error:
        raise UsageError(f"{place}: {_short(error)}", hint="see AWS_PROFILE and ~/.aws/config") from None
    except (bad.ConnectionError, bad.HTTPClientError) as error:  # every way in which no answer comes
        raise UnreachableError(
            f"{place}: no answer ({_short(error)})",
            hint="is the region's name right, and is there a way out?",
        ) from None
    except ResponseParserError as error:
        raise UnreachableError(f"{place}: the answer makes no sense ({_short(error)})") from None
    except bad.BotoCoreError as error:
        raise ReprieveError(f"{place}: {_short(error)}") from None


def code_of(error: Any) -> str:
    """AWS's code of a refused call, such as InsufficientInstanceCapacity."""
    return clean(error.response.get("Error", {}).get("Code", ""), limit=60)


def _short(error: Exception) -> str:
    return clean(str(error).partition("\n")[0], limit=160)


def _refusal(place: str, error: Any) -> ReprieveError:
    told = error.response.get("Error", {})
    code, text = clean(told.get("Code", ""), limit=60), clean(told.get("Message", ""), limit=200)
    late = "expired" in text.lower() or "not yet current" in text.lower()
    if code in _SKEWED or (
        code in ("SignatureDoesNotMatch", "InvalidSignatureException", "AuthFailure") and late
    ):
        return CredentialsError(
            f"{place}: the request's time was refused ({code}): this machine's clock is off",
            hint="set the clock (within five minutes of AWS's), then try again",
        )
    if code in _EXPIRED:
        return CredentialsError(f"{place}: the credentials have expired ({code})", hint="log in again")
    if code in _REFUSED or code.endswith("Unauthorized"):
        return CredentialsError(
            f"{place}: refused ({code}: {text})", hint="docs/providers/aws.md has the least policy"
        )
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _THROTTLED or status == 429:
        return UnreachableError(f"{place}: too many requests ({code})", hint="try again in a minute")
    if status >= 500:
        return UnreachableError(f"{place}: AWS answered {status} ({code})", hint="try again in a minute")
    return UsageError(f"{place}: {code or status}: {text}")


def pages(ask: Callable[[dict[str, str]], dict[str, Any]], what: str) -> Iterator[dict[str, Any]]:
    """The answers of a call that comes in pages, by `NextToken`.

    A page may be empty, and the last one may carry an empty token.

    Raises:
        DamagedError: a token comes again, or there is no end.
    """
    seen: set[str] = set()
    request: dict[str, str] = {}
    for _ in range(PAGES_LIMIT):
        answer = ask(request)
        yield answer
        token = answer.get("NextToken")
        if not token:
            return
        if token in seen:
            raise DamagedError(f"{what}: the same page token came twice; the rest cannot be read")
        seen.add(token)
        request = {"NextToken": token}
    raise DamagedError(f"{what}: more than {PAGES_LIMIT} pages; narrow it by region and type")
