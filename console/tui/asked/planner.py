"""The Planner's form and its answer: from what is typed to the planner's inputs, the result and the tables behind the charts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from console.pictures.figures import VERDICTS, headline, hours, number, saved
from console.tui.model.cells import Cell
from console.tui.model.detail import Line, Section
from console.tui.model.words import Tone
from planner import quantities
from planner.advice import evaluate
from planner.plan.curves import against_interval, against_reclaims, of_makespan
from planner.plan.inputs import PlanError, PlanInputs
from planner.quantities import format_fraction

Document = dict[str, Any]
ROWS = 12  # of a chart's table


class Field(NamedTuple):
    """One line of the form."""

    name: str  # the planner's input
    label: str
    read: Callable[[str], Any]
    hint: str


def _in_hours(text: str) -> float:
    return quantities.parse_duration(text) / 3600.0


def _interval(text: str) -> float | str:
    return "auto" if text == "auto" else _in_hours(text)


FIELDS: tuple[Field, ...] = (
    Field("hours", "work of the job H", quantities.parse_hours, "24 or 36h"),
    Field("discount", "discount d", quantities.parse_fraction, "0.7 or 70%"),
    Field("reclaims", "reclaims r", quantities.parse_number, "over the job"),
    Field("rate", "or rate per hour", quantities.parse_number, "0.125"),
    Field("band", "or band a month", str, "5-10%"),
    Field("lost", "lost per reclaim L", _in_hours, "10m"),
    Field("checkpoint_cost", "or pause of a save C", _in_hours, "36s"),
    Field("restore", "restore R", _in_hours, "3m"),
    Field("upload", "upload U", _in_hours, "2m"),
    Field("interval", "interval", _interval, "auto or 15m"),
    Field("wait", "wait for a node D", _in_hours, "not billed"),
    Field("deadline", "deadline", _in_hours, "36h"),
)
EXAMPLE = {"hours": "24", "discount": "0.7", "reclaims": "3", "lost": "10m"}  # the article's


class Answer(NamedTuple):
    """What the form gives: an error that names the field, or the inputs with their document."""

    inputs: PlanInputs | None = None
    document: Document | None = None
    error: str = ""


def answer(typed: dict[str, str], sources: dict[str, str] | None = None) -> Answer:
    """The plan for what is typed; empty fields are left out. Never raises."""
    values: dict[str, Any] = {}
    for field in FIELDS:
        text = typed.get(field.name, "").strip()
        if not text:
            continue
        try:
            values[field.name] = field.read(text)
        except ValueError as error:
            return Answer(error=f"{field.label}: {error}")
    if "hours" not in values:
        return Answer(error="work of the job H: how many hours of useful work? such as 24")
    if "band" in values:
        values["band_basis"] = "month"
    try:
        inputs = PlanInputs(**values, sources=tuple((sources or {}).items()))
        return Answer(inputs, evaluate(inputs))
    except PlanError as error:
        return Answer(error=str(error))
    except (OverflowError, ZeroDivisionError) as error:
        return Answer(error=f"these figures cannot be computed with: {error}")


def typed_of(values: dict[str, Any]) -> dict[str, str]:
    """Form texts for known values (hours become durations), for a plan from a job's record."""
    texts: dict[str, str] = {}
    for field in FIELDS:
        value = values.get(field.name)
        if value is None:
            continue
        if field.read in (_in_hours, _interval) and isinstance(value, (int, float)):
            texts[field.name] = f"{value * 3600.0:.4g}s"
        else:
            texts[field.name] = f"{value:g}" if isinstance(value, float) else str(value)
    if values.get("history_node_hours") and "reclaims" not in texts and "rate" not in texts:
        texts["rate"] = f"{values.get('history_reclaims', 0) / values['history_node_hours']:.4g}"
    return texts


_TONES: dict[str, Tone] = {
    "pays": "ok",
    "breaks_even": "warn",
    "does_not_pay": "bad",
    "never_finishes": "bad",
}


