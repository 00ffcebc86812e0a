"""The errors a user can meet, each with its exit code and kind.

    ReprieveError            1  failed
    ├── UsageError           2  usage
    ├── CredentialsError     4  credentials
    │   └── HostKeyError     4  host_key      an SSH host key is unknown or is not the pinned one
    ├── UnreachableError     5  unreachable
    │   └── NotInstalledError 5 not_installed  the node answers, but Reprieve is not on it
    ├── IncompatibleError    6  incompatible
    ├── StillRunningError    7  still_running
    ├── ConfirmationError    9  confirmation_needed
    ├── NoProofError        10  no_proof_of_death
    ├── EngineError          1  engine
    ├── FencedError          1  fenced        a newer epoch exists: we are behind
    └── StoreError           1  store
        ├── NotFoundError    1  not_found
        ├── ExistsError      1  exists        put-if-absent lost
        ├── DamagedError     1  damaged       authentication, digest or shape is wrong
        └── FullError        1  store_full    no space, quota, or an I/O error while writing

A message is one line that names the thing, the value, what was expected and what to do.
"""

from __future__ import annotations


class ReprieveError(Exception):
    """Root of all errors that reach a user; `message` is one line, `hint` says what to do next."""

    exit_code = 1
    kind = "failed"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def document(self) -> dict[str, object]:
        """The error object of machine formats (contract section 2)."""
        return {"code": self.exit_code, "kind": self.kind, "message": self.message, "hint": self.hint}


class UsageError(ReprieveError):
    """Wrong usage or configuration: an option, a file, a value."""

    exit_code = 2
    kind = "usage"


class CredentialsError(ReprieveError):
    """Missing or refused credentials or permissions."""

    exit_code = 4
    kind = "credentials"


class HostKeyError(CredentialsError):
    """A host showed an SSH host key that nobody vouched for: a hard stop, nothing was sent."""

    kind = "host_key"


class UnreachableError(ReprieveError):
    """A node, store or service did not answer in time; says nothing about whether it lives."""

    exit_code = 5
    kind = "unreachable"


class NotInstalledError(UnreachableError):
    """The node answers over SSH, but holds no Reprieve: install it first."""

    kind = "not_installed"


class IncompatibleError(ReprieveError):
    """No node fits, or a manifest cannot be used here."""

    exit_code = 6
    kind = "incompatible"


class StillRunningError(ReprieveError):
    """The operation goes on; the caller chose not to wait."""

    exit_code = 7
    kind = "still_running"


class ConfirmationError(ReprieveError):
    """A confirmation is needed and cannot be asked for here."""

    exit_code = 9
    kind = "confirmation_needed"


class NoProofError(ReprieveError):
    """Refused: nothing proves that the job's old process is gone."""

    exit_code = 10
    kind = "no_proof_of_death"


class EngineError(ReprieveError):
    """A save, restore or examination by an engine failed; the message holds cause and remedy."""

    kind = "engine"


class FencedError(ReprieveError):
    """A newer epoch of the job exists; what we hold is behind."""

    kind = "fenced"


class StoreError(ReprieveError):
    """A store operation failed."""

    kind = "store"


class NotFoundError(StoreError):
    """The object is not in the store."""

    kind = "not_found"


class ExistsError(StoreError):
    """Create-if-absent found the object present."""

    kind = "exists"


class DamagedError(StoreError):
    """Authentication, digest or shape of a stored object is wrong: never use it."""

    kind = "damaged"


class FullError(StoreError):
    """The store or the staging disk cannot take the bytes (ENOSPC, EDQUOT, EIO)."""

    kind = "store_full"
