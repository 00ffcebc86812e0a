"""Metrics of a running controller: beside its loop, so that a silent store holds up nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from backends.errors import ReprieveError
from console.operations.flows.watch import Watch
from console.operations.hooks.metrics import Endpoint, metrics_text, write_file
from console.operations.observe import Observer

EVERY_S = 10.0


class Exporter:
    """Keeps a file, an endpoint, or both up to date from what the controller knows."""

    def __init__(self, watch: Watch, path: Path | None, port: int | None) -> None:
        self.watch, self.path = watch, path
        self.endpoint = None if port is None else Endpoint(port)
        self._observer = Observer(watch.fleet, watch.poller)

    async def once(self) -> str:
        """Look at the store if it is time, and put the newest text out."""
        await self._observer.ask_store()
        view = self._observer.build(self.watch.poller.known)
        text = metrics_text(view, self.watch.fleet.ledger.reclaims(), self.watch.beat_at)
        if self.endpoint is not None:
            self.endpoint.text = text
        if self.path is not None:
            await asyncio.to_thread(write_file, self.path, text)
        return text

    async def run(self) -> None:
        """Until cancelled; a file that cannot be written is an alert, not the end."""
        while True:
            try:
                await self.once()
            except ReprieveError as error:
                self.watch.alert("metrics", error.message)
            await self.watch.fleet.clock.pause(EVERY_S)
