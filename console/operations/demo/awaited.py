"""What the story waits for at this moment, in words for people who watch."""

from __future__ import annotations

from dataclasses import dataclass

from planner.quantities import format_duration


@dataclass(frozen=True)
class Awaited:
    """One wait of the story.

    Attributes:
        what: the thing that has to happen, as a sentence that "Now:" can precede.
        due_at: monotonic seconds at which it is expected; None: nobody can say.
        ahead: words between `what` and the time left, told only with it.
    """

    what: str
    due_at: float | None = None
    ahead: str = " in"

    def words(self, now: float) -> str:
        """The sentence with the time left at `now` (monotonic seconds); a time gone by is not told."""
        if self.due_at is None or self.due_at - now < 1.0:
            return self.what
        return f"{self.what}{self.ahead} {format_duration(float(int(self.due_at - now)))}"


def steps_left(done: dict[str, int | None], steps: dict[str, int], step_s: float, now: float) -> Awaited:
    """The end of jobs that are `done` steps far of `steps`, of at least `step_s` seconds each.

    Saves and a busy machine take their share, so what is told is "at least"; a job whose step is unknown is told so.
    """
    told = [
        f"{name} at step {'unknown' if done.get(name) is None else done[name]} of {total}"
        for name, total in sorted(steps.items())
    ]
    known = [
        (total - found) * step_s for name, total in steps.items() if (found := done.get(name)) is not None
    ]
    if len(known) < len(steps):
        return Awaited(", ".join(told))
    return Awaited(", ".join(told), now + max(known), "; the end comes in no less than")
