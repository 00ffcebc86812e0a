"""Wrong uses of the command line: each is told in one line that names the thing, the value and what was expected."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.cli.run import run
from tests.support.cli import clean_environment

USAGE, UNREACHABLE, UNCONFIRMED = 2, 5, 9
FLEET = """
[nodes.n1]
ssh = "root@127.0.0.1:1"

[jobs.known]
node = "n1"
command = ["true"]
"""
CASES: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    # names that are not there are told before anybody is asked for a yes
    ("jobs save nope", USAGE, ("job 'nope' is not in the fleet", "reprieve jobs list")),
    ("jobs move nope --to n1", USAGE, ("job 'nope'",)),
    ("jobs move known --to nowhere", USAGE, ("--to 'nowhere'", "no node or pool")),
    ("jobs rehearse nope", USAGE, ("job 'nope'",)),
    ("jobs stop nope", USAGE, ("job 'nope'",)),
    ("jobs pause nope", USAGE, ("job 'nope'",)),
    ("jobs resume nope", USAGE, ("job 'nope'",)),
    ("jobs unprotect nope", USAGE, ("job 'nope'",)),
    ("jobs remove nope", USAGE, ("job 'nope'",)),
    ("fleet remove n9", USAGE, ("node 'n9' is not in the fleet", "reprieve fleet list")),
    ("fleet cordon n9", USAGE, ("node 'n9'",)),
    ("fleet uncordon n9", USAGE, ("node 'n9'",)),
    ("fleet uninstall n1 n9", USAGE, ("node 'n9'",)),
    ("batch resume nope", USAGE, ("no operation 'nope'", "reprieve operations list")),
    # so are values that cannot be used
    ("jobs set known interval=ten", USAGE, ("interval=ten",)),
    ("jobs set known bogus=1", USAGE, ("'bogus' is no key of a job",)),
    ("jobs set known intervall=5m", USAGE, ("did you mean 'interval'?",)),
    ("jobs protect j --node n1", USAGE, ("--pid, --pid-file, --container, --slurm",)),
    ("jobs protect j --pid 12", USAGE, ("job 'j'", "--node NODE")),
    ("jobs protect j --node n9 --pid 12", USAGE, ("node 'n9'",)),
    ("jobs protect j --node n1 --pid 12 --pid-file f", USAGE, ("--pid and --pid-file", "give one")),
    ("jobs protect j --node n1 --pid 0", USAGE, ("--pid is 0", "at least 1")),
    ("jobs protect j --node n1 --pid 12 --interval 0s", USAGE, ("interval is 0.0 s",)),
    ("jobs protect j --node n1 --pid 12 --done foo", USAGE, ("--done 'foo'", "file=PATH")),
    ("jobs run j --node n1", USAGE, ("no command", "after --")),
    # what is right is still asked for
    ("jobs pause known", UNCONFIRMED, ("--yes",)),
    ("fleet cordon n1", UNCONFIRMED, ("--yes",)),
    # a listing does not look empty because of a typing error
    ("jobs list --state protcted", USAGE, ("--state is 'protcted'", "did you mean 'protected'?")),
    ("fleet list --state bogus", USAGE, ("--state is 'bogus'", "cordoned, late, lost")),
    ("practice up --hosts 99", USAGE, ("--hosts is 99", "2 to 16")),
    ("practice up --hosts 0", USAGE, ("--hosts is 0",)),
    ("demo --headless --hosts 0", USAGE, ("--hosts is 0", "at least 3")),
    ("demo --headless --hosts 17", USAGE, ("--hosts is 17", "at most 16")),
    ("practice reclaim host-a", UNREACHABLE, ("no practice fleet runs in", "reprieve practice up")),
    ("--context practice jobs list", USAGE, ("no practice fleet was started", "reprieve practice up")),
    ("--config HOME jobs list", USAGE, ("is no regular file",)),
    ("--config HOME/table.toml jobs list", USAGE, ("table.toml:1", "fleet is a table; text expected")),
    ("--config HOME/nope.toml jobs list", USAGE, ("nope.toml does not exist",)),
    ("pools pull --feed https://127.0.0.1:1/x", UNREACHABLE, ("no answer (Connection refused)", "--feed")),
    ("fleet add n2 --ssh root@127.0.0.1:1", UNREACHABLE, ("root@127.0.0.1:1", "connection was refused")),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a fleet of one node and one job, and a configuration that is wrong."""
    for name, value in clean_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    place = tmp_path / "config" / "reprieve" / "fleet"
    place.mkdir(parents=True)
    (place / "fleet.toml").write_text(FLEET)
    (tmp_path / "table.toml").write_text('[fleet]\nstore = "file:///x"\n')
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("line", "code", "parts"), CASES, ids=[case[0] for case in CASES])
def test_a_wrong_use_is_told_in_one_line(
    line: str, code: int, parts: tuple[str, ...], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--no-input", *(word.replace("HOME", str(home)) for word in line.split())]
    assert run(argv) == code
    out, err = capsys.readouterr()
    assert out == ""
    told = [said for said in err.splitlines() if not said.startswith("20")]  # progress carries its time
    assert [said.partition(":")[0] for said in told] in (["error"], ["error", "hint"])
    for part in parts:
        assert part in "\n".join(told)
    assert "Errno" not in err
    assert "Traceback" not in err
