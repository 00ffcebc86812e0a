"""Addresses of object stores: what stands in a URL, and what may not.

    s3://BUCKET/PREFIX?region=R&endpoint=https://HOST:PORT&addressing=path|virtual
    gs://BUCKET/PREFIX?endpoint=https://HOST
    az://CONTAINER/PREFIX?account=NAME&endpoint=https://HOST

The prefix may be left out. Credentials never stand in a URL: it goes into fleet files, grants, logs and reports.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from backends.clean import clean
from backends.errors import UsageError
from backends.store.layout import check_key

Scheme = Literal["s3", "gs", "az"]
SCHEMES: tuple[Scheme, ...] = ("s3", "gs", "az")

_BUCKETS: dict[Scheme, tuple[re.Pattern[str], str]] = {
    "s3": (re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z"), "a bucket of 3 to 63 of a-z, 0-9, '.', '-'"),
    "gs": (
        re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]\Z"),
        "a bucket of 3 or more of a-z, 0-9, '.', '-', '_'",
    ),
    "az": (re.compile(r"[a-z0-9](-?[a-z0-9]){2,62}\Z"), "a container of 3 to 63 of a-z, 0-9, '-'"),
}
_OPTIONS: dict[Scheme, dict[str, re.Pattern[str]]] = {
    "s3": {
        "region": re.compile(r"[a-z0-9-]{2,40}\Z"),
        "endpoint": re.compile(r"https?://"),
        "addressing": re.compile(r"(path|virtual)\Z"),
        "allow_http": re.compile(r"yes\Z"),
    },
    "gs": {
        "endpoint": re.compile(r"https?://"),
        "allow_http": re.compile(r"yes\Z"),
    },
    "az": {
        "account": re.compile(r"[a-z0-9]{3,24}\Z"),
        "endpoint": re.compile(r"https?://"),
        "allow_http": re.compile(r"yes\Z"),
    },
}
_ENDPOINT_PATH = re.compile(r"(/[A-Za-z0-9._-]+)*/?\Z")


@dataclass(frozen=True)
class Address:
    """Where a store is."""

    scheme: Scheme
    bucket: str  # on Azure the container
    prefix: str = ""  # without slashes at its ends; empty: the bucket itself
    region: str | None = None
    endpoint: str | None = None  # None: the provider's own
    addressing: Literal["path", "virtual"] = "path"
    account: str | None = None  # Azure's storage account
    allow_http: bool = False  # an http endpoint that is not this machine was asked for

    @property
    def place(self) -> str:
        """For messages: scheme, bucket and prefix."""
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    @property
    def url(self) -> str:
        """The whole address, as `parse` reads it; it holds no secrets."""
        options = {
            "region": self.region,
            "endpoint": self.endpoint,
            "addressing": None if self.addressing == "path" else self.addressing,
            "account": self.account,
            "allow_http": "yes" if self.allow_http else None,
        }
        query = urlencode({k: v for k, v in options.items() if v is not None}, safe=":/", quote_via=quote)
        return f"{self.place}?{query}" if query else self.place

    @property
    def plain_http(self) -> bool:
        """Whether the endpoint is spoken to without TLS."""
        return self.endpoint is not None and self.endpoint.startswith("http://")


def parse(url: str) -> Address:
    """The address in `url`.

    Raises:
        UsageError: it is none; what may be a secret in it is not repeated.
    """
    parts = _split(url)
    scheme = next((each for each in SCHEMES if parts.scheme == each), None)
    if "@" in parts.netloc or "@" in unquote(parts.query):
        raise UsageError(
            "store (an address with credentials): credentials do not belong into a URL",
            hint="put them into the environment or the provider's own files (docs/stores.md)",
        )
    shown = clean(url.partition("?")[0], limit=120)
    if scheme is None or parts.fragment:
        raise UsageError(
            f"store {shown}: s3://bucket/prefix, gs://bucket/prefix or az://container/prefix is expected"
        )
    pattern, expected = _BUCKETS[scheme]
    if not pattern.match(parts.netloc):
        raise UsageError(f"store {shown}: {expected} is expected after {scheme}://")
    prefix = unquote(parts.path).strip("/")
    if prefix:
        check_key(prefix)
    options = _options(shown, scheme, parts.query)
    address = Address(
        scheme,
        parts.netloc,
        prefix,
        options.get("region"),
        options.get("endpoint"),
        cast('Literal["path", "virtual"]', options.get("addressing", "path")),
        options.get("account"),
        options.get("allow_http") == "yes",
    )
    _check_endpoint(shown, address)
    return address


def _split(url: str) -> SplitResult:
    """The parts of a URL; UsageError where it is none, or holds blanks or control characters."""
    try:
        if re.match(r"[!-~]+\Z", url):
            return urlsplit(url)
    except ValueError:
        pass
    raise UsageError(f"store {clean(url[:5])}…: not a URL; scheme://bucket/prefix without blanks is expected")


def _options(shown: str, scheme: Scheme, query: str) -> dict[str, str]:
    known = _OPTIONS[scheme]
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            names = ", ".join(known) or "none"
            raise UsageError(
                f"store {shown}: option {clean(name, limit=40)!r} is not known; known for {scheme}://: {names}",
                hint="credentials come from the environment or the provider's own files (docs/stores.md)",
            )
        if name in found or not known[name].match(value):
            raise UsageError(f"store {shown}: option {name} is given twice or is not one (docs/stores.md)")
        found[name] = value
    return found


def _check_endpoint(shown: str, address: Address) -> None:
    if address.endpoint is None:
        return
    try:
        parts = urlsplit(address.endpoint)
        _ = parts.port
    except ValueError:
        parts = None
    if (
        parts is None
        or not re.match(r"[A-Za-z0-9.:-]+\Z", parts.hostname or "")
        or not _ENDPOINT_PATH.match(parts.path)
        or parts.query
        or parts.fragment
    ):
        raise UsageError(f"store {shown}: endpoint is not https://HOST[:PORT]")
    if address.plain_http and not address.allow_http and not _is_here(parts.hostname or ""):
        raise UsageError(
            f"store {shown}: the endpoint is http, which anybody on the way can read and change",
            hint="use https, or add &allow_http=yes to the URL for a network that is yours",
        )


def _is_here(host: str) -> bool:
    """Whether a host name is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
