"""How a page is told from another: keyed BLAKE3-128, or seeded XXH3-128 where the job says so.

BLAKE3 under the job's key cannot be made to collide by whoever writes the memory. XXH3 is six times as fast and no
cryptographic hash: its seed is random for each full save and never leaves the node, and the stream's digest, keyed
BLAKE3-256 whatever the pages' hash, makes a reader notice a page that was wrongly taken for another.
"""

from __future__ import annotations

import secrets
from typing import Literal

from backends.store.sealing import JobKey

PageHashOption = Literal["blake3", "xxh3"]
BLAKE3 = "blake3-128"
XXH3 = "xxh3-128"
NAMES: dict[PageHashOption, str] = {"blake3": BLAKE3, "xxh3": XXH3}


class PageHash:
    """One hash of pages: its name in the formats, and its seed as hex (empty for BLAKE3, which has the job's key)."""

    def __init__(self, key: JobKey, name: str = BLAKE3, seed: str = "") -> None:
        """ValueError for a name or seed that is none."""
        if name not in NAMES.values() or (name == XXH3) != (len(seed) == 16):
            raise ValueError(f"{name!r} with this seed is no hash of pages")
        self.name = name
        self.seed = seed
        self._key = key
        self._number = int(seed, 16) if seed else 0

    @classmethod
    def new(cls, key: JobKey, option: PageHashOption) -> PageHash:
        """The job's hash for a full save; XXH3 with a fresh seed."""
        return cls(key, NAMES[option], secrets.token_hex(8) if option == "xxh3" else "")

    def hashes(self, data: bytes, size: int, begin: int = 0, count: int = 1) -> list[bytes]:
        """16 bytes for each of `count` pieces of `size` bytes, from byte `begin` of `data`."""
        if self.name == BLAKE3:
            return self._key.hashes(data, size, begin, count)
        from xxhash import xxh3_128_digest

        view, seed = memoryview(data), self._number
        return [
            xxh3_128_digest(view[at : at + size], seed) for at in range(begin, begin + count * size, size)
        ]
