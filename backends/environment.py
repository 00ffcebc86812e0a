"""What a program started by the guard may inherit: never the credentials that the guard itself works with."""

from __future__ import annotations

from collections.abc import Mapping

CREDENTIALS = ("AWS_", "AZURE_", "GOOGLE_")  # what the stores read, secret or not


def without_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment less every variable that a store reads (docs/stores.md)."""
    return {name: value for name, value in environment.items() if not name.startswith(CREDENTIALS)}
