"""A host cut off from console and store with a leased job: it stands still there, comes back elsewhere, and never runs twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.test_partitions import watching
from tests.support.cuts import cut
from tests.support.lab import CLOCK, until
from tests.support.reclaims import able_lab

pytestmark = [pytest.mark.lab, pytest.mark.prove]
LEASE = "10s"
PATIENCE_S = 180.0


def test_isolated_from_everybody(tmp_path: Path) -> None:
    with able_lab(tmp_path / "state", 2) as fleet:
        fleet.start("held", "host-a", "--interval", "5s")
        (old,) = fleet.processes("held")
        fleet.cli("jobs", "set", "held", "on_isolated=freeze", f"lease={LEASE}", "--yes")
        leases = f"{fleet.running.layout.store}/jobs/{fleet.show('held')['uid']}/leases/1"
        until("the promise is in the store", Path(leases).exists)
        with watching(fleet):
            fleet.act("partition", host="host-a")
            try:
                with cut(old, fleet.running.layout.store):
                    began = CLOCK.monotonic()
                    until("it stands still", lambda: fleet.processes("held")[old] in "Tt", PATIENCE_S)
                    frozen_s = CLOCK.monotonic() - began
                    until("it runs elsewhere", lambda: len(fleet.processes("held")) == 2, PATIENCE_S)
                    back_s = CLOCK.monotonic() - began
                    print(f"frozen after {frozen_s:.1f} s, another process after {back_s:.1f} s")
                    assert fleet.processes("held")[old] in "Tt"
                    assert back_s > 10 * 1.1 + 15, "never before the promise has come due on any clock"
            finally:
                fleet.act("heal", host="host-a")
            until(
                "the old one is a zombie",
                lambda: fleet.cli("fleet", "show", "host-a").out.count("zombie"),
                PATIENCE_S,
            )
        assert fleet.processes("held")[old] in "Tt", "it returned, saw the newer epoch and stands still"
        (new,) = fleet.running_pids("held")
        assert new != old
        shown = fleet.show("held")
        assert (shown["node"], shown["epoch"]) == ("host-b", 2)
        claim = Path(leases).parent.parent / "epochs" / "2"
        assert '"kind":"lease"' in claim.read_text()
