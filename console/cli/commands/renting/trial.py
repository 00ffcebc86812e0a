"""`reprieve pools test`: try how machines of a pool are launched, without creating one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from backends.errors import UsageError
from console.cli.session import on_fleet

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet


def try_pool(invocation: Invocation) -> int:
    """Show the exact call, ask, try it as the provider's dry run, and keep when it passed."""
    from backends.clouds.port import Launcher, Market
    from backends.inventory.model import Pool
    from backends.records.node import PROVIDERS, Node
    from console.operations.flows.lending import lender

    pool = invocation.arguments["pool"]
    market: Market = "on_demand" if invocation.arguments.get("market") == "on_demand" else "spot"
    provider = pool.partition("/")[0]
    if provider not in PROVIDERS:
        raise UsageError(f"pool {pool!r}: provider/region/type/os is expected")

    def launcher(fleet: Fleet) -> Launcher:
        cloud = lender(fleet, Node("trial", "none", provider))
        if not isinstance(cloud, Launcher):
            raise UsageError(f"nothing is launched at {provider} in this version")
        return cloud

    async def shown(fleet: Fleet) -> dict[str, Any]:
        return launcher(fleet).request(pool, "trial", market=market)

    async def tried(fleet: Fleet) -> str:
        passed = await fleet.blocking(launcher(fleet).test, pool)
        known = fleet.records.pools()[pool]
        fleet.records.put_pool(Pool(pool, {**(known.launch or {}), "tested_at": passed}))
        return passed

    request = on_fleet(invocation, shown)
    lines = [f"try {request['call']} in {request['region']}; nothing is created"]
    lines += json.dumps(
        {key: request[key] for key in ("parameters", "template") if key in request}, indent=2
    ).splitlines()
    invocation.confirm(1, lines, pool)
    passed = on_fleet(invocation, tried)
    document = {"schema": "reprieve/pool-test/v1", "pool": pool, "tested_at": passed, "request": request}
    invocation.emit(
        document,
        lambda _document: f"{pool} can be launched (a trial passed at {passed}; nothing was created)",
    )
    return 0
