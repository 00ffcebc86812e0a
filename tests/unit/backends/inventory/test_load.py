"""Reading a fleet: what is understood, and what each fault says."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.errors import UsageError
from backends.inventory.load import files_of, load
from backends.records.job import Attach

_WHOLE = """\
[fleet]
store = "file:///srv/reprieve"

[nodes.gpu-a]
ssh = "ubuntu@10.0.0.4"
provider = "aws"
pool = "aws/us-east-1/p5.48xlarge/linux"
labels = { team = "ml" }

[jobs.llama-ft]
node = "gpu-a"
command = ["python", "train.py"]
engine = "auto"
store = "s3://bucket/reprieve"
hours = 24.0
interval = "auto"
max_freeze = "90s"
max_overhead = "5%"
max_store_usd_per_day = 2
deadline_at = "2026-12-05T00:00:00Z"
files = ["/data/run1"]
runtime = { serving = "vllm 0.20", model = "kimi-k2.6" }
done = { file = "/data/run1/DONE" }
restore = { on-demand-after = "2h" }
priority = 10
on_isolated = "freeze"
lease = "1m30s"

[jobs.attached]
node = "gpu-a"
attach = { pid_file = "/run/train.pid" }
interval = "10m"

[pools."aws/us-east-1/p5.48xlarge/linux".launch]
image = "ami-1"
subnets = ["s-1"]
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_the_fleet_of_the_contract(tmp_path: Path) -> None:
    inventory = load(write(tmp_path / "fleet.toml", _WHOLE))
    node, job = inventory.node("gpu-a"), inventory.job("llama-ft")
    assert (node.ssh, node.provider, node.labels) == ("ubuntu@10.0.0.4", "aws", {"team": "ml"})
    assert (job.command, job.hours, job.interval_s, job.max_freeze_s) == (
        ("python", "train.py"),
        24.0,
        None,
        90.0,
    )
    assert (job.max_overhead, job.max_store_usd_per_day, job.lease_s) == (0.05, 2.0, 90.0)
    assert (job.done_file, job.restore, job.on_isolated) == (
        "/data/run1/DONE",
        "on-demand-after=2h",
        "freeze",
    )
    assert inventory.job("attached").attach == Attach(pid_file="/run/train.pid")
    assert inventory.job("attached").interval_s == 600.0
    assert inventory.pools["aws/us-east-1/p5.48xlarge/linux"].launch == {"image": "ami-1", "subnets": ["s-1"]}
    assert inventory.store == "file:///srv/reprieve"
    assert str(inventory.origins["jobs", "attached"]).endswith("fleet.toml:29")
    assert not inventory.ours("jobs", "attached")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[nodes.a]\nssh = "a"\nlables = {}',
            ":3: unknown key 'lables' in [nodes.a]; did you mean 'labels'?",
        ),
        ('[node.a]\nssh = "a"', ":1: unknown key 'node'; did you mean 'nodes'?"),
        ('[fleet]\n\nstor = "x"', ":3: unknown key 'stor' in [fleet]; did you mean 'store'?"),
        (
            '[jobs.j]\nnode = "a"\nattach = { pidd = 1 }',
            ":3: unknown key 'pidd' in [jobs.j.attach]; did you mean 'pid'?",
        ),
        ('[jobs.j]\nnode = "a"\nattach = {}', ":3: attach names one of"),
        ('[jobs.j]\nnode = "a"\nattach = { pid = 1, slurm = 2 }', ":3: attach names one of"),
        (
            '[jobs.j]\nnode = "a"\ncommand = ["x"]\nattach = { pid = 1 }',
            ":4: job 'j' has both command and attach",
        ),
        ('[jobs.j]\nnode = "a"\ndone = {}', ":3: done needs a file"),
        ('[jobs.j]\ncommand = ["x"]', ":1: [jobs.j] needs node"),
        ("[nodes.a]\npool = 'x'", ":1: [nodes.a] needs ssh"),
        ('[jobs.j]\nnode = "a"\ninterval = 600', ":3: interval of 'j': a duration in quotes with its unit"),
        ('[jobs.j]\nnode = "a"\ninterval = "10"', ":3: interval of 'j': '10' is not a duration"),
        ('[jobs.j]\nnode = "a"\ninterval = "0s"', ":1: interval is 0"),
        ('[jobs.j]\nnode = "a"\nhours = nan', ":3: hours of 'j': a finite number expected, found nan"),
        ('[jobs.j]\nnode = "a"\nhours = -1', ":3: hours of 'j': more than 0 hours expected"),
        ('[jobs.j]\nnode = "a"\npriority = 1.5', ":3: priority of 'j': a whole number expected"),
        ('[jobs.j]\nnode = "a"\nrollback = 1', ":3: rollback of 'j': true or false expected"),
        ('[jobs.j]\nnode = "a"\ncommand = "python x"', ":3: command of 'j': a list of texts expected"),
        ('[jobs.j]\nnode = "a"\nfiles = ["data"]', ":3: files of 'j': absolute paths expected, found 'data'"),
        ('[jobs.j]\nnode = "a"\nengine = "cuda"', ":1: engine 'cuda' is not one of"),
        ('[jobs.j]\nnode = "a"\nrestore = "anywhere"', ":3: restore of 'j': \"owned\""),
        ('[jobs.j]\nnode = "a"\nmax_overhead = 5', ":3: max_overhead of 'j': a share from 0 to 1"),
        (
            '[jobs.j]\nnode = "a"\ndeadline_at = "tomorrow"',
            ":3: deadline_at of 'j': time 'tomorrow' is not RFC 3339",
        ),
        ('[nodes.a]\nssh = "a"\nprovider = "ibm"', ":1: provider 'ibm' is not one of"),
        ('[nodes."a b"]\nssh = "a"', ":1: node name 'a b' is not allowed"),
        (
            '[pools."x".launch]\nimages = 1',
            ":2: unknown key 'images' in [pools.x.launch]; did you mean 'image'?",
        ),
        ("nodes = 3", ":1: [nodes] must be a table"),
        ('[nodes.a]\nssh = "a"\n[nodes.a]\nssh = "b"', "not the TOML expected"),
        ('[nodes.a\nssh = "a"', "(at line 1"),
        ("a = " + "[" * 40 + "]" * 40, "nested deeper than 16"),
        ("a = " + "[" * 5000 + "]" * 5000, "not the TOML expected"),
    ],
)
def test_each_fault_names_file_line_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "fleet.toml", text)
    with pytest.raises(UsageError) as caught:
        load(path)
    assert str(path) in caught.value.message
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_bytes(b'[nodes.a]\nssh = "\xff"\n')
    with pytest.raises(UsageError, match=r"fleet\.toml:2: not UTF-8"):
        load(path)


