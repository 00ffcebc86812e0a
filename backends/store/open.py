"""From a store's URL to the store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from backends.clean import clean
from backends.errors import UsageError
from backends.store.files import FileStore
from backends.store.port import ObjectStore

_LATER = ("s3", "gs", "az")


def open_store(url: str) -> ObjectStore:
    """The store behind `url` (`file:///absolute/directory`); UsageError for any other address.

    Nothing is made or read yet: the first write makes the directory.
    """
    shown = clean(url.partition("?")[0], limit=120) if "@" not in url else "(an address with credentials)"
    parts = urlsplit(url)
    if parts.scheme in _LATER:
        raise UsageError(
            f"store {shown}: {parts.scheme}:// comes with a later version",
            hint="use file:///absolute/directory on a disk that outlives the node, such as a network mount",
        )
    if parts.scheme != "file":
        raise UsageError(f"store {shown}: unknown kind of address, file:///absolute/directory is expected")
    path = Path(unquote(parts.path))
    if parts.netloc or parts.query or parts.fragment or "\0" in str(path):
        raise UsageError(
            f"store {shown}: file:///absolute/directory is expected, without host, query or fragment"
        )
    if not path.is_absolute() or path == Path("/") or ".." in path.parts:
        raise UsageError(f"store {shown}: an absolute directory other than / and without '..' is expected")
    return FileStore(path)
