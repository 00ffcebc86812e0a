"""Opening a fleet on the real world: SSH, the fleet's files, its stores, providers and keys."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.clouds.port import Cloud
from backends.compat import gate as compat_gate
from backends.errors import ReprieveError
from backends.ledger.open import open_ledger, open_locks
from backends.nodes.ssh import LinkPool
from backends.records import strict
from backends.records.facts import Facts
from backends.records.fingerprint import read_fingerprint
from backends.records.node import Node
from backends.schedulers.skypilot import SkyPilot
from backends.schedulers.slurm import Slurm
from backends.store.open import open_store
from backends.store.port import ObjectStore
from backends.xdg import private
from console.operations.context import KNOWN_HOSTS, Context
from console.operations.decide.placement import GateAnswer
from console.operations.fleet import Fleet
from console.operations.real.installer import SshInstaller
from console.operations.real.keys import FileKeys
from console.operations.real.store_truth import StoreTruth
from console.operations.real.toml_records import TomlRecords
from console.operations.truth import Truth


def open_fleet(
    context: Context, clock: Clock, role: str = "console", *, version: str = "0", attend: bool = False
) -> Fleet:
    """The fleet of `context`; nothing is contacted before the first call.

    Args:
        context: where its files are.
        clock: time.
        role: what this program is in claims and heartbeats, with this machine's name: `console`, `watch`.
        version: told to guards that are installed.
        attend: keep a channel open on each node, for a program that looks at them all the time.

    Raises:
        UsageError: the fleet's files are wrong. ReprieveError: the ledger cannot be used.
    """
    who = re.sub(r"[^A-Za-z0-9._-]", "-", f"{role}-{os.uname().nodename}")[:60]
    private(context.state)
    records, keys = TomlRecords(context.fleet), FileKeys(context.state)
    store = context.store or records.inventory().store
    if store != context.store:
        context = Context(**{**context.__dict__, "store": store})
    hosts = (context.state / KNOWN_HOSTS, Path.home() / ".ssh" / "known_hosts")
    config = Path.home() / ".ssh" / "config"
    pool = LinkPool(
        known_hosts=hosts, clock=clock, ssh_config=config if config.exists() else None, attend=attend
    )
    return Fleet(
        context,
        clock,
        open_ledger(context.state, context.ledger),
        open_locks(context.state, context.ledger),
        records,
        pool,
        _clouds(context, clock, records, keys),
        _truths(keys, who, clock),
        keys,
        gate,
        SshInstaller(pool, context.cache, version),
        who,
        restarters={"slurm": Slurm(), "skypilot": SkyPilot()},
    )


def _truths(keys: FileKeys, who: str, clock: Clock) -> Callable[[str], Truth]:
    stores: dict[str, ObjectStore] = {}

    def truth_at(url: str) -> Truth:
        if url not in stores:
            stores[url] = open_store(url)
        return StoreTruth(stores[url], keys.fleet_key(), who, clock)

    return truth_at


def _clouds(
    context: Context, clock: Clock, records: TomlRecords, keys: FileKeys
) -> Callable[[Node], Cloud | None]:
    made: dict[str, Cloud] = {}
    fenced: dict[tuple[object, ...], Cloud] = {}

    def cloud_of(node: Node) -> Cloud | None:
        """Who can be asked about the machine of `node`: its provider, its fence command, both, or None."""
        if not node.fence:
            return provider_of(node)
        from backends.clouds.fence import FencedCloud

        key = (node.name, node.instance, node.fence)
        if key not in fenced:
            fenced[key] = FencedCloud(clock, provider_of(node))
        return fenced[key]

    def provider_of(node: Node) -> Cloud | None:
        if node.provider == "practice" and context.practice_socket is not None:
            from backends.clouds.practice.cloud import PracticeCloud

            return PracticeCloud(context.practice_socket, clock)
        if node.provider in ("aws", "gcp", "azure") and node.provider not in made:
            made[node.provider] = lender_of(node.provider)
        if node.provider == "runpod" and node.provider not in made:
            from backends.clouds.markets.runpod import RunPodCloud

            made["runpod"] = RunPodCloud(clock)
        if node.provider == "vast" and node.provider not in made:
            from backends.clouds.markets.vast import VastCloud

            made["vast"] = VastCloud(clock)
        if node.provider == "kubernetes" and node.provider not in made:
            from backends.clouds.kubernetes.cloud import KubernetesCloud

            made["kubernetes"] = KubernetesCloud(clock)
        if node.provider == "slurm" and node.provider not in made:
            from backends.clouds.slurm.cloud import SlurmCloud

            made["slurm"] = SlurmCloud(clock)
        return made.get(node.provider)

    def lender_of(provider: str) -> Cloud:
        from console.operations.real.prices import price_of

        words: dict[str, Any] = {
            "launches": lambda: {name: pool.launch for name, pool in records.pools().items() if pool.launch},
            "price_of": price_of(context.cache, clock),
            "fleet": lambda: keys.verify_key()[:16],
        }
        if provider == "aws":
            from backends.clouds.aws.cloud import AwsCloud

            return AwsCloud(clock, **words)
        if provider == "gcp":
            from backends.clouds.gcp.cloud import GoogleCloud

            return GoogleCloud(clock, **words)
        from backends.clouds.azure.cloud import AzureCloud

        return AzureCloud(clock, **words)

    return cloud_of


def gate(
    fingerprint: dict[str, Any],
    facts: dict[str, Any],
    overrides: dict[str, str],
    declared: dict[str, str],
) -> GateAnswer:
    """`backends.compat` on documents: the word, and a sentence for each property that is not plainly fine.

    A save without a fingerprint tells nothing that could be compared: everything fits it, with that warning.
    """
    try:
        here = strict.read(Facts, facts, what="facts", ignore_unknown=True)
        if not fingerprint:
            return GateAnswer("warn", ("the checkpoint does not say what it needs",))
        saved = read_fingerprint(fingerprint, what="fingerprint")
    except ReprieveError as error:
        return GateAnswer("unknown", (error.message,))
    result = compat_gate(saved, here, overrides=overrides, declared=declared)
    rows = tuple(
        {name: clean(value) if isinstance(value, str) else value for name, value in row.__dict__.items()}
        for row in result.rows
    )
    if not result.fits:
        return GateAnswer("refuse", tuple(clean(row.message) for row in result.refusals), {}, rows)
    warnings = tuple(clean(row.message) for row in result.warnings)
    return GateAnswer("warn" if warnings else "ok", warnings, result.overridden, rows)
