"""Metrics in Prometheus' text format: parsed back by rules of their own, unknown without a sample, served on loopback only."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import UsageError
from backends.fakes.clock import run
from backends.ledger.records import Reclaim
from console.operations.flows.exporting import Exporter
from console.operations.flows.watch import Watch
from console.operations.hooks.metrics import Endpoint, metrics_text, write_file
from console.operations.view import FleetView, JobRow
from tests.support.operations import Practice

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (-?[0-9.e+-]+)\Z')


def samples(text: str) -> dict[tuple[str, str], float]:
    """Every sample of a text; fails on a line that is none, on one without its TYPE, and on one given twice."""
    found: dict[tuple[str, str], float] = {}
    typed = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match is not None, line
        assert match.group(1) in typed
        key = (match.group(1), match.group(2) or "")
        assert key not in found
        found[key] = float(match.group(3))
    return found


def job(name: str, risk: float | None = 60.0) -> JobRow:
    return JobRow(
        name, "u", "protected", "", "n0", "criu", 1, 1, "1.1", 1000.0, 60.0, None, 0.5, 1, None, risk, 1000.0
    )


def reclaim(cause: str, lost: float | None) -> Reclaim:
    return Reclaim(
        "k", 1.0, "train", "u", "n0", None, None, lost, lost, 5.0, 0.0, "1.1", "n1", 2, cause=cause
    )


def test_every_figure_has_its_name() -> None:
    view = FleetView("f", 1010.0, (), (job("train"), job("other", None)))
    found = samples(
        metrics_text(view, [reclaim("reclaim", 30.0), reclaim("reclaim", None), reclaim("move", 1.0)], None)
    )
    assert found["reprieve_jobs", 'state="protected"'] == 2
    assert found["reprieve_job_work_at_risk_seconds", 'job="train"'] == 70
    assert ("reprieve_job_work_at_risk_seconds", 'job="other"') not in found, "unknown is no sample, never 0"
    assert found["reprieve_restores_total", 'cause="reclaim",outcome="restored"'] == 2
    assert found["reprieve_reclaim_lost_work_seconds_total", ""] == 30
    assert found["reprieve_reclaim_restore_seconds_total", ""] == 10
    assert ("reprieve_controller_heartbeat_timestamp_seconds", "") not in found


@given(st.lists(st.text(max_size=8), unique=True, max_size=4), st.floats(allow_nan=True) | st.none())
def test_any_name_and_number_gives_lines_that_parse(names: list[str], risk: float | None) -> None:
    rows = tuple(
        job(name.replace("\r", "").translate(dict.fromkeys((11, 12, 28, 29, 30, 133, 8232, 8233))), risk)
        for name in names
    )
    if len({row.name for row in rows}) == len(rows):
        found = samples(metrics_text(FleetView("f", 1010.0, (), rows), [], 1.0))
        assert sum(name == "reprieve_job_checkpoint_timestamp_seconds" for name, _ in found) == len(rows)


def test_the_file_is_replaced_whole_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "reprieve.prom"
    write_file(path, "a 1\n")
    write_file(path, "a 2\n")
    assert path.read_text() == "a 2\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in tmp_path.iterdir()] == ["reprieve.prom"]
    with pytest.raises(UsageError, match="cannot be written"):
        write_file(tmp_path / "absent" / "x.prom", "a 1\n")


async def ask(port: int, request: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    await writer.drain()
    answer = (await reader.read()).decode()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n", "200"),
        ("GET /metrics?x=1 HTTP/1.1\r\nhost: localhost\r\n\r\n", "200"),
        ("GET /metrics HTTP/1.1\r\nHost: [::1]:9\r\n\r\n", "200"),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example:9\r\n\r\n", "403"),
        ("GET /metrics HTTP/1.1\r\n\r\n", "403"),
        ("GET /else HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("nonsense\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /metrics HTTP/1.1\r\n" + "x" * 20000, ""),
    ],
)
def test_the_endpoint_answers_this_machine_only(request_: str, status: str) -> None:
    async def main() -> str:
        endpoint = Endpoint(0)
        endpoint.text = "reprieve_up 1\n"
        await endpoint.open()
        try:
            try:
                return await ask(endpoint.port, request_)
            except ConnectionError:
                return ""
        finally:
            await endpoint.close()

    answer = asyncio.run(main())
    assert answer.startswith(f"HTTP/1.1 {status}" if status else "")
    assert ("reprieve_up 1" in answer) == (status == "200")


def test_a_port_that_is_taken_is_said() -> None:
    async def main() -> None:
        first = Endpoint(0)
        await first.open()
        try:
            with pytest.raises(UsageError, match=f"metrics port {first.port} cannot be used"):
                await Endpoint(first.port).open()
        finally:
            await first.close()

    asyncio.run(main())


def test_what_a_controller_exports(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    practice.running_job("train", "n0")

    async def main() -> str:
        watch = Watch(practice.fleet("controller"), lambda text: None)
        await watch.beat()
        await watch.look()
        text = await Exporter(watch, tmp_path / "reprieve.prom", None).once()
        await watch.close()
        return text

    found = samples(run(practice.clock, main()))
    assert found["reprieve_nodes", 'state="ok"'] == 4
    assert found["reprieve_jobs", 'state="unrehearsed"'] == 1
    assert found["reprieve_job_work_at_risk_seconds", 'job="train"'] >= 0
    assert ("reprieve_controller_heartbeat_timestamp_seconds", "") in found
    assert samples((tmp_path / "reprieve.prom").read_text()) == found
