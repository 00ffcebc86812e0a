"""Panels that follow the fleet while they are open."""

from __future__ import annotations


class Live:
    """A panel that is drawn again every second and at every change."""

    def show(self) -> None:
        """Draw what is known now."""
        raise NotImplementedError
