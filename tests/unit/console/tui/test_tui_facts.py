"""Facts broken into lines: nothing is lost, nothing is wider than the pane."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from console.tui.model import detail
from console.tui.model.cells import Cell
from console.tui.widgets.facts import arranged, wrapped
from console.tui.widgets.tones import crop
from tests.support.tui_fleet import NOON, rich_view

VIEW = rich_view()


@given(st.lists(st.text(alphabet="ab 日é-", max_size=30), max_size=5), st.integers(4, 60), st.integers(0, 3))
def test_wrapping_keeps_the_width(texts: list[str], width: int, indent: int) -> None:
    for line in wrapped([Cell(text) for text in texts], width, indent):
        assert sum(cell_len(cell.text) for cell in line) <= width


@given(st.text(alphabet="abc ", max_size=40), st.integers(8, 60))
def test_wrapping_keeps_the_words(text: str, width: int) -> None:
    lines = wrapped([Cell(text)], width, 0)
    words = " ".join("".join(cell.text for cell in line) for line in lines).split()
    if all(len(word) < width - 1 for word in text.split()):
        assert words == text.split()


@given(st.text(alphabet="ab日👩é…", max_size=20), st.integers(0, 20), st.booleans())
def test_crop_is_exact(text: str, width: int, right: bool) -> None:
    assert cell_len(crop(text, width, right=right)) == width


@given(st.integers(10, 200), st.sampled_from(VIEW.jobs))
def test_a_jobs_facts_at_every_width(width: int, job: object) -> None:
    sections = detail.job(VIEW, job, NOON)  # type: ignore[arg-type]  # a JobRow, from the fleet
    for line in arranged(sections, width):
        assert sum(cell_len(cell.text) for cell in line) <= width


def test_what_a_job_shows() -> None:
    job = next(job for job in VIEW.jobs if job.name == "llama-ft")
    words = "\n".join(
        "".join(cell.text for cell in line) for line in arranged(detail.job(VIEW, job, NOON), 100)
    )
    for part in (
        "A reclaim this second would cost 4m 12s", "42% of the interval", "3.31 · frozen 13:55:48, 4m ago", "6.4s, 212 GiB",
        "s3://ml-checkpoints/reprieve", "gpu-a", "4121, 3", "step 41,210", "llama-ft 3.31 saved", "3.30",
    ):  # fmt: skip
        assert part in words


def test_what_a_node_shows() -> None:
    node = next(node for node in VIEW.nodes if node.name == "vast-311")
    words = "\n".join(
        "".join(cell.text for cell in line) for line in arranged(detail.node(VIEW, node, NOON), 84)
    )
    for part in (
        "! unreadable",
        "only saves protect",
        "sim-cfd-3",
        "5m 18s",
        "1x RTX4090",
        "5.15.0",
        "vast/eu/rtx4090/linux",
    ):
        assert part in words
