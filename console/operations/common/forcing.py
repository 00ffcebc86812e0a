"""What the operator sets aside: gate properties, each with a reason that is kept."""

from __future__ import annotations

from backends.clean import clean
from backends.compat import check_overrides
from backends.errors import UsageError
from console.operations.common.restarters import PROPERTY


def forced(texts: list[str] | tuple[str, ...], *, default: str = "") -> dict[str, str]:
    """`kernel=tested in staging` → {"kernel": "tested in staging"}; `default` is the reason of a bare property.

    Raises:
        UsageError: no such property, one that cannot be set aside, or no reason.
    """
    found = {}
    for text in texts:
        name, _, reason = text.partition("=")
        found[name.strip()] = clean(reason.strip() or default, limit=300)
    check_overrides({name: reason for name, reason in found.items() if name != PROPERTY})
    if PROPERTY in found and not found[PROPERTY]:
        raise UsageError(f"override of {PROPERTY!r}: a reason is needed; it is kept in the record")
    return found
