"""Settings merged from flag, environment, context and file, with the origin of each value."""

from console.config.model import Settings
from console.config.resolve import resolve

__all__ = ["Settings", "resolve"]
