"""`jobs save` and `jobs restore`: a job or a group, never both, and nothing that means only the other."""

from __future__ import annotations

from typing import Any

import pytest

from backends.errors import UsageError
from console.operations.actions.groups import check_words, number_of


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "takes the name of a job, or --group NAME"),
        ({"name": "a", "group": "g"}, "one of the two"),
        ({"name": "a", "group_save": 2}, "--group-save goes with --group"),
        ({"group": "g", "checkpoint": "1.2"}, "does not take --checkpoint"),
        ({"group": "g", "force": ["kernel=x"]}, "does not take --force"),
        ({"group": "g", "no_wait": True}, "does not take --no-wait"),
    ],
)
def test_what_does_not_go_together(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_words(arguments, "jobs restore")


def test_what_does() -> None:
    check_words({"name": "a", "checkpoint": "1.2", "force": [], "no_wait": True}, "jobs restore")
    check_words({"group": "g", "group_save": 3, "no_wait": False}, "jobs restore")
    assert number_of({"group_save": 3}) == 3
    assert number_of({}) is None
    with pytest.raises(UsageError, match="1 or more"):
        number_of({"group_save": 0})
