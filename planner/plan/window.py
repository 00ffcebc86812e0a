"""The notice of a plan: whether a final save fits its window, and what trusting it would change (definition 12)."""

from __future__ import annotations

import math
from typing import Any

from planner import notice
from planner.plan.inputs import PlanInputs


def notice_part(inputs: PlanInputs, interval: dict[str, Any] | None) -> dict[str, Any]:
    """`notice` of the document; `interval` is its part of that name, for Young's interval."""
    transfer, save = inputs.transfer_hours, inputs.save_hours
    hours = transfer if transfer is not None else None if save is None else save + inputs.upload_hours
    found = notice.fit(inputs.notice or 0.0, None if hours is None else hours * 3600.0)
    young = None if interval is None else interval["young_hours"]
    trusted = None if young is None else young / math.sqrt(1.0 - inputs.notice_reliability)
    return {**found._asdict(), "reason": _reason(found), "interval_if_trusted_hours": trusted}


def _reason(found: notice.Fit) -> str:
    if found.save_s is None:
        return "the time of a save is not known: give --size and --bandwidth, or --checkpoint-cost"
    compared = "fits" if found.fits else "does not fit"
    share = f"{notice.USABLE_SHARE:.0%} of the {found.window_s:g} s window, {found.usable_s:.4g} s"
    ending = "" if found.fits else "; leave the last save alone and finish its upload"
    return f"a final save takes {found.save_s:.4g} s and {compared} into {share}{ending}"
