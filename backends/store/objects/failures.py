"""What went wrong at an object store, from obstore's exceptions to our errors.

obstore's texts run over many lines and repeat requests; only the status, the provider's error code and a few known
words are taken from them, so that neither a signature nor a body travels into a message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from backends.clean import clean
from backends.errors import (
    CredentialsError,
    DamagedError,
    ExistsError,
    FullError,
    NotFoundError,
    ReprieveError,
    StoreError,
    UnreachableError,
    UsageError,
)

Kind = Literal[
    "absent", "bucket", "exists", "refused", "no_credentials", "full", "range", "busy", "silent", "region", "http", "other"
]  # fmt: skip

_STATUS = re.compile(r"status code: (\d{3})|\(code: (\d{3})\)")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>|\(code: ([A-Za-z]{1,60})\)")
_TOKEN_PLACES = (
    "169.254.169.254",
    "169.254.170.2",
    "fd00:ec2::254",
    "metadata.google.internal",
    "token request",
)
_BUCKET = {
    "NoSuchBucket",
    "ContainerNotFound",
    "ContainerBeingDeleted",
    "AccountNotFound",
    "InvalidBucketName",
}
_REFUSED = {
    "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired",
    "RequestTimeTooSkewed", "AllAccessDisabled", "AccountProblem", "AuthenticationFailed", "AuthorizationFailure",
    "AuthorizationPermissionMismatch", "InsufficientAccountPermissions", "UnauthorizedBlobOverwrite", "KMSAccessDenied",
    "InvalidAuthenticationInfo",
}  # fmt: skip
_FULL = {
    "InsufficientStorage",
    "QuotaExceeded",
    "XMinioStorageFull",
    "XMinioAdminBucketQuotaExceeded",
    "StorageFull",
}
_REGION = {
    "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "TemporaryRedirect"
}  # fmt: skip
_BUSY = {
    "SlowDown",
    "ServerBusy",
    "OperationAborted",
    "ConditionalRequestConflict",
    "RequestTimeout",
    "InternalError",
}
_SILENT_WORDS = (
    "error sending request", "timed out", "timeout", "connection", "request or response body", "decoding response",
    "kind: Connect", "kind: Timeout", "kind: Interrupted",
)  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """One failed request."""

    kind: Kind
    reason: str  # a few words without secrets: the status and the provider's code

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a moment later."""
        return self.kind in ("busy", "silent")

    def error(self, what: str) -> ReprieveError:
        """The error of our tree; `what` is the store and key."""
        if self.kind == "absent":
            return NotFoundError(f"{what}: not in the store")
        if self.kind == "exists":
            return ExistsError(f"{what}: exists already; objects are never overwritten")
        if self.kind == "range":
            return DamagedError(f"{what}: the object is shorter than the range asked for: it was cut short")
        if self.passing:
            return UnreachableError(
                f"{what}: the store did not answer ({self.reason}); the object may or may not be there"
            )
        if self.kind == "full":
            return FullError(
                f"{what}: the store takes no more ({self.reason}); free space or raise its quota"
            )
        known = {
            "bucket": (
                "the bucket or container is not there",
                "make it first; `reprieve store init` does not",
            ),
            "refused": (
                "the store refused these credentials",
                "compare them with the policy that `store init` prints",
            ),
            "no_credentials": (
                "no credentials were found",
                "set them in the environment or the provider's files",
            ),
            "region": ("the bucket is in another region", "add ?region=… to the store's URL"),
            "http": ("the endpoint is http", "use https, or name it in the store's URL"),
            "other": ("the store failed", None),
        }
        text, hint = known[self.kind]
        root = {"refused": CredentialsError, "no_credentials": CredentialsError, "http": UsageError}.get(
            self.kind, StoreError
        )
        return root(f"{what}: {text} ({self.reason})", hint=hint)


def classify(error: Exception) -> Failure:
    """What an exception of obstore means."""
    text = str(error)
    names = {each.__name__ for each in type(error).__mro__}
    number = _found(_STATUS, text)
    status = int(number) if number else None
    code = _found(_CODE, text)
    reason = " ".join(filter(None, (str(status) if status else None, code))) or _first_words(text)
    return Failure(_kind(text, names, status, code or ""), reason)


def _found(pattern: re.Pattern[str], text: str) -> str | None:
    """The group that matched first."""
    match = pattern.search(text)
    return None if match is None else next(filter(None, match.groups()))


def _kind(text: str, names: set[str], status: int | None, code: str) -> Kind:
    by_code: tuple[tuple[set[str], Kind], ...] = (
        (_BUCKET, "bucket"), (_FULL, "full"), (_REGION, "region"), (_BUSY, "busy"), (_REFUSED, "refused"),
    )  # fmt: skip
    if any(place in text for place in _TOKEN_PLACES):
        return "no_credentials"
    for codes, kind in by_code:
        if code in codes:
            return kind
    if names & {"FileNotFoundError", "NotFoundError"}:
        return "absent"
    if names & {"AlreadyExistsError"}:
        return "exists"
    if names & {"PermissionDeniedError", "UnauthenticatedError"} or status in (401, 403):
        return "refused"
    return _by_status(text, status)


def _by_status(text: str, status: int | None) -> Kind:
    if status == 416 or "Requested range" in text or "CONTENT_RANGE" in text:
        return "range"
    if status == 507:
        return "full"
    if status in (301, 307):
        return "region"
    if status in (408, 409, 412, 425, 429) or (status is not None and status >= 500):
        return "busy"
    if "BadScheme" in text:
        return "http"
    if status is None and any(word in text for word in _SILENT_WORDS):
        return "silent"
    if any(word in text for word in ("Access Key", "AccessKey", "credential", "Credential")):
        return "no_credentials"
    return "other"


def _first_words(text: str) -> str:
    """The first line without addresses."""
    first = text.strip().split("\n", 1)[0]
    return clean(re.sub(r"\S+://\S+|\S*[?&=]\S*", "…", first), limit=160) or "no reason given"
