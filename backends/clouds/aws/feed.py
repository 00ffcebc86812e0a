"""Bring a feed here: from a file, a `.gz`, or a URL, with caps on size and time."""

from __future__ import annotations

import email.utils
import gzip
import io
import re
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.errors import UnreachableError, UsageError
from backends.records.strict import FEED_LIMIT

TIMEOUT_S = 20.0
_DATED = re.compile(r"(20[0-9]{2}-[01][0-9](?:-[0-3][0-9])?)")


@dataclass(frozen=True)
class Fetched:
    """Bytes of a feed; `data` is None when the server says that nothing changed."""

    data: bytes | None
    source: str
    snapshot: str
    snapshot_basis: str
    fetched_at: str
    etag: str | None = None


def fetch(place: str, clock: Clock, *, etag: str | None = None) -> Fetched:
    """Read a feed from a path or an http(s) URL; UsageError for a bad file, UnreachableError for a silent server."""
    if place.startswith(("http://", "https://")):
        return _from_url(place, clock, etag)
    return _from_file(Path(place), clock)


def _from_file(path: Path, clock: Clock) -> Fetched:
    try:
        raw = path.read_bytes() if path.stat().st_size <= FEED_LIMIT else None
        modified = path.stat().st_mtime
    except OSError as error:
        raise UsageError(f"feed {clean(path)}: cannot be read ({clean(error.strerror)})") from None
    if raw is None:
        raise UsageError(
            f"feed {clean(path)}: larger than {FEED_LIMIT} bytes; a Spot Advisor feed has about one million"
        )
    dated = _DATED.search(path.name)
    snapshot, basis = (dated.group(1), "file name") if dated else (format_utc(modified)[:10], "file time")
    return Fetched(_unpack(raw, str(path)), clean(path), snapshot, basis, format_utc(clock.wall()))


def _unpack(raw: bytes, what: str) -> bytes:
    if raw[:2] != b"\x1f\x8b":
        return raw
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            data = stream.read(FEED_LIMIT + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"feed {clean(what)}: not a whole gzip file ({clean(error)})") from None
    if len(data) > FEED_LIMIT:
        raise UsageError(f"feed {clean(what)}: unpacks to more than {FEED_LIMIT} bytes")
    return data


def _from_url(url: str, clock: Clock, etag: str | None) -> Fetched:
    headers = {
        "Accept-Encoding": "gzip",
        "User-Agent": "reprieve",
        **({"If-None-Match": etag} if etag else {}),
    }
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 only http and https come here
    shown, now = clean(url.partition("?")[0]), format_utc(clock.wall())
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 only http and https come here
            raw = answer.read(FEED_LIMIT + 1)
            modified = email.utils.parsedate_to_datetime(answer.headers.get("Last-Modified", "") or "")
            new_etag = answer.headers.get("ETag")
    except urllib.error.HTTPError as error:
        if error.code == 304:
            return Fetched(None, shown, "", "", now, etag)
        raise UnreachableError(f"feed {shown}: the server answered {error.code}") from None
    except (OSError, urllib.error.URLError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UnreachableError(
            f"feed {shown}: no answer ({clean(getattr(reason, 'strerror', None) or reason)})",
            hint="give a file with --feed, or use the copy pulled before",
        ) from None
    if len(raw) > FEED_LIMIT:
        raise UnreachableError(f"feed {shown}: larger than {FEED_LIMIT} bytes; refused")
    return Fetched(_unpack(raw, shown), shown, modified.strftime("%Y-%m-%d"), "Last-Modified", now, new_etag)
