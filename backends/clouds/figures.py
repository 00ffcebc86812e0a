"""Published interruption figures as data: a band's label, and what its share is a share of, as far as that is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """The interruption figure of one instance type in one region."""

    provider: str
    region: str
    instance_type: str  # in lower case: providers spell it in two ways
    label: str  # `0-5`, `20+`
    source: str
    basis: str  # in words
