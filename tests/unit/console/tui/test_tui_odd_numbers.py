"""No number a source can send breaks a picture: NaN, infinities, negative and absurd values."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.tui.model import columns, detail, plans
from console.tui.model.rows import Rows
from tests.support.tui_fleet import NOON, rich_view

VIEW = rich_view()
number = (
    st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(1 << 63), 1 << 63).map(float)
)
whole = st.none() | st.integers(-(1 << 63), 1 << 63)
anything = (
    st.none()
    | st.booleans()
    | st.text(max_size=9)
    | st.floats()
    | st.integers(-(1 << 63), 1 << 63)
    | st.lists(st.integers(), max_size=3)
)


@given(
    st.sampled_from(VIEW.jobs),
    st.lists(number, min_size=6, max_size=6),
    st.lists(whole, min_size=3, max_size=3),
)
def test_jobs(job: Any, floats: list[float | None], ints: list[int | None]) -> None:
    names = ("frozen_at", "interval_s", "next_save_at", "freeze_s", "risk_base_s", "observed_at")
    odd = dataclasses.replace(
        job, **dict(zip(names, floats, strict=True)), size_bytes=ints[0], pid=ints[1], epoch=ints[2]
    )
    view = dataclasses.replace(VIEW, jobs=(odd, job))
    for column in columns.JOBS:
        column.cell(odd, NOON)
        rows = Rows(columns.JOBS, column.id)
        rows.load([("a", odd), ("b", job)], NOON)
        assert len(rows) == 2
    detail.job(view, odd, NOON)
    plans.save(view, [odd], NOON)
    plans.restore(view, odd, None, NOON)


@given(st.sampled_from(VIEW.nodes), number, number, number)
def test_nodes(node: Any, age: float | None, left: float | None, taken: float | None) -> None:
    odd = dataclasses.replace(node, age_s=age, notice_left_s=left)
    view = dataclasses.replace(VIEW, taken_at=taken or NOON, nodes=(odd,))
    for column in columns.nodes(view.taken_at):
        column.cell(odd, NOON)
        column.value(odd, NOON)
    assert detail.node(view, odd, NOON)


@given(
    st.sampled_from(VIEW.events),
    st.dictionaries(st.sampled_from(["lost_work_s", "size_bytes", "freeze_s", "checkpoint", "x"]), anything),
    st.text(max_size=30),
)
def test_events(event: Any, data: dict[str, Any], when: str) -> None:
    odd = dataclasses.replace(event, data=data, time=when, kind="save.committed", job="llama-ft")
    view = dataclasses.replace(VIEW, events=(odd,))
    for column in columns.EVENTS:
        column.cell(odd, NOON)
        column.value(odd, NOON)
    assert detail.event(view, odd, NOON)
    detail.job(view, VIEW.jobs[0], NOON)
