"""The fleet's signing key (Ed25519) and the signed records only its holders can make.

Consoles and controllers hold the private half in a 0600 file; guards get the public half with each grant, so that a
node can tell a true claim from a planted one but make none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from backends.errors import CredentialsError, DamagedError, UsageError
from backends.records import strict
from backends.records.group import GroupEpoch, GroupSave
from backends.records.lineage import Attestation, Claim, Continues, JobHeader, Tombstone
from backends.store.fileops import RealOps, read_all, write_new

FORMAT = 1
RECORD_LIMIT = 64 * 1024  # bytes of one signed record
REMEMBERED = 64  # records found good

Record = Claim | Continues | Attestation | JobHeader | Tombstone | GroupSave | GroupEpoch
R = TypeVar("R", Claim, Continues, Attestation, JobHeader, Tombstone, GroupSave, GroupEpoch)


@dataclass(frozen=True)
class VerifyKey:
    """The public half."""

    public: bytes

    @classmethod
    def from_hex(cls, text: str) -> VerifyKey:
        """Read 64 hex digits; UsageError on anything else."""
        try:
            raw = bytes.fromhex(text.strip())
        except ValueError:
            raw = b""
        if len(raw) != 32:
            raise UsageError("the fleet's verify key is not 64 hex digits")
        return cls(raw)

    @property
    def hex(self) -> str:
        """64 hex digits; public."""
        return self.public.hex()

    def verifies(self, data: bytes, signature: bytes) -> bool:
        """Whether the fleet's key made `signature` over `data`; guards ask the same every few seconds."""
        if (data, signature) in self._verified:
            return True
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        if len(self._verified) >= REMEMBERED:
            self._verified.clear()
        self._verified.add((data, signature))
        return True

    @cached_property
    def _verified(self) -> set[tuple[bytes, bytes]]:
        """What was found good before: the very same bytes need no second calculation."""
        return set()


@dataclass(frozen=True)
class FleetKey:
    """The private half: may claim epochs. Never printed, never on a node."""

    seed: bytes = field(repr=False)

    @classmethod
    def new(cls) -> FleetKey:
        """A fresh key."""
        private = Ed25519PrivateKey.generate()
        return cls(
            private.private_bytes(
                serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
            )
        )

    @classmethod
    def create(cls, path: Path) -> FleetKey:
        """Make a key and its 0600 file, synced; when the file exists, load it instead (never replaced)."""
        key = cls.new()
        try:
            write_new(RealOps(path.parent), path.name, key.seed.hex().encode() + b"\n")
        except FileExistsError:
            return cls.load(path)
        except OSError as error:
            raise CredentialsError(f"fleet key {path}: cannot be written: {error.strerror}") from None
        return key

    @classmethod
    def load(cls, path: Path) -> FleetKey:
        """Read the file; CredentialsError when it is absent, open to others, or no key."""
        try:
            ops = RealOps(path.parent)
            info = ops.stat(path.name)
            text = read_all(ops, path.name, limit=200)
            seed = bytes.fromhex(text.decode("ascii").strip())
        except (OSError, ValueError):
            raise CredentialsError(
                f"fleet key {path}: not readable as 64 hex digits; it is made by the first `fleet add`"
            ) from None
        if info is None or info.mode & 0o077:
            raise CredentialsError(f"fleet key {path}: others may read it; expected mode 0600: chmod 600 it")
        if len(seed) != 32:
            raise CredentialsError(f"fleet key {path}: {len(seed)} bytes, expected 32")
        return cls(seed)

    @property
    def verify_key(self) -> VerifyKey:
        """The public half, for guards."""
        public = Ed25519PrivateKey.from_private_bytes(self.seed).public_key()
        return VerifyKey(public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw))

    def sign(self, data: bytes) -> bytes:
        """Ed25519 signature, 64 bytes."""
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(data)


def sign_record(record: Record, key: FleetKey) -> bytes:
    """The record as the bytes of its object: canonical JSON with kind, format and signature."""
    document = _document(record)
    document["signature"] = key.sign(_message(document)).hex()
    return strict.canonical(document)


def open_record(kind: type[R], data: bytes, key: VerifyKey, *, what: str) -> R:
    """Read a signed record; DamagedError for a wrong shape, format, kind or signature."""
    document = strict.loads(data, what=what, limit=RECORD_LIMIT)
    if not strict.is_canonical(data, document):
        raise DamagedError(f"{what}: not in canonical form: altered; it is ignored")
    signature = document.pop("signature", None)
    try:
        raw = bytes.fromhex(signature) if isinstance(signature, str) else b""
    except ValueError:
        raw = b""
    if raw.hex() != signature or not key.verifies(_message(document), raw):
        raise DamagedError(f"{what}: not signed by this fleet's key; it is ignored")
    if document.pop("format", None) != FORMAT or document.pop("record", None) != kind.RECORD:
        raise DamagedError(f"{what}: no {kind.RECORD} record of format {FORMAT}")
    return strict.read(kind, document, what=what)


def _document(record: Record) -> dict[str, Any]:
    return {"record": record.RECORD, "format": FORMAT, **strict.to_document(record)}


def _message(document: dict[str, Any]) -> bytes:
    return b"reprieve/1/record\n" + strict.canonical(document)
