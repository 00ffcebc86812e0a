"""The store behind an object store's address: `ObjectStore` on S3, Google Cloud Storage and Azure Blob.

An object is written by one conditional request, which the provider makes durable before it answers. Streams are
gathered first (a pack holds 64 MiB and a frame): conditional multipart uploads are not offered by obstore, a generator
cannot be sent a second time, and a single request leaves nothing behind when the node dies in the middle of it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from backends.clean import clean
from backends.clock import Clock, SystemClock
from backends.errors import CredentialsError, DamagedError, ReprieveError, StoreError
from backends.store.layout import check_key
from backends.store.objects.address import Address
from backends.store.objects.failures import Failure, classify
from backends.store.port import ObjectInfo

if TYPE_CHECKING:
    from backends.store.objects.client import Client

T = TypeVar("T")
ATTEMPTS = 4
BACKOFF_S = 0.25  # before the second attempt; four times as long before each later one, with jitter
BUDGET_S = 40.0  # no new attempt once this much time has passed
QUICK_S = 15.0  # limit of a request that carries little
BULK_S = 300.0  # limit of a request that carries a pack
QUICK_BYTES = 1 << 20
OBJECT_BYTES = 512 << 20  # largest object: it is held in memory while it is sent


class CloudStore:
    """Objects in a bucket or container, below the address's prefix; for several threads at once."""

    def __init__(
        self,
        address: Address,
        *,
        clock: Clock | None = None,
        quick_s: float = QUICK_S,
        bulk_s: float = BULK_S,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._address = address
        self._clock = clock or SystemClock()
        self._limits = {False: quick_s, True: bulk_s}
        self._attempts = attempts
        self._clients: dict[bool, Client] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The whole address; it holds no secrets."""
        return self._address.url

    def create(self, key: str, data: bytes | Iterable[bytes]) -> int:
        """Write a new object; ExistsError when the key is taken.

        An attempt that was not answered may have written it: then "it exists" is believed only after reading it.
        """
        check_key(key)
        body = data if isinstance(data, bytes) else self._gather(key, data)
        attempt = 0

        def put(client: Client) -> int:
            nonlocal attempt
            attempt += 1
            client.put(key, body, mode="create", use_multipart=False)
            return len(body)

        def taken(failure: Failure) -> int | Failure:
            """Look at what stands there before anyone builds upon it."""
            if failure.kind != "exists":
                return failure
            found = self.info(key)
            if found is None:  # two writers met and the store let neither win, or it was removed just now
                return Failure("busy", failure.reason)
            if attempt > 1 and found.size == len(body) and self.read(key) == body:
                return len(body)  # an earlier attempt of ours got there
            return failure

        return self._call(key, put, bulk=len(body) > QUICK_BYTES, otherwise=taken)

    def replace(self, key: str, data: bytes) -> None:
        """Write or overwrite a hint."""
        check_key(key)
        self._call(key, lambda client: client.put(key, data, mode="overwrite", use_multipart=False))

    def read(self, key: str) -> bytes:
        """The whole object."""
        check_key(key)
        return self._call(key, lambda client: client.get(key).bytes().to_bytes(), bulk=True)

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; DamagedError when the object is shorter."""
        check_key(key)
        if offset < 0 or length < 0:
            raise DamagedError(f"{self._shown(key)}: range {offset}+{length} is not one")
        found = b""
        if length:
            found = self._call(
                key,
                lambda client: client.get_range(key, start=offset, length=length).to_bytes(),
                bulk=length > QUICK_BYTES,
                otherwise=lambda failure: self._too_short(key, offset + length, failure),
            )
        else:
            self._check_size(key, offset)
        if len(found) != length:
            raise DamagedError(
                f"{self._shown(key)}: {len(found)} bytes at offset {offset}, expected {length}: the object was cut short"
            )
        return found

    def info(self, key: str) -> ObjectInfo | None:
        """Size and time, None when absent."""
        check_key(key)

        def head(client: Client) -> ObjectInfo | None:
            found = client.head(key)
            return ObjectInfo(key, found["size"], found["last_modified"].timestamp())

        return self._call(key, head, otherwise=lambda failure: None if failure.kind == "absent" else failure)

    def list(self, prefix: str) -> list[ObjectInfo]:
        """All objects whose key starts with `prefix`, ordered by key."""
        directory = prefix.rpartition("/")[0]
        if directory:
            check_key(directory)

        def listing(client: Client) -> list[ObjectInfo]:
            return [
                ObjectInfo(found["path"], found["size"], found["last_modified"].timestamp())
                for page in client.list(directory or None)
                for found in page
                if found["path"].startswith(prefix)
            ]

        return sorted(self._call(prefix, listing), key=lambda item: item.key)

    def delete(self, key: str) -> None:
        """Remove an object; an absent one is no error."""
        check_key(key)
        self._call(
            key,
            lambda client: client.delete(key),
            otherwise=lambda failure: None if failure.kind == "absent" else failure,
        )

    def _gather(self, key: str, parts: Iterable[bytes]) -> bytearray:
        body = bytearray()
        for part in parts:
            body += part
            if len(body) > OBJECT_BYTES:
                raise StoreError(
                    f"{self._shown(key)}: larger than {OBJECT_BYTES >> 20} MiB, which no object may be"
                )
        return body

    def _check_size(self, key: str, at_least: int) -> None:
        found = self.info(key)
        if found is None:
            raise Failure("absent", "").error(self._shown(key))
        if found.size < at_least:
            raise Failure("range", "").error(self._shown(key))

    def _too_short(self, key: str, end: int, failure: Failure) -> Failure:
        """Servers word a range beyond the end differently: the size decides."""
        if failure.kind in ("range", "other"):
            self._check_size(key, end)
        return failure

    def _call(
        self,
        key: str,
        act: Callable[[Client], T],
        *,
        bulk: bool = False,
        otherwise: Callable[[Failure], T | Failure] | None = None,
    ) -> T:
        """Do one request, again while its failure may pass; `otherwise` may turn a failure into a result.

        Raises:
            ReprieveError: of the port's kinds, after the last attempt.
        """
        from backends.store.objects.client import FAILURES  # obstore is loaded with the first request

        begun = self._clock.monotonic()
        attempt = 1
        while True:
            try:
                return act(self._client(bulk=bulk))
            except FAILURES as error:
                failure = classify(error)
            if otherwise is not None:
                result = otherwise(failure)
                if not isinstance(result, Failure):
                    return result
                failure = result
            late = self._clock.monotonic() - begun > BUDGET_S or attempt >= self._attempts
            if late or not failure.passing:
                raise self._raised(key, failure) from None
            self._clock.sleep(BACKOFF_S * 4 ** (attempt - 1) * random.uniform(0.5, 1.0))  # noqa: S311 - a random pause, no secret
            attempt += 1

    def _raised(self, key: str, failure: Failure) -> ReprieveError:
        error = failure.error(self._shown(key))
        if isinstance(error, CredentialsError):
            with self._lock:
                self._clients.clear()  # look for fresh ones next time
        return error

    def _client(self, *, bulk: bool) -> Client:
        from backends.store.objects.client import connect

        with self._lock:
            if bulk not in self._clients:
                self._clients[bulk] = connect(self._address, self._limits[bulk])
            return self._clients[bulk]

    def _shown(self, key: str) -> str:
        return f"{self._address.place}/{clean(key, limit=120)}" if key else self._address.place
