"""The reclaim rate that guards are told."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from backends.clouds.aws import advisor_cache
from backends.clouds.aws.advisor import AdvisorPool, Band, Feed
from backends.fakes.clock import run
from backends.ledger.records import Reclaim
from console.operations.common.rates import job_rate, rate_of, reclaims_of, tell_rate
from console.operations.flows.upkeep import Upkeep
from planner.hazards import rate_of_share
from tests.support.operations import Practice

POOL = "aws/us-east-1/p5.48xlarge/linux"


def loss(uid: str, node: str, at: float, outcome: str = "restored", cause: str = "reclaim") -> Reclaim:
    return Reclaim(
        f"{uid}/{at}/{outcome}", at, uid, uid, node, None, None, None, None, None, None, None, None, None,
        cause=cause, outcome=outcome, pool=POOL,
    )  # fmt: skip


def test_a_reclaim_is_of_a_node_whatever_became_of_its_jobs() -> None:
    together = [loss("a", "n1", 100.0), loss("b", "n1", 102.0)]
    assert reclaims_of(together, {"n1"}) == 1
    failed_then_back = [loss("a", "n1", 100.0, "failed"), loss("a", "n1", 5000.0)]
    assert reclaims_of(failed_then_back, {"n1"}) == 1
    never_back = [loss("a", f"n{number}", 100.0 * number, "failed") for number in range(5)]
    assert reclaims_of(never_back, set(), POOL) == 5
    twice = [loss("a", "n1", 100.0), loss("a", "n1", 9000.0)]
    assert reclaims_of(twice, {"n1"}) == 2
    assert reclaims_of([loss("a", "n1", 1.0, cause="move")], {"n1"}) == 0
    assert reclaims_of([loss("a", "n1", 1.0)], {"n2"}, "another/pool") == 0


def test_nothing_known_is_no_rate() -> None:
    assert rate_of(None, 0.0, 0) is None


def test_a_band_alone_is_a_range() -> None:
    rate = rate_of((0.001, 0.002), 0.0, 0, "published band 5-10%")
    assert rate == {"per_hour": 0.002, "low": 0.001, "high": 0.002, "source": "published band 5-10%"}


def test_own_history_overrules_a_band_that_is_far_too_low() -> None:
    rate = rate_of((1e-5, 7e-5), 100.0, 30, "published band <5%")
    assert rate is not None
    assert rate["per_hour"] == pytest.approx(0.3, rel=0.1)
    assert rate["low"] < rate["per_hour"] < rate["high"]
    assert "30 reclaims in 100 node-hours" in rate["source"]


@pytest.fixture
def practice(tmp_path: Path) -> Practice:
    return Practice(tmp_path, pool=POOL)


def test_a_pulled_band_is_found_for_the_pool(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    fleet = practice.fleet()
    assert job_rate(fleet, job) is None
    band = Band("5-10%", 0.05, 0.1)
    pool = AdvisorPool("us-east-1", "linux", "p5.48xlarge", band, 0.6, 192, 2048.0)
    advisor_cache.save(fleet.context.cache, Feed((pool,), "file", "", "", "", (), ()), None)
    rate = job_rate(fleet, job)
    assert rate is not None
    assert rate["high"] == pytest.approx(rate_of_share(0.1, "month"))


def test_the_guard_is_told_once_an_epoch_and_only_for_auto(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    fleet = practice.fleet("controller")
    fleet.ledger.add_observed("n0", POOL, 36000.0)
    told: list[dict[str, object]] = []

    def heard(document: dict[str, object]) -> dict[str, object]:
        told.append(document)
        return {}

    practice.nodes["n0"].on_verb["set"] = heard

    assert run(practice.clock, tell_rate(fleet, job)) is None, "its interval is the operator's"
    practice.records.put_job(dataclasses.replace(job, interval_s=None))
    upkeep = Upkeep(fleet, lambda text: None, lambda uid, text: None, scrub_every_s=0.0)

    async def look() -> None:
        from console.operations.flows.watch import Watch

        watch = Watch(fleet, lambda text: None)
        await watch.look()
        await upkeep.round()
        await upkeep.round()
        await watch.close()

    run(practice.clock, look())
    assert len(told) == 1
    rate = told[0]["changes"]["reclaim_rate"]  # type: ignore[index]  # a document
    assert 0 < rate["low"] < rate["per_hour"] < rate["high"]
    assert "10 node-hours" in rate["source"]
