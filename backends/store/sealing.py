"""Keys of a job: what they seal, wrap and authenticate.

One 32-byte job key; three subkeys by HKDF-SHA256 (wrap, manifest, digest). Each save has a random data key of its
own, wrapped under the job key. Frames are AES-256-GCM with the frame's number as nonce, which is safe because a data
key is never used for a second attempt. Associated data bind a frame to job, checkpoint, number and codec.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from functools import cached_property

from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from backends.errors import DamagedError, UsageError
from backends.ids import CheckpointId
from backends.records.strict import canonical, loads

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
CODEC_NONE = 0
FRAME_OVERHEAD = 1 + TAG_BYTES  # codec byte and tag

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True)
class JobKey:
    """The key of one job: nodes hold only their jobs' keys, the controller an escrowed copy. Never printed."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise UsageError(f"a job key is {KEY_BYTES} bytes; found {len(self.secret)}")

    @classmethod
    def new(cls) -> JobKey:
        """A fresh random key."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_hex(cls, text: str) -> JobKey:
        """Read 64 hex digits; raise UsageError (without showing the text) on anything else."""
        try:
            return cls(bytes.fromhex(text.strip()))
        except ValueError:
            raise UsageError("the job key is not 64 hex digits; its text is not shown here") from None

    @property
    def hex(self) -> str:
        """64 hex digits, for a 0600 file or a grant on stdin; never for a log."""
        return self.secret.hex()

    def _subkey(self, purpose: bytes) -> bytes:
        kdf = HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=b"reprieve/1/" + purpose)
        return kdf.derive(self.secret)

    @cached_property
    def _wrap_key(self) -> bytes:
        return self._subkey(b"wrap")

    @cached_property
    def _manifest_key(self) -> bytes:
        return self._subkey(b"manifest")

    @cached_property
    def _digest_key(self) -> bytes:
        return self._subkey(b"digest")

    def wrap(self, data_key: DataKey) -> str:
        """The data key sealed under this job's key, as hex: nonce, ciphertext, tag."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = AESGCM(self._wrap_key).encrypt(nonce, data_key.secret, data_key.label(b"data-key"))
        return (nonce + sealed).hex()

    def unwrap(self, wrapped: str, uid: str, checkpoint: CheckpointId) -> DataKey:
        """The reverse of `wrap` for that checkpoint; DamagedError when key, job or checkpoint differ."""
        label = DataKey(b"", uid, checkpoint).label(b"data-key")
        try:
            raw = bytes.fromhex(wrapped)
            secret = AESGCM(self._wrap_key).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], label)
        except (ValueError, InvalidTag):
            raise DamagedError(
                f"data key of checkpoint {checkpoint}: cannot be unwrapped with this job's key"
            ) from None
        return DataKey(secret, uid, checkpoint)

    def mac(self, data: bytes) -> str:
        """HMAC-SHA256 over a manifest's canonical bytes, as hex."""
        return hmac.digest(self._manifest_key, data, "sha256").hex()

    def mac_matches(self, data: bytes, mac: str) -> bool:
        """Whether `mac` is that of `data`, compared in constant time."""
        return hmac.compare_digest(self.mac(data).encode(), mac.encode("utf-8", "replace"))

    def hasher(self) -> blake3:
        """A keyed BLAKE3 for content digests: equal content has equal digests within one job only."""
        return blake3(key=self._digest_key)

    def digest(self, data: Buffer) -> str:
        """Keyed BLAKE3-256 of `data`, as hex."""
        return str(self.hasher().update(data).hexdigest())

    def hashes(self, data: bytes, size: int, begin: int = 0, count: int = 1) -> list[bytes]:
        """Keyed BLAKE3-128 of `count` pieces of `size` bytes each, from byte `begin` of `data`."""
        key, view = self._digest_key, memoryview(data)
        # One line on purpose: at 4 KiB a piece the call costs as much as the hash.
        return [
            blake3(view[at : at + size], key=key).digest(16)
            for at in range(begin, begin + count * size, size)
        ]


@dataclass(frozen=True)
class DataKey:
    """The key of one save attempt; seals its frames and nothing else."""

    secret: bytes = field(repr=False)
    uid: str
    checkpoint: CheckpointId

    @classmethod
    def new(cls, uid: str, checkpoint: CheckpointId) -> DataKey:
        """A fresh random key for one attempt at one save."""
        return cls(secrets.token_bytes(KEY_BYTES), uid, checkpoint)

    @cached_property
    def _cipher(self) -> AESGCM:
        return AESGCM(self.secret)

    def label(self, purpose: bytes, tail: bytes = b"") -> bytes:
        """Associated data: format, purpose, job and checkpoint, then `tail`."""
        return b"\n".join((b"reprieve/1", purpose, self.uid.encode(), str(self.checkpoint).encode(), tail))

    def _frame_label(self, number: int, codec: int) -> bytes:
        return self.label(b"frame", number.to_bytes(8, "little") + bytes((codec,)))

    def seal(self, number: int, data: Buffer, codec: int = CODEC_NONE) -> tuple[bytes, bytes]:
        """Frame `number` as two parts to be written one after the other: codec byte, ciphertext with tag."""
        nonce = number.to_bytes(NONCE_BYTES, "little")
        sealed = self._cipher.encrypt(nonce, data, self._frame_label(number, codec))
        return bytes((codec,)), sealed

    def open(self, number: int, frame: Buffer) -> tuple[int, bytes]:
        """Codec and encoded bytes of frame `number`; DamagedError when it was altered or moved."""
        if len(frame) < FRAME_OVERHEAD:
            raise DamagedError(f"frame {number} of checkpoint {self.checkpoint}: only {len(frame)} bytes")
        view = memoryview(frame)
        codec = view[0]
        try:
            nonce = number.to_bytes(NONCE_BYTES, "little")
            data = self._cipher.decrypt(nonce, view[1:], self._frame_label(number, codec))
        except InvalidTag:
            raise DamagedError(
                f"frame {number} of checkpoint {self.checkpoint}: authentication failed, its bytes were altered"
            ) from None
        return codec, data


def escrow_test(key: JobKey, uid: str, nonce: str) -> str:
    """A test object made on the node: only a holder of the same job key can open it. Hex."""
    label = b"\n".join((b"reprieve/1", b"escrow", uid.encode()))
    iv = secrets.token_bytes(NONCE_BYTES)
    sealed = AESGCM(key._subkey(b"escrow")).encrypt(iv, canonical({"nonce": nonce, "uid": uid}), label)
    return (iv + sealed).hex()


def check_escrow(key: JobKey, uid: str, nonce: str, test: str) -> None:
    """Prove that the escrowed `key` opens what the node sealed; DamagedError when it does not."""
    label = b"\n".join((b"reprieve/1", b"escrow", uid.encode()))
    try:
        raw = bytes.fromhex(test)
        plain = AESGCM(key._subkey(b"escrow")).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], label)
        found = loads(plain, what="escrow test object")
    except (ValueError, InvalidTag):
        found = {}
    if found != {"nonce": nonce, "uid": uid}:
        raise DamagedError(
            f"job {uid}: the key kept here does not open what its guard sealed; checkpoints made now could not be restored",
            hint="put the right key file back, or protect the job again under a new name",
        )
