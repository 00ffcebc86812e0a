"""The tour of docs/console.md, walked in tmux on a practice fleet: every step by keys, each listed with its time."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.practice import abilities
from tests.support.lab import CLOCK, ROOT, Lab, environment, lab
from tests.support.terminal import Terminal

pytestmark = pytest.mark.prove
MOST_S = 180.0
JOB, HOST = "tune", "host-b"  # the job that has most at risk: its interval is half an hour


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Lab]:
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    with lab(tmp_path / "state", hosts=3) as found:
        yield found


@pytest.fixture
def terminal(fleet: Lab, tmp_path: Path) -> Iterator[Terminal]:
    kept = environment(fleet.state)
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    more = {
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm-256color",
        "PS1": "$ ",
        "REPRIEVE_CONTEXT": "practice",
    }
    found = Terminal(tmp_path / "tmux", {**kept, **more}, (80, 24))
    yield found
    found.end()


class Tour:
    """Its steps, in the order and by the names of the page."""

    def __init__(self, fleet: Lab, terminal: Terminal) -> None:
        self.fleet, self.terminal = fleet, terminal

    def find(self) -> None:
        """The row at the top has most at risk."""
        self.terminal.press("console", "2", "g")
        self.terminal.expect("console", lambda shown: re.search(rf"▸ {JOB} ", shown), again="g")

    def save(self) -> None:
        """Ask, agree, and see it saved."""
        self.terminal.press("console", "S")
        self.terminal.agree("console", f"Save {JOB} now")
        self.terminal.expect("console", f"{JOB} is saved as 1.")

    def lose(self) -> None:
        """Take the host away, from a shell; the console proves it by itself."""
        self.terminal.type("shell", f"reprieve practice reclaim {HOST}")
        self.terminal.expect("shell", f"{HOST} was taken")
        self.terminal.expect("console", lambda shown: re.search(rf"~{JOB} +⋯ waits: you", shown))

    def restore(self) -> None:
        """Where, the plan, a yes, and the proofs that it is back."""
        self.terminal.press("console", "/")
        self.terminal.expect("console", lambda shown: "R restore" not in shown)  # the prompt has the keys
        self.terminal.type("console", JOB)
        self.terminal.expect(
            "console", lambda shown: re.search(rf"▸ ~{JOB} ", shown) and "R restore" in shown
        )
        self.terminal.press("console", "R")
        self.terminal.expect("console", "any compatible node")
        self.terminal.press("console", "Enter")
        self.terminal.expect("console", "↵ asks once more, then begins")
        self.terminal.press("console", "Enter")
        self.terminal.agree("console", f"Restore {JOB}")
        self.terminal.expect("console", "IS IT REALLY BACK?")
        self.terminal.expect("console", lambda shown: re.search(r"saved again +2\.", shown))

    def report(self) -> None:
        """One line a loss: lost work, restore, wait."""
        self.terminal.type("shell", f"clear; reprieve report --job {JOB}")
        shown = self.terminal.expect("shell", "lost work, mean")
        assert f"{HOST}" in shown
        assert "reclaims by the provider r = 1" in " ".join(shown.split())

    def change(self) -> None:
        """The planner's advice is the first choice."""
        self.terminal.press("console", "2")
        self.terminal.expect(
            "console", lambda shown: re.search(rf"▸ {JOB} +. (un)?(protected|rehearsed)", shown)
        )
        self.terminal.press("console", "I")
        shown = self.terminal.expect("console", "advised:")
        advised = next(line for line in shown.splitlines() if "advised:" in line).split()
        word = advised[advised.index("advised:") - 1]
        CLOCK.sleep(0.7)
        self.terminal.press("console", "Enter")
        self.terminal.agree("console", f"Interval of {JOB}: {word}")
        number, unit = re.fullmatch(r"(\d+)([smh])", word).groups()  # type: ignore[union-attr]  # as the choice shows it
        wanted = int(number) * {"s": 1, "m": 60, "h": 3600}[unit]
        self.terminal.expect("console", lambda _: self.fleet.show(JOB)["interval_s"] == wanted)


STEPS: tuple[tuple[str, Callable[[Tour], None]], ...] = (
    ("Find the job most at risk", Tour.find),
    ("Save it", Tour.save),
    ("Lose its node", Tour.lose),
    ("Bring it back", Tour.restore),
    ("Read the report", Tour.report),
    ("Change its interval", Tour.change),
)


def told() -> list[str]:
    """The steps that the page names."""
    page = (ROOT / "docs" / "console.md").read_text("utf-8")
    part = page.partition("## A tour in ten minutes")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. \*\*(.+?)\.\*\*", part, re.MULTILINE)


def test_the_tour_of_the_page_by_keys_alone(fleet: Lab, terminal: Terminal) -> None:
    assert [name for name, _ in STEPS] == told()
    fleet.start("steady", "host-a", "--interval", "5s")
    fleet.start(JOB, HOST, "--interval", "30m")
    terminal.window("console", "reprieve")
    terminal.window("shell", "bash", "--norc", "--noprofile")
    terminal.expect("console", lambda shown: "steady" in shown and JOB in shown)
    tour, begun = Tour(fleet, terminal), CLOCK.monotonic()
    for number, (name, step) in enumerate(STEPS, 1):
        at = CLOCK.monotonic()
        step(tour)
        print(f"step {number}: {name}: {CLOCK.monotonic() - at:.1f} s")
    whole_s = CLOCK.monotonic() - begun
    print(f"the tour: {whole_s:.1f} s")
    assert whole_s < MOST_S
    assert len(fleet.running_pids(JOB)) == 1
    terminal.press("console", "q")
    terminal.expect("console", "Pane is dead (status 0")
