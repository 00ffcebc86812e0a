"""Small files of the guard, written so that a crash leaves the old or the new one, never half of either."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Any

from backends.errors import DamagedError, FullError
from backends.records.strict import Document, canonical, loads

FILE_LIMIT = 1 << 20  # bytes of one state file


def write(path: Path, document: dict[str, Any], *, synced: bool = True) -> None:
    """Replace `path` by `document` as JSON: 0600, synced, renamed, directory synced.

    Without `synced` a process that dies leaves the old or the new one, a machine that dies perhaps neither: for what
    means nothing after a reboot.

    Raises:
        FullError: the disk of the state directory cannot take it.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _write(temporary, canonical(document) + b"\n", synced=synced)
        temporary.replace(path)
        if synced:
            sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise FullError(f"{path} cannot be written: {error.strerror}; free space on that disk") from None


def create(path: Path, document: dict[str, Any]) -> bool:
    """Write `path` only if it does not exist, synced before return; False when it exists already."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _write(temporary, canonical(document) + b"\n", synced=True)
        os.link(temporary, path)
        sync_directory(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        raise FullError(f"{path} cannot be written: {error.strerror}; free space on that disk") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return True


def read(path: Path) -> Document | None:
    """The document at `path`, None when there is none; DamagedError when it is not what was written."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror}") from None
    return loads(data, what=str(path), limit=FILE_LIMIT)


def remove(path: Path) -> None:
    """Remove `path` durably; absent is fine."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(path: Path, data: bytes, *, synced: bool) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        if synced:
            os.fsync(file.fileno())
