"""From a store's URL to the store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from backends.clean import clean
from backends.clock import Clock
from backends.errors import UsageError
from backends.store.files import FileStore
from backends.store.objects.address import SCHEMES, parse
from backends.store.objects.store import CloudStore
from backends.store.port import ObjectStore


def open_store(url: str, clock: Clock | None = None) -> ObjectStore:
    """The store behind `url`: `file:///absolute/directory`, `s3://`, `gs://` or `az://` (docs/stores.md).

    Nothing is made or read yet: the first write makes a directory, the first request looks for credentials.
    `clock` paces retries. Raises UsageError for any other address.
    """
    if url.partition("://")[0] in SCHEMES:
        return CloudStore(parse(url), clock=clock)
    shown = clean(url.partition("?")[0], limit=120) if "@" not in url else "(an address with credentials)"
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UsageError(f"store {shown}: not a URL; file:///absolute/directory is expected") from None
    if parts.scheme != "file":
        raise UsageError(
            f"store {shown}: unknown kind of address; file:///absolute/directory, s3://bucket/prefix, "
            f"gs://bucket/prefix or az://container/prefix is expected"
        )
    path = Path(unquote(parts.path))
    if parts.netloc or parts.query or parts.fragment or "\0" in str(path):
        raise UsageError(
            f"store {shown}: file:///absolute/directory is expected, without host, query or fragment"
        )
    if not path.is_absolute() or path == Path("/") or ".." in path.parts:
        raise UsageError(f"store {shown}: an absolute directory other than / and without '..' is expected")
    return FileStore(path)