def test_a_directory_of_files_and_records_beside_a_single_file(tmp_path: Path) -> None:
    write(tmp_path / "d" / "mine.toml", '[nodes.a]\nssh = "a"\n')
    write(tmp_path / "d" / "jobs" / "j.toml", '[jobs.j]\nnode = "a"\n')
    write(tmp_path / "d" / ".hidden" / "x.toml", "broken")
    write(tmp_path / "d" / "notes.txt", "broken")
    inventory = load(tmp_path / "d")
    assert (list(inventory.nodes), list(inventory.jobs)) == (["a"], ["j"])
    single = write(tmp_path / "fleet.toml", '[nodes.a]\nssh = "a"\n')
    write(tmp_path / "fleet.toml.d" / "nodes" / "b.toml", '[nodes.b]\nssh = "b"\n')
    assert list(load(single).nodes) == ["a", "b"]
    assert len(files_of(single)) == 2


def test_a_record_described_twice_names_both_places(tmp_path: Path) -> None:
    write(tmp_path / "one.toml", '[nodes.a]\nssh = "a"\n')
    write(tmp_path / "two.toml", '\n[nodes.a]\nssh = "b"\n')
    with pytest.raises(UsageError, match=r"two\.toml:2: node 'a' is described twice: also in .*one\.toml:1"):
        load(tmp_path)


def test_two_stores_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "one.toml", '[fleet]\nstore = "file:///a"\n')
    write(tmp_path / "two.toml", '[fleet]\nstore = "file:///b"\n')
    with pytest.raises(UsageError, match="the fleet's store is given twice"):
        load(tmp_path)


def test_nothing_there_is_an_empty_fleet_that_says_so(tmp_path: Path) -> None:
    inventory = load(tmp_path / "none")
    assert (inventory.nodes, inventory.files) == ({}, ())
    with pytest.raises(UsageError, match="node 'a' is not in the fleet, which has no nodes yet"):
        inventory.node("a")


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="other formats are not read"):
        load(write(tmp_path / "fleet.yaml", "nodes: []"))


def test_an_absent_name_gets_the_nearest(tmp_path: Path) -> None:
    inventory = load(
        write(tmp_path / "fleet.toml", '[nodes.gpu-a]\nssh = "a"\n[jobs.llama]\nnode = "gpu-a"\n')
    )
    with pytest.raises(UsageError, match=r"node 'gpu-b' is not in the fleet; did you mean 'gpu-a'\?"):
        inventory.node("gpu-b")
    with pytest.raises(UsageError, match=r"job 'lama' is not in the fleet; did you mean 'llama'\?"):
        inventory.job("lama")


def test_two_thousand_nodes_in_one_file(tmp_path: Path) -> None:
    text = "".join(f'[nodes.n{number}]\nssh = "n{number}"\n' for number in range(2000))
    inventory = load(write(tmp_path / "fleet.toml", text))
    assert inventory.origins["nodes", "n1999"].line == 3999


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fleet]\nrent = true\n", "renting needs both max_usd and max_nodes"),
        ('[fleet]\nrent = "yes"\n', "rent: true or false expected"),
        ("[fleet]\nmax_nodes = 0\n", "max_nodes is 0; more than 0"),
        ('[nodes.a]\nssh = "a"\non_unreachable = "shoot"\n', "not one of wait, terminate"),
        ('[nodes.a]\nssh = "a"\nterminate_after = "5s"\n', "at least 60 s"),
        ('[nodes.a]\nssh = "a"\nfence = { }\n', "fence needs a command"),
        ('[nodes.a]\nssh = "a"\nfence = { comand = ["x"] }\n', "command"),
        ('[jobs.a]\nnode = "a"\nstop_when_unpaid = true\n', "needs the job's discount"),
        ('[jobs.a]\nnode = "a"\nstop_after_reclaims = -1\n', "0 or more"),
    ],
)
def test_limits_and_fences_that_are_wrong_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        load(write(tmp_path / "fleet.toml", text))
    assert "fleet.toml" in error.value.message


def test_limits_are_given_once_in_all_files(tmp_path: Path) -> None:
    write(tmp_path / "fleet" / "a.toml", "[fleet]\nrent = true\nmax_usd = 10\n")
    write(tmp_path / "fleet" / "b.toml", "[fleet]\nmax_nodes = 3\n")
    found = load(tmp_path / "fleet").renting
    assert (found.rent, found.on_demand, found.max_usd, found.max_nodes) == (True, False, 10.0, 3)
    write(tmp_path / "fleet" / "c.toml", "[fleet]\nmax_nodes = 4\n")
    with pytest.raises(UsageError, match="max_nodes is given twice: 3 and 4"):
        load(tmp_path / "fleet")
