"""Jobs: what would I lose now?"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual.binding import Binding, BindingType

from console.operations.view import FleetView, JobRow, risk_now
from console.tui.asked import intervals, places
from console.tui.model import columns, detail, plans, policy_plans, sources, text, words
from console.tui.model.command_line import Typed
from console.tui.model.detail import Section
from console.tui.screens.board import Board
from console.tui.screens.choose import Choice, Choose
from console.tui.widgets.table import RowTable

CHANGING = ("save", "restore", "move", "suspend", "stop", "interval", "rehearse")
ONE = ("restore", "move", "interval", "rehearse")  # take one job


class Jobs(Board[JobRow]):
    """The jobs with their work at risk, ticking; save, restore, move, pause from here."""

    MODE = "jobs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "save", "save", id="job.save"),
        Binding("R", "restore", "restore", id="job.restore"),
        Binding("M", "move", "move", id="job.move"),
        Binding("P", "suspend", "pause", id="job.protect"),
        Binding("I", "interval", "interval", show=False, id="job.interval"),
        Binding("X", "stop", "stop", show=False, id="job.stop"),
        Binding("H", "rehearse", "rehearse", show=False, id="job.rehearse"),
        Binding("n", "plan", "plan it", show=False, id="job.plan"),
    ]

    def make_table(self) -> RowTable[JobRow]:
        """Jobs, the one with the most to lose first."""
        return RowTable(
            self.title_of, columns.JOBS, "risk", lambda: self.desk.feed.now, descending=True,
            empty="no jobs yet: reprieve jobs protect NAME --node NODE --pid PID",
            dim=lambda job: job.stale, id="table",
        )  # fmt: skip

    def load(self, view: FleetView) -> None:
        """Jobs are known by uid: a reused name is another job."""
        self.table.load((job.uid or f"name {job.name}", job) for job in view.jobs)

    def sections(self, view: FleetView, record: JobRow, now: float) -> tuple[Section, ...]:
        """Work at risk first."""
        return detail.job(view, record, now)

    def figures(self, record: JobRow) -> tuple[Section, ...]:
        """Guard, ledger or store, and how old."""
        view = self.desk.feed.view
        return () if view is None else sources.job(view, record, self.desk.feed.now)

    def name_of(self, record: JobRow) -> str:
        """The job's name."""
        return record.name

    def caption(self, record: JobRow, now: float) -> str:
        """Why the job is in its state."""
        why = columns.why(record, now)
        return f"{record.name}: {why}" if why else ""

    def summary(self, view: FleetView) -> str:
        """The job with the most at risk."""
        now = self.desk.feed.now
        worst = max(view.jobs, key=lambda job: risk_now(job, now) or 0.0, default=None)
        if worst is None:
            return "no jobs"
        return f"{text.count(len(view.jobs), 'job')} · {worst.name} {text.duration(risk_now(worst, now))} {words.of(words.JOB, worst.state)}"

    # -- acting

    def why_not(self, action: str) -> str | None:
        """Read-only, no data, no job, no checkpoint."""
        if action not in CHANGING:
            return None
        view = self.desk.feed.view
        closed = self.read_only(action)
        if closed is not None or view is None:
            return closed
        targets, _ = self.table.rows.targets()
        if not targets:
            return f"{action}: no job is under the cursor"
        if action in ONE and len(targets) > 1:
            more = ": reprieve batch restore FILE takes many" if action == "restore" else ""
            return f"{action} takes one job, {len(targets)} are marked{more}"
        job = self.table.rows.get(targets[0])
        if action == "restore" and job is not None and job.checkpoint is None:
            return f"restore: {job.name} has no checkpoint yet"
        return None

    def _targets(self) -> tuple[list[JobRow], int]:
        keys, hidden = self.table.rows.targets()
        found = [self.table.rows.get(key) for key in keys]
        return [job for job in found if job is not None], hidden

    def action_save(self) -> None:
        """Save the marked jobs, or the one under the cursor."""
        view = self.desk.feed.view
        jobs, hidden = self._targets()
        if view is not None and jobs:
            self.confirm(plans.save(view, jobs, self.desk.feed.now, hidden))

    def action_suspend(self) -> None:
        """Pause protection, or resume it."""
        view = self.desk.feed.view
        jobs, hidden = self._targets()
        if view is not None and jobs:
            self.confirm(plans.suspend(view, jobs, self.desk.feed.now, hidden))

    def action_stop(self) -> None:
        """Stop with a last save."""
        view = self.desk.feed.view
        jobs, hidden = self._targets()
        if view is not None and jobs:
            self.confirm(policy_plans.stop(view, jobs, self.desk.feed.now, hidden))

    def action_rehearse(self) -> None:
        """Prove on another host that the newest checkpoint runs."""
        view = self.desk.feed.view
        for job in self._targets()[0][:1]:
            if view is not None:
                self.confirm(policy_plans.rehearse(view, job))

    def action_restore(self) -> None:
        """Open the wizard for this job."""
        for job in self._targets()[0][:1]:
            self.desk.wish.begin(job.name)
            self.post_message(self.Wanted("restore"))

    def action_plan(self) -> None:
        """Take what is known of this job to the planner."""
        for job in self._targets()[0][:1]:
            self.desk.wish.plan_job = job.name
            self.post_message(self.Wanted("planner"))

    def action_interval(self) -> None:
        """Choose another interval; the planner's advice comes first when enough is known."""
        for job in self._targets()[0][:1]:
            self.desk.looks.want("plan", 5.0, name=job.name)
            self.run_worker(self._choose_interval(job), exit_on_error=False, group="interval", exclusive=True)

    async def _choose_interval(self, job: JobRow) -> None:
        asked = self.desk.looks.known("plan", name=job.name)
        for _ in range(30):
            if not asked.asking:
                break
            await asyncio.sleep(0.1)
        if self.app.screen is not self:  # gone elsewhere meanwhile: nothing is asked over another screen
            return
        offers = intervals.offers(job, asked)
        choices = [Choice(offer.words, offer.note) for offer in offers]

        def chosen(number: int | None) -> None:
            view = self.desk.feed.view
            if number is not None and view is not None:
                offer = offers[number]
                self.confirm(policy_plans.interval(view, job, offer.words, offer.note.text))

        self.app.push_screen(Choose(f"Save {job.name} every", choices), chosen)

    def action_move(self) -> None:
        """Choose where, then confirm."""
        for job in self._targets()[0][:1]:
            self._to_somewhere(job)

    def _to_somewhere(self, job: JobRow) -> None:
        view = self.desk.feed.view
        if view is None:
            return
        found = places.targets(view, job)
        if not any(place.fits for place in found):
            self.refuse(
                f"move: no node can take {job.name}: {'; '.join(f'{p.label} {p.note.text}' for p in found[:3])}"
            )
            return

        def chosen(number: int | None) -> None:
            if number is not None:
                self.plan_to(job, "move", found[number].name)

        choices = [Choice(place.label, place.note, place.fits) for place in found]
        self.app.push_screen(Choose(f"Move {job.name} to", choices), chosen)

    def plan_to(self, job: JobRow, verb: str, target: str | None) -> None:
        """Confirm a restore or move whose target is known."""
        view = self.desk.feed.view
        if view is None:
            return
        now = self.desk.feed.now
        if verb == "restore":
            self.confirm(plans.restore(view, job, target, now))
        elif target is not None:
            self.confirm(plans.move(view, job, target, now))

    def perform_typed(self, typed: Typed) -> None:
        """What the `:` line asked for: the same dialogs as the keys, for the jobs it names."""
        view = self.desk.feed.view
        if view is None or view.read_only:
            self.refuse(self.why_not(typed.action) or f"{typed.action}: not now")
            return
        by_name = {job.name: job for job in view.jobs}
        missing = [name for name in typed.names if name not in by_name]
        if missing:
            self.refuse(f"{typed.action}: no job {missing[0]!r} in this fleet")
            return
        jobs = [by_name[name] for name in typed.names] or self._targets()[0]
        if not jobs:
            self.refuse(f"{typed.action}: which job? {typed.action} NAME")
        elif typed.action == "save":
            self.confirm(plans.save(view, jobs, self.desk.feed.now))
        elif typed.action in ("pause", "resume"):
            self._suspend_typed(view, typed.action, jobs)
        elif typed.action in ("stop", "kill"):
            make = policy_plans.stop if typed.action == "stop" else policy_plans.kill
            self.confirm(make(view, jobs, self.desk.feed.now))
        elif typed.action == "rehearse":
            self.confirm(policy_plans.rehearse(view, jobs[0]))
        elif typed.action == "interval":
            self.confirm(policy_plans.interval(view, jobs[0], typed.options["interval"]))
        else:
            self._to_typed(view, typed, jobs[0])

    def _suspend_typed(self, view: FleetView, action: str, jobs: list[JobRow]) -> None:
        wanted = [job for job in jobs if (job.state == "paused") == (action == "resume")]
        if wanted:
            self.confirm(plans.suspend(view, wanted, self.desk.feed.now))
        else:
            self.refuse(
                f"{action}: {jobs[0].name} is {'not paused' if action == 'resume' else 'paused already'}"
            )

    def _to_typed(self, view: FleetView, typed: Typed, job: JobRow) -> None:
        target = typed.options.get("to")
        if typed.action == "restore" and job.checkpoint is None:
            self.refuse(f"restore: {job.name} has no checkpoint yet")
        elif target is None and typed.action == "restore":
            self.desk.wish.begin(job.name)
            self.post_message(self.Wanted("restore"))
        elif target is None:
            self._to_somewhere(job)
        elif target not in {node.name for node in view.nodes}:
            self.refuse(f"{typed.action}: no node {target!r} in this fleet")
        else:
            self.plan_to(job, typed.action, target)
