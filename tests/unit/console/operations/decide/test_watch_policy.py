"""What the controller does unasked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.operations.decide.watch import WatchedJob, back_off_s, decide, restores_in_a_row, suspended

LOST = WatchedJob("train", "u", "lost", True, "protected", checkpoint="1.3")


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, "restore"),
        ({"node_fits": False, "why_none_fits": "a: cordoned"}, "capacity"),
        ({"checkpoint": None}, "alert"),
        ({"restores_of_it": 1}, "restore"),
        ({"restores_of_it": 2}, "alert"),
        ({"busy": True}, None),
        ({"stop": "it was restored often enough"}, "alert"),
        ({"paused": True}, None),
        ({"proven": False}, None),
        ({"node_state": "unreachable"}, None),
        ({"node_state": "ok"}, None),
        ({"retry_in_s": 5.0}, None),
        ({"state": "finished"}, None),
        ({"state": "stopped"}, None),
        ({"state": "ended_unknown"}, None),
        ({"state": "ended_unknown", "reclaimed": True}, "restore"),
        ({"state": "ended_unknown", "reclaimed": True, "node_state": "ok"}, "restore"),
        ({"state": "ended_unknown", "reclaimed": True, "node_state": "unreachable", "proven": False}, None),
        ({"state": "zombie"}, "restore"),
        ({"stands_still": "n1 holds it frozen", "node_state": "ok", "proven": False}, "alert"),
        ({"stands_still": "n1 holds it frozen", "node_state": "ok", "proven": False, "busy": True}, None),
    ],
)
def test_policy(change: dict[str, object], kind: str | None) -> None:
    actions = decide([replace(LOST, **change)], [])  # type: ignore[arg-type]  # parametrised fields
    assert [action.kind for action in actions] == ([kind] if kind else [])
    assert all(action.reason for action in actions)


def test_order_is_priority_then_name() -> None:
    jobs = [
        replace(LOST, name=name, uid=name, priority=p) for name, p in (("a", 0), ("b", 9), ("c", 9), ("d", 1))
    ]
    assert [action.job for action in decide(jobs, [])] == ["b", "c", "d", "a"]


def test_zombies_suspend_everything() -> None:
    assert suspended([1.0, 2.0, 3.0]) is None
    assert suspended([1.0, 2.0, 3.0, 601.0]) is None
    assert suspended([1.0, 2.0, 3.0, 4.0]) is not None
    assert [action.kind for action in decide([LOST], [1.0] * 4)] == ["alert"]


@pytest.mark.parametrize(
    ("chain", "result"),
    [
        ([], (None, 0)),
        ([("genesis", None)], (None, 0)),
        ([("genesis", None), ("checkpoint", "1.3")], ("1.3", 1)),
        ([("genesis", None), ("checkpoint", "1.3"), ("void", None), ("checkpoint", "1.3")], ("1.3", 2)),
        ([("checkpoint", "1.3"), ("checkpoint", "2.1")], ("2.1", 1)),
        ([("checkpoint", "1.3"), ("cold", None)], (None, 0)),
    ],
)
def test_restores_in_a_row(chain: list[tuple[str, str | None]], result: tuple[str | None, int]) -> None:
    assert restores_in_a_row(chain) == result


def test_back_off_grows_and_is_bounded() -> None:
    waits = [back_off_s(number) for number in range(40)]
    assert waits[0] == 0
    assert waits[1] == 10
    assert waits == sorted(waits)
    assert waits[-1] == 600
