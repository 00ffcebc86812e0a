"""The filter line: `text`, `!text`, `~fuzzy`, `col=val`, `col!=val`, `col>val`, `col<val`; blanks mean AND.

Text looks into every column of words. Values may hold `*` and `?`; numbers may carry a unit: `risk>10m`, `size>2GiB`,
`share>80%`. A condition on a column that does not exist is left out and reported.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Fields = Callable[[str], "str | float | None"]
"""Looks up a column's value of one row by the column's id."""

_TERM = re.compile(r"(?P<name>[A-Za-z_]+)(?P<sign>!=|>=|<=|=|>|<)(?P<value>.*)\Z", re.DOTALL)
_NUMBER = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?)([A-Za-z%]*)\Z")
_UNITS: Mapping[str, float] = {
    "": 1.0, "%": 0.01, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0,
    "b": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40,
    "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
}  # fmt: skip


@dataclass(frozen=True)
class Term:
    """One condition. `sign` is `text`, `fuzzy`, or a comparison with column `name`."""

    sign: str
    value: str  # lower case
    name: str = ""
    negated: bool = False
    number: float | None = None


@dataclass(frozen=True)
class Filter:
    """What a filter line means; `error` says in one sentence what was not understood (that part is left out)."""

    source: str = ""
    terms: tuple[Term, ...] = ()
    error: str = ""

    @property
    def plain(self) -> str | None:
        """The text, where the filter is one text to be found and nothing else."""
        only = self.terms[0] if len(self.terms) == 1 else None
        return only.value if only is not None and only.sign == "text" and not only.negated else None

    def matches(self, haystack: str, fields: Fields) -> bool:
        """Whether a row passes: `haystack` is its whole text in lower case."""
        return all(_holds(term, haystack, fields) != term.negated for term in self.terms)


def parse(line: str, columns: tuple[str, ...]) -> Filter:
    """Read a filter line for a table with these column ids; never raises."""
    terms: list[Term] = []
    problem = ""
    for word in line.split():
        found = _TERM.match(word)
        if found is None:
            terms.append(_text(word))
            continue
        name, sign, value = found["name"].lower(), found["sign"], found["value"].lower()
        if name not in columns:
            problem = problem or f"no column {name!r}: {', '.join(columns)}"
            continue
        number = quantity(value)
        if sign in (">", "<", ">=", "<=") and number is None:
            problem = problem or f"{name}{sign} needs a number such as 10m, 2GiB or 80%, not {value!r}"
            continue
        terms.append(Term(sign.replace("!", ""), value, name, negated=sign == "!=", number=number))
    return Filter(line.strip(), tuple(term for term in terms if term.value), problem)


def _text(word: str) -> Term:
    negated = word.startswith("!")
    body = word[1:] if negated else word
    if body.startswith("~"):
        return Term("fuzzy", body[1:].lower(), negated=negated)
    return Term("text", body.lower(), negated=negated)


def quantity(text: str) -> float | None:
    """A number with an optional unit (time, size, percent) in seconds, bytes or as a fraction; None if it is none."""
    found = _NUMBER.match(text)
    if found is None:
        return None
    factor = _UNITS.get(found[2].lower())
    return None if factor is None else float(found[1]) * factor


def _holds(term: Term, haystack: str, fields: Fields) -> bool:
    if term.sign == "text":
        return term.value in haystack
    if term.sign == "fuzzy":
        letters = iter(haystack)
        return all(letter in letters for letter in term.value)
    actual = fields(term.name)
    if term.sign == "=":
        return _equal(term, actual)
    if not isinstance(actual, (int, float)) or term.number is None:
        return False
    return {
        ">": actual > term.number,
        "<": actual < term.number,
        ">=": actual >= term.number,
        "<=": actual <= term.number,
    }[term.sign]


def _equal(term: Term, actual: str | float | None) -> bool:
    if actual is None:
        return term.value in ("–", "unknown", "none")
    if isinstance(actual, str):
        return fnmatch.fnmatchcase(actual.lower(), term.value)
    return term.number is not None and actual == term.number
