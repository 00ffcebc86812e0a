"""What every provider that lends machines has in common: launch records of the fleet, prices, the fleet's mark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from backends.clean import clean
from backends.clock import Clock
from backends.clouds.lending import pool_parts
from backends.clouds.port import Market, Replacement
from backends.errors import UsageError

Launches = Callable[
    [], Mapping[str, Mapping[str, Any]]
]  # pool → its launch record as the fleet's files have it
PriceOf = Callable[[str, Market], float | None]  # USD an hour of a pool on a market; None: not known


class Tested(Protocol):
    """A launch record."""

    @property
    def tested_at(self) -> str | None:
        """RFC 3339, when a trial of it passed; None: never."""
        ...


L = TypeVar("L", bound=Tested)


class Lender(ABC, Generic[L]):
    """See `port.Renter` and `port.Launcher`: nothing is created without a tested record, a known price and the fleet's mark."""

    provider = ""  # the first part of its pools
    shown = ""  # its name for people

    def __init__(
        self,
        clock: Clock,
        *,
        launches: Launches = dict,
        price_of: PriceOf = lambda pool, market: None,
        fleet: Callable[[], str] = lambda: "",
    ) -> None:
        self._clock, self._launches, self._price_of, self._fleet = clock, launches, price_of, fleet

    @abstractmethod
    def _read(self, pool: str, table: Mapping[str, Any]) -> L:
        """The record of a fleet file; UsageError for anything wrong in it."""

    def replace(self, pool: str, token: str) -> Replacement:
        """Nothing is had for nothing: `rent`."""
        return Replacement(
            token, "failed", reason=f"{self.shown} lends only for money, by rent ({clean(pool)})"
        )

    def launchable(self, pool: str) -> str | None:
        """Why no machine of `pool` can be launched; None when one can."""
        try:
            found = self._launch(pool)
        except UsageError as error:
            return error.message
        if not found.tested_at:
            return f"the launch record of {clean(pool)} was never tested: reprieve pools test {clean(pool)}"
        return None

    def _parts(self, pool: str) -> tuple[str, str]:
        return pool_parts(self.provider, pool)

    def _launch(self, pool: str) -> L:
        self._parts(pool)
        table = self._launches().get(pool)
        if table is None:
            raise UsageError(
                f"pool {clean(pool)} has no launch record: `reprieve jobs protect` on a node of it takes one"
            )
        return self._read(pool, table)

    def _recorded(self) -> dict[str, L]:
        """Every record of this provider's pools that can be read."""
        found = {}
        for pool, table in self._launches().items():
            if pool.startswith(f"{self.provider}/"):
                try:
                    found[pool] = self._read(pool, table)
                except UsageError:
                    continue
        return found