def sections(found: Answer) -> tuple[Section, ...]:
    """The verdict, the figures, what to do, and what was assumed."""
    plan = found.document
    if plan is None:
        return (Section("", (("", (Cell(found.error, "warn"),)),)),)
    source = plan["sources"]
    figures: list[Line] = [
        ("billed", (Cell(hours(plan["billed_hours"])), Cell(f"  cost {number(plan['cost_in_on_demand_hours'])} on-demand hours", "muted"))),
        ("saving", (Cell(saved(plan["saving_fraction"]), _TONES[plan["verdict"]]),)),
        ("reclaims", (Cell(number(plan["reclaims"])), Cell(f"  {source['reclaims'].replace('--', '')}", "muted"))),
        ("lost each", (Cell(hours(plan["lost_hours_per_reclaim"])), Cell(f"  {source['loss'].replace('--', '')}", "muted"))),
        ("rL/H", (Cell(number(plan["lost_ratio"])), Cell(f"  pays below d/(1-d) = {number(plan['break_even_ratio'])}", "muted"))),
        ("breaks even", (Cell(number(plan["break_even_reclaims"], "reclaims")), Cell(f"  or {hours(plan['break_even_lost_hours'])} lost each, or d {format_fraction(plan['break_even_discount'])}", "muted"))),
    ]  # fmt: skip
    parts = [
        Section("", (("", (Cell(headline(plan), _TONES[plan["verdict"]]),)),)),
        Section("figures", tuple(figures)),
    ]
    if plan["interval"] is not None:
        parts.append(Section("interval", _advice(plan["interval"])))
    ends = plan["range"]
    if ends is not None:
        parts.append(
            Section("the rate is a range", tuple((f"{end} end", (Cell(saved(ends[end]["saving_fraction"])), Cell(f"  {number(ends[end]['reclaims'])} reclaims, {VERDICTS[ends[end]['verdict']].lower()}", "muted"))) for end in ("low", "high")))
        )  # fmt: skip
    if plan["deadline"] is not None:
        late = plan["deadline"]
        parts.append(Section("deadline", (("met with", (Cell(format_fraction(late["p_finish"], digits=2)), Cell(f"  switch to on-demand at {hours(late['latest_switch_hours'])} at the latest", "muted"))),)))  # fmt: skip
    notes = [("", (Cell(f"! {text}", "warn"),)) for text in plan["warnings"]]
    notes += [("", (Cell(text, "muted"),)) for text in plan["assumptions"]]
    parts.append(Section("assumed", tuple(notes)))
    return tuple(parts)


def _advice(part: Document) -> tuple[Line, ...]:
    best = part["recommended_hours"]
    lines: list[Line] = [
        ("", (Cell("Do not save." if best is None else f"Save every {hours(best)}.", "accent"),))
    ]
    if part["exact_hours"] is not None:
        safe = f"{hours(part['safe_low_hours'])} to {hours(part['safe_high_hours'])}"
        lines.append(("safe range", (Cell(safe), Cell("  within 1 % of the best", "muted"))))
        lines.append(
            (
                "exact",
                (Cell(hours(part["exact_hours"])), Cell(f"  Young {hours(part['young_hours'])}", "muted")),
            )
        )
    return tuple(lines)


def tables(inputs: PlanInputs) -> tuple[Section, ...]:
    """The numbers behind each chart, as many rows as can be read."""
    parts = []
    interval = against_interval(inputs)
    if interval is not None:
        parts.append(_table("cost in on-demand hours for each interval", interval.points, hours, number))
    reclaims = against_reclaims(inputs)
    if reclaims is not None:
        parts.append(_table("saving for each number of reclaims", reclaims.points, number, saved))
    try:
        law = of_makespan(inputs)
    except PlanError:
        law = None
    if law is not None:
        parts.append(_table("chance to be done by each time", law.points, hours, format_fraction))
    return tuple(parts) or (Section("", (("", (Cell("this plan has no chart", "muted"),)),)),)


def _table(
    title: str,
    points: tuple[list[float], list[float]],
    left: Callable[[float], str],
    right: Callable[[float], str],
) -> Section:
    xs, ys = points
    count = min(ROWS, len(xs))
    picked = [round(index * (len(xs) - 1) / max(1, count - 1)) for index in range(count)]
    return Section(
        title, tuple((left(xs[index]), (Cell(right(ys[index])),)) for index in dict.fromkeys(picked))
    )
