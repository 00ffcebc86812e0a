"""`watch` as a program: structured log, a second one refused, and the trial of its news."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from backends.ledger.locks import FileLocks
from tests.support.cli import MAIN, ROOT, clean_environment, reprieve


def pager(tmp_path: Path, text: str) -> dict[str, str]:
    script = tmp_path / "page"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o700)
    return {"REPRIEVE_NEWS_COMMAND": str(script)}


def test_test_alert_goes_through_every_channel(tmp_path: Path) -> None:
    done = reprieve(
        tmp_path, "watch", "test-alert", "--yes", "-o", "json", environ=pager(tmp_path, 'cat > "$0.got"')
    )
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["schema"] == "reprieve/test-alert/v1"
    assert document["items"][0]["state"] == "delivered"
    got = json.loads((tmp_path / "page.got").read_text())
    assert (got["level"], got["schema"]) == ("alert", "reprieve/news/v1")


def test_a_channel_that_fails_is_exit_1_and_none_is_exit_2(tmp_path: Path) -> None:
    done = reprieve(
        tmp_path, "watch", "test-alert", "--yes", environ=pager(tmp_path, "echo pager is off; exit 4")
    )
    assert done.code == 1
    assert "exit 4: pager is off" in done.out
    done = reprieve(tmp_path, "watch", "test-alert", "--yes")
    assert done.code == 2
    assert "news_webhook_file" in done.err


def test_a_second_controller_here_is_refused(tmp_path: Path) -> None:
    with FileLocks(tmp_path / "state" / "reprieve" / "locks").only_runner("watch", "watch"):
        done = reprieve(tmp_path, "watch", "-o", "ndjson")
    assert done.code == 7
    assert "the controller of default is being worked on" in done.err


def test_the_log_is_one_json_document_a_line_with_time_and_level(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", MAIN, "watch", "-o", "ndjson", "--metrics-port", "0"],
        cwd=ROOT, env=clean_environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        lines = [json.loads(child.stdout.readline()) for _ in range(2)]
    finally:
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)
    assert [line["kind"] for line in lines] == ["watch.started", "watch.metrics"]
    assert all(line["schema"] == "reprieve/watch/v1" and line["level"] == "info" for line in lines)
    assert lines[0]["time"].endswith("Z")
    assert child.returncode == 143


def test_install_shows_everything_first_and_a_running_one_is_left_alone(tmp_path: Path) -> None:
    program = tmp_path / "reprieve"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    done = reprieve(tmp_path, "watch", "install", "--form", "systemd", "--program", str(program), "--dry-run")
    assert done.code == 0, done.err
    assert f'ExecStart="{program}"' in done.err
    assert "reprieve-watch.service" in done.err
    done = reprieve(tmp_path, "watch", "install", "--form", "cron", "--program", str(program), "--dry-run")
    assert "@reboot setsid" in done.err
    with FileLocks(tmp_path / "state" / "reprieve" / "locks").only_runner("watch", "watch"):
        assert reprieve(tmp_path, "watch", "--if-not-running").code == 0
