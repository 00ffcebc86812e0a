"""Typed arguments of `jobs run`, `jobs protect` and `jobs set` as fields of a job's record."""

from __future__ import annotations

import dataclasses
import re
import shlex
from typing import Any

from backends.clean import clean
from backends.errors import UsageError
from backends.inventory.document import nearest
from backends.inventory.fields import JOB_KEYS
from backends.records.job import Attach, Job
from backends.records.presets import preset_fields
from console.operations.actions.outcome import Arguments

# argument → field of Job, where the value is taken as it was parsed
_PLAIN = {
    "engine": "engine", "store": "store", "max_freeze": "max_freeze_s", "max_overhead": "max_overhead", "hours": "hours",
    "deadline_at": "deadline_at", "restore": "restore", "priority": "priority", "group": "group", "signal": "signal",
    "marker": "marker", "cwd": "cwd", "node": "node",
}  # fmt: skip
_SETTABLE = frozenset(JOB_KEYS) - {
    "node",
    "uid",
    "command",
    "attach",
    "engine",
    "store",
    "cwd",
    "environment",
    "done",
}


def job_of(known: Job | None, arguments: Arguments) -> Job:
    """The job that a command line describes, on top of the fleet file's record if there is one.

    Raises:
        UsageError: no node is named, or a value cannot be read.
    """
    name = arguments["name"]
    changes: dict[str, Any] = {
        field: arguments[option] for option, field in _PLAIN.items() if arguments.get(option) is not None
    }
    if arguments.get("accept_unproven"):
        changes["accept_unproven"] = True
    if arguments.get("preset") is not None:
        changes = _preset(arguments["preset"]) | changes
    interval = arguments.get("interval")
    if interval is not None:
        changes["interval_s"] = None if interval == "auto" else float(interval)
    if arguments.get("files"):
        changes["files"] = (*changes.get("files", ()), *map(str, arguments["files"]))
    if arguments.get("runtime"):
        changes["runtime"] = dict(pair(text, "runtime") for text in arguments["runtime"])
    if arguments.get("done") is not None:
        key, _, value = arguments["done"].partition("=")
        if key != "file" or not value:
            raise UsageError(f"--done {clean(arguments['done'])!r}: file=PATH is expected")
        changes["done_file"] = value
    if arguments.get("resume") is not None:
        changes["resume"] = _words(arguments["resume"])
    if arguments.get("command"):
        changes |= {"command": tuple(arguments["command"]), "attach": None}
    given = _attached(name, arguments)
    try:
        if given:
            changes |= {"attach": Attach(**given), "command": ()}
        if known is not None:
            return dataclasses.replace(known, **changes)
        if not changes.get("node"):
            raise UsageError(f"job {name!r} is not in the fleet: say where it runs with --node NODE")
        return Job(name=name, **changes)
    except ValueError as error:
        raise UsageError(f"job {name}: {clean(error)}") from None


def _attached(name: str, arguments: Arguments) -> dict[str, Any]:
    """What names the running process; UsageError for two of a kind or a number that is none."""
    given: dict[str, Any] = {
        key: arguments[key]
        for key in ("pid", "pid_file", "container", "slurm")
        if arguments.get(key) is not None
    }
    if len(given) > 1:
        options = " and ".join(f"--{key.replace('_', '-')}" for key in given)
        raise UsageError(f"job {name}: {options} say the same thing twice: give one of them")
    for key in ("pid", "slurm"):
        if given.get(key, 1) < 1:
            raise UsageError(f"job {name}: --{key} is {given[key]}; at least 1 is expected")
    if "pid_file" in given:
        given["pid_file"] = str(given["pid_file"])
    return given


def begun(known: Job | None, words: str, arguments: Arguments) -> Job:
    """The job that `jobs run` or `jobs protect` would begin with; UsageError when it has nothing to run or to attach to."""
    job = job_of(known, arguments)
    if words == "jobs run" and not job.command:
        raise UsageError(f"job {job.name} has no command: give it after --")
    if words == "jobs protect" and job.attach is None:
        raise UsageError(f"job {job.name}: give one of --pid, --pid-file, --container, --slurm")
    return job


def changed(job: Job, pairs: list[str]) -> Job:
    """The job's record after `jobs set` with these KEY=VALUE; UsageError for what cannot be."""
    try:
        return dataclasses.replace(job, **changes_of(pairs))
    except ValueError as error:
        raise UsageError(f"job {job.name}: {clean(error)}") from None


def _preset(text: str) -> dict[str, Any]:
    try:
        return preset_fields(text)
    except ValueError as error:
        raise UsageError(f"--preset {clean(text)!r}: {clean(error)}") from None


def pair(text: str, option: str) -> tuple[str, str]:
    """KEY=VALUE as two texts."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise UsageError(f"--{option} {clean(text)!r}: KEY=VALUE is expected")
    return key.strip(), value


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--resume {clean(text)!r}: {error}") from None


def changes_of(pairs: list[str]) -> dict[str, Any]:
    """`interval=10m priority=3` as fields of a job's record, read by the rules of the fleet file.

    Raises:
        UsageError: an unknown key, one that cannot be changed while the job lives, or a wrong value.
    """
    result: dict[str, Any] = {}
    for text in pairs:
        key, value = pair(text, "set")
        key = key.replace("-", "_")
        rule = JOB_KEYS.get(key)
        if rule is None:
            raise UsageError(f"{clean(key, limit=40)!r} is no key of a job{nearest(key, sorted(_SETTABLE))}")
        if key not in _SETTABLE:
            raise UsageError(f"{key} cannot be changed while the job lives; stop it and start it anew")
        try:
            result[rule.field] = rule.read(_literal(value, key))
        except (ValueError, UsageError) as error:
            raise UsageError(f"{key}={clean(value)}: {error}") from None
    return result


def _literal(value: str, key: str) -> Any:
    if key in ("files", "resume"):
        return shlex.split(value)
    if key == "runtime":
        return dict(pair(each, "runtime") for each in shlex.split(value))
    if value in ("true", "false"):
        return value == "true"
    if re.fullmatch(r"-?[0-9]{1,15}", value) and key in ("priority", "keep_last", "stop_after_reclaims"):
        return int(value)
    if key in ("hours", "max_overhead", "max_store_usd_per_day") and re.fullmatch(
        r"-?[0-9]+(\.[0-9]+)?", value
    ):
        return float(value)
    return value
