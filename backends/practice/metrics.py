"""The metrics server that example jobs report to: accepts lines, counts them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass
class Metrics:
    """What was received since the fleet started."""

    connections: int = 0
    lines: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take lines from one client until it goes."""
        self.connections += 1
        try:
            while await reader.readline():
                self.lines += 1
        except (OSError, ValueError):
            return  # gone, or a line beyond the reader's limit
        finally:
            writer.close()
