"""The fleet's signing key and the jobs' keys: 0600 files of this machine."""

from __future__ import annotations

import os
from pathlib import Path

from backends.errors import CredentialsError, NotFoundError
from backends.ids import check_uid
from backends.store.fleetkey import FleetKey
from backends.store.sealing import JobKey
from backends.xdg import private
from console.operations.context import FLEET_KEY, KEYS


class FileKeys:
    """Keys below a context's state directory. Their text is never shown or logged."""

    def __init__(self, state: Path) -> None:
        self._state = state

    def fleet_key(self) -> FleetKey:
        """The signing key, made at first use."""
        return FleetKey.create(private(self._state) / FLEET_KEY)

    def verify_key(self) -> str:
        """Public half of the fleet's key, hex."""
        return self.fleet_key().verify_key.hex

    def _path(self, uid: str) -> Path:
        return self._state / KEYS / f"{check_uid(uid)}.key"

    def job_key(self, uid: str) -> str:
        """The job's key, hex.

        Raises:
            NotFoundError: this machine does not hold it.
            CredentialsError: others may read it, or it is no key.
        """
        path = self._path(uid)
        try:
            mode = path.stat().st_mode
            text = path.read_text(encoding="ascii")
        except FileNotFoundError:
            raise NotFoundError(f"job key {path} is not there") from None
        except (OSError, UnicodeDecodeError):
            raise CredentialsError(f"job key {path} cannot be read") from None
        if mode & 0o077:
            raise CredentialsError(f"job key {path}: others may read it; expected mode 0600: chmod 600 it")
        return JobKey.from_hex(text).hex

    def new_job_key(self, uid: str) -> str:
        """Make and keep the key of a job, synced; one that exists is returned and never replaced."""
        path = self._path(uid)
        try:
            return self.job_key(uid)
        except NotFoundError:
            pass
        directory = private(path.parent)
        temporary = directory / f".{uid}.new"
        handle = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(handle, "wb") as file:
            file.write(JobKey.new().hex.encode("ascii") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            pass
        finally:
            temporary.unlink(missing_ok=True)
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return self.job_key(uid)
