"""The narrow way in: what a user of a node may ask of its guard who must not become root by it.

`reprieve-helper probe | status | save JOB`, run by sudo from a rule that names exactly that file. It takes no option,
no path, no variable and no standard input from its caller: a verb and the name of a job that the guard already
keeps, nothing else. Everything that is as good as root (starting, restoring, changing jobs) has no verb here
(docs/adr/030-privilege.md). Exit status: 0 done, 1 refused or failed, 2 not understood, 5 no guard answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from backends.errors import ReprieveError, UsageError
from backends.guard.disk.layout import Layout, layout_here
from backends.ids import check_name, new_nonce

SAVE_WAIT_S = 600.0
MARGIN_S = 30.0
USAGE = "reprieve-helper: `probe`, `status` or `save JOB` is expected, without options"

Ask = Callable[[str, dict[str, Any], float], dict[str, Any]]
_SHOWN = ("name", "state", "saving", "at_risk_s", "interval_s", "next_save_in_s", "error")


def plan(arguments: Sequence[str]) -> tuple[str, dict[str, Any], float]:
    """The one call of the guard that these arguments stand for: verb, document, seconds to wait.

    Raises:
        UsageError: they are not exactly one of the three forms.
    """
    match list(arguments):
        case ["probe"] | ["status"]:
            return "status", {}, 10.0
        case ["save", name]:
            try:
                check_name("job", name)
            except ValueError:
                raise UsageError(USAGE) from None
            document = {"request": f"helper-{new_nonce()}", "job": name, "wait_s": SAVE_WAIT_S}
            return "save", document, SAVE_WAIT_S + MARGIN_S
    raise UsageError(USAGE)


def shown(verb: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The part of the guard's answer that the caller gets: no keys, stores, commands or process numbers."""
    if verb == "save":
        return {name: answer.get(name) for name in ("state", "checkpoint", "freeze_s", "size_bytes", "error")}
    if verb == "probe":
        return {"node": answer.get("node"), "version": answer.get("version"), "notice": answer.get("notice")}
    jobs = [{name: job.get(name) for name in _SHOWN} for job in answer.get("jobs", [])]
    return {"node": answer.get("node"), "notice": answer.get("notice"), "jobs": jobs}


def main(arguments: Sequence[str], ask: Ask) -> int:
    """Carry out one verb; one JSON document on stdout, or one line on stderr."""
    try:
        verb, document, limit_s = plan(arguments)
        answer = ask(verb, document, limit_s)
    except ReprieveError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    refused = answer.get("error") if "state" not in answer else None
    if isinstance(refused, dict):
        sys.stderr.write(f"{refused.get('message')}\n")
        return 1
    sys.stdout.write(json.dumps(shown(arguments[0], answer), ensure_ascii=True) + "\n")
    return 1 if answer.get("state") == "failed" else 0


def guard_of(layout: Layout) -> Ask:
    """Calls of the guard at a root."""
    from backends.guard.server import call

    return lambda verb, document, limit_s: call(layout.socket, verb, document, limit_s)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], guard_of(layout_here())))
