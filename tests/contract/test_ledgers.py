"""The ledger's contract on a file and on a real PostgreSQL server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.errors import UnreachableError, UsageError
from backends.ledger.open import open_ledger
from tests.contract.ledger_suite import LedgerSuite
from tests.support.objects import UnavailableError
from tests.support.postgres import postgres


class TestSqlite(LedgerSuite):
    """A file."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("psycopg", reason="psycopg is not installed: the extra reprieve[postgres]")
    try:
        with postgres() as url:
            yield url
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.stores
class TestPostgres(LedgerSuite):
    """A server; each test has a schema of its own."""

    @pytest.fixture(autouse=True)
    def _empty(self, server: str, request: pytest.FixtureRequest) -> None:
        import psycopg

        name = f"t{abs(hash(request.node.nodeid)) % 10**12}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
        self.url = server.rpartition("/")[0] + "/" + name

    def test_a_lost_session_is_opened_again(self, tmp_path: Path) -> None:
        import psycopg

        ledger = open_ledger(tmp_path, self.url)
        assert self.url is not None
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            )
        with pytest.raises(UnreachableError, match=r"ledger 127\.0\.0\.1/t\d+ does not answer"):
            ledger.jobs()
        assert ledger.jobs() == {}
        ledger.close()

    def test_a_newer_version_is_refused(self, tmp_path: Path) -> None:
        import psycopg

        assert self.url is not None
        open_ledger(tmp_path, self.url).close()
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("UPDATE reprieve_ledger SET version = 99")
        with pytest.raises(UsageError, match="version"):
            open_ledger(tmp_path, self.url)


@pytest.mark.parametrize(
    "url", ["mysql://h/d", "postgresql://h", "postgresql://u:secret@h/d", "postgresql://h/d?password=x"]
)
def test_a_url_that_cannot_be_used_is_one_line_without_its_secret(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        open_ledger(tmp_path, url)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: the extra reprieve[postgres]")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refused at once
        with pytest.raises(UnreachableError) as caught:
            open_ledger(tmp_path, f"postgresql://u@127.0.0.1:{taken.getsockname()[1]}/d")
    assert "does not answer" in caught.value.message
    assert "\n" not in caught.value.message
