"""`watch`: the controller in the foreground, and a trial of its news."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.errors import ReprieveError, StillRunningError, UsageError
from backends.ledger.locks import FileLocks
from console.cli.session import on_fleet
from console.operations.flows.watch import Watch
from console.operations.hooks.news import News, Postman

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet
    from console.operations.hooks.news import Channel

LEAST_S = 1.0  # a look asks every node


def _set_rounds(watch: Watch, rounds: dict[str, float]) -> Watch:
    for name, seconds in rounds.items():
        setattr(watch.upkeep, name, seconds)
    return watch


def run(invocation: Invocation) -> int:
    """`watch [--every D] [--once]`: restores by policy until stopped; starting it is the consent."""
    typed_s = invocation.arguments.get("every")
    every_s = 5.0 if typed_s is None else typed_s
    rounds = {
        name: float(seconds)
        for option, name in (("retain_every", "retain_every_s"), ("scrub_every", "scrub_every_s"))
        if (seconds := invocation.arguments.get(option)) is not None
    }
    if every_s < LEAST_S:
        raise UsageError(f"--every is {every_s:g} s; at least {LEAST_S:g} s is needed")
    port = invocation.arguments.get("metrics_port")
    if port is not None and not 0 <= port < 65536:
        raise UsageError(f"--metrics-port is {port}; a port from 0 to 65535 is expected")
    path = invocation.arguments.get("metrics_file") or invocation.settings.text("metrics_file")
    place = None if path is None else Path(path).expanduser()
    channels = _channels(invocation)
    if invocation.arguments.get("once") or invocation.dry_run:
        return _once(invocation, every_s, rounds)
    invocation.refuse_if_read_only()

    async def forever(fleet: Fleet) -> None:
        log = _log(invocation)
        who = (fleet.context.name, fleet.who, fleet.clock)
        postman = Postman(
            channels, *who, lambda text: log(News(fleet.now_text(), "alert", "news.failed", text))
        )

        def heard(news: News) -> None:
            log(news)
            postman.hear(news)

        watch = _set_rounds(Watch(fleet, lambda _text: None, every_s=every_s, heard=heard), rounds)
        text = f"watching {fleet.context.name} every {every_s:g} s; Ctrl-C stops watching, jobs stay under their guards"
        what = f"the controller of {fleet.context.name}"
        try:
            with FileLocks(fleet.context.state / "locks").only_runner("watch", what):  # one a machine
                watch.say(text, kind="watch.started")
                async with contextlib.AsyncExitStack() as stack:
                    if place is not None or port is not None:
                        await _export(watch, place, port, stack)
                    await watch.run()
        finally:
            await postman.close()

    try:
        on_fleet(invocation, forever, "watch")
    except StillRunningError:
        if not invocation.arguments.get("if_not_running"):
            raise
    return 0


async def _export(
    watch: Watch, path: Path | None, port: int | None, stack: contextlib.AsyncExitStack
) -> None:
    """Begin to put metrics out; `stack` ends it."""
    from console.operations.flows.exporting import Exporter

    exporter = Exporter(watch, path, port)
    if exporter.endpoint is not None:
        await exporter.endpoint.open()
        stack.push_async_callback(exporter.endpoint.close)
        watch.say(f"metrics at http://127.0.0.1:{exporter.endpoint.port}/metrics", kind="watch.metrics")
    task = asyncio.create_task(exporter.run())
    stack.callback(task.cancel)


def _log(invocation: Invocation) -> Any:
    """Each news as one line with its time: JSON under ndjson, else for people."""

    def log(news: News) -> None:
        line = {
            "schema": "reprieve/watch/v1",
            "time": news.time,
            "level": news.level,
            "kind": news.kind,
            "node": news.node,
            "job": news.job,
            "text": news.text,
        }
        if invocation.output == "ndjson":
            invocation.emit_line(line, news.text)
        elif news.level == "alert":
            invocation.warn(f"{news.time} {news.text}")
        else:
            invocation.say(f"{news.time} {news.text}")

    return log


def _once(invocation: Invocation, every_s: float, rounds: dict[str, float]) -> int:
    if not invocation.dry_run:
        invocation.refuse_if_read_only()
    log = _log(invocation)

    async def looked(fleet: Fleet) -> list[dict[str, Any]]:
        watch = Watch(fleet, lambda _text: None, every_s=every_s, dry_run=invocation.dry_run, heard=log)
        try:
            actions = await watch.look() if invocation.dry_run else await watch.once()
            if not invocation.dry_run:
                await _set_rounds(watch, rounds).upkeep.round()
        finally:
            await watch.close()
        rows: list[dict[str, Any]] = [
            {"job": each.job, "action": each.kind, "reason": each.reason} for each in actions
        ]
        if invocation.dry_run:
            for row in rows:
                if row["action"] == "capacity":
                    row["would_ask"] = watch.would_ask(str(row["job"]))
        return rows

    actions = on_fleet(invocation, looked, "watch")
    document = {"schema": "reprieve/watch-look/v1", "actions": actions}
    text = (
        "\n".join(
            f"{each['action']}: {each['job']}: {each['reason']}"
            + (f"\n{json.dumps(each['would_ask'], indent=2)}" if "would_ask" in each else "")
            for each in actions
        )
        or "nothing to do"
    )
    invocation.emit(document, lambda _document: text)
    return 0


def _channels(invocation: Invocation) -> tuple[Channel, ...]:
    """The ways out that the settings name; wrong ones end the command before anything is watched."""
    webhook, command = (invocation.settings.text(name) for name in ("news_webhook_file", "news_command"))
    if webhook is None and command is None:
        return ()
    from console.operations.hooks.channels import channels

    return channels(webhook, command)


def test_alert(invocation: Invocation) -> int:
    """`watch test-alert`: one alert through every channel; exit 1 when one of them fails."""
    channels = _channels(invocation)
    if not channels:
        raise UsageError(
            "there is no channel for news: neither news_webhook_file nor news_command is set",
            hint="set one in config.toml, or as REPRIEVE_NEWS_COMMAND; `reprieve config path` says where",
        )
    invocation.confirm(1, [f"send a test alert by {each.name}" for each in channels], "test-alert")

    async def work(fleet: Fleet) -> list[dict[str, Any]]:
        text = f"test alert from {fleet.who}: news of the fleet {fleet.context.name} arrive here"
        news = News(fleet.now_text(), "alert", "watch.test", text)
        rows = []
        for channel in channels:
            try:
                await channel.send(news.document(fleet.context.name, fleet.who))
                rows.append({"channel": channel.name, "state": "delivered", "reason": ""})
            except ReprieveError as error:
                rows.append({"channel": channel.name, "state": "failed", "reason": error.message})
        return rows

    rows = on_fleet(invocation, work, "watch")
    document = {"schema": "reprieve/test-alert/v1", "items": rows}
    invocation.emit(
        document,
        lambda _document: "\n".join(f"{r['channel']}: {r['state']} {r['reason']}".rstrip() for r in rows),
    )
    return 0 if all(row["state"] == "delivered" for row in rows) else 1
