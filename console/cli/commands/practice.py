"""`reprieve practice …`: a fleet on this machine to learn and to break, outside the demo."""

from __future__ import annotations

import secrets
import signal
from typing import TYPE_CHECKING, Any

from backends.clouds.practice.client import PracticeClient
from backends.clouds.practice.cloud import node_of
from backends.errors import ReprieveError, UsageError
from backends.practice.layout import Layout, default_directory

if TYPE_CHECKING:
    from console.cli.invocation import Invocation

LEAST_HOSTS, MOST_HOSTS = 2, 16
_LOOK_S = 0.5
_ADD_S = 60.0
_NOTICE_S = 120.0  # what providers give at best
_BARE = (
    "a fleet of your own from them: docs/getting-started.md · take one away: reprieve practice reclaim HOST"
)
_USE = "from another terminal: reprieve --context practice fleet list · reprieve practice reclaim HOST"


def up(invocation: Invocation) -> int:
    """Start a fleet and keep it until Ctrl-C, SIGTERM or `practice down`."""
    from backends.practice.launch import start

    # A shell without job control starts background jobs with SIGINT ignored: what ends the fleet must be heard there too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    typed = invocation.arguments
    hosts, bare = 3 if typed["hosts"] is None else typed["hosts"], bool(typed["bare"])
    if not LEAST_HOSTS <= hosts <= MOST_HOSTS:
        raise UsageError(f"--hosts is {hosts}; {LEAST_HOSTS} to {MOST_HOSTS} are expected")
    layout = Layout(default_directory())
    invocation.progress("starting a practice fleet")
    with start(
        layout.directory,
        hosts,
        typed["mode"] or "auto",
        bare=bare,
        clock=invocation.clock,
    ) as running:
        description = running.describe()
        invocation.emit(_document(description), _text)
        invocation.say(_BARE if bare else _USE)
        invocation.say("Ctrl-C ends it and everything on it")
        while running.daemon.alive:
            invocation.clock.sleep(_LOOK_S)
    invocation.say("the practice fleet has ended")
    return 0


def down(invocation: Invocation) -> int:
    """End the fleet that runs, from any terminal."""
    from backends.practice.launch import end

    if end(default_directory(), invocation.clock):
        invocation.say("the practice fleet has ended")
    else:
        invocation.say("no practice fleet runs")
    return 0


def status(invocation: Invocation) -> int:
    """Show the fleet and its hosts."""
    invocation.emit(_document(_client().call("describe")), _text)
    return 0


def reclaim(invocation: Invocation) -> int:
    """Take a host: at once, or announced."""
    typed = invocation.arguments
    host = _client().call("reclaim", host=typed["name"], notice_s=typed["notice"])
    when = "was taken" if host["state"] == "terminated" else f"will be taken at {host['notice_at']}"
    return _told(invocation, host, f"{host['name']} {when}")


def notice(invocation: Invocation) -> int:
    """Announce a reclaim that does not come."""
    host = _client().call("notice", host=invocation.arguments["name"], notice_s=_NOTICE_S)
    return _told(invocation, host, f"{host['name']}: its metadata endpoint announces {host['notice_at']}")


def partition(invocation: Invocation) -> int:
    """Cut a host off; it runs on."""
    host = _client().call("partition", host=invocation.arguments["name"])
    return _told(invocation, host, f"{host['name']} is cut off: it runs on, and answers nobody")


def heal(invocation: Invocation) -> int:
    """End a partition."""
    host = _client().call("heal", host=invocation.arguments["name"])
    return _told(invocation, host, f"{host['name']} answers again")


def add(invocation: Invocation) -> int:
    """One more bare host, with a node record where the fleet has records."""
    layout, client = Layout(default_directory()), _client()
    fields = {"token": secrets.token_hex(8)}
    if invocation.arguments["pool"]:
        fields["pool"] = invocation.arguments["pool"]
    deadline = invocation.clock.monotonic() + _ADD_S
    while True:
        answer = client.call("replace", **fields)
        if answer["state"] != "pending":
            break
        if invocation.clock.monotonic() > deadline:
            raise ReprieveError(
                f"practice host was not ready within {_ADD_S:.0f} s; reprieve practice status tells more"
            )
        invocation.clock.sleep(0.1)
    if answer["state"] == "failed":
        raise ReprieveError(f"no practice host: {answer['reason']}")
    host = answer["host"]
    return _told(invocation, host, _added(layout, host))


def _added(layout: Layout, host: dict[str, Any]) -> str:
    """What to do with a new host; a record is written only into a fleet that has records: one of `up --bare` has none."""
    from backends.inventory.save import add_node

    name = host["name"]
    if not any((layout.fleet / "nodes").glob("*.toml")):
        how = (
            f"fleet add {name} --ssh {host['ssh']} --identity-file {layout.identity} --provider practice "
            f"--instance {host['instance']}"
        )
        return f"{name} is there, bare; into a fleet of your own: reprieve {how}"
    add_node(layout.fleet, node_of(host, layout.identity), replace=True)
    return f"{name} is there, bare: reprieve --context practice fleet install {name}"


def _client() -> PracticeClient:
    return PracticeClient(Layout(default_directory()).control)


def _told(invocation: Invocation, host: dict[str, Any], line: str) -> int:
    if invocation.machine:
        invocation.emit({"schema": "reprieve/practice-host/v1", **host})
    else:
        invocation.say(line)
    return 0


def _document(description: dict[str, Any]) -> dict[str, Any]:
    return {**description, "schema": "reprieve/practice/v1"}


def _text(document: Any) -> str:
    """The fleet for people: one line why it is what it is, one line a host."""
    lines = [f"practice fleet of {len(document['hosts'])} hosts · {document['mode']}: {document['reason']}"]
    for host in document["hosts"]:
        line = f"{host['name']:8} {host['state']:12} {host['ssh']:24} {host['instance']}  {host['pool']}"
        notes = ["cut off"] if host["partitioned"] else []
        notes += [f"ends at {host['notice_at']}"] if host["notice_at"] and not host["ended_at"] else []
        lines.append("  ".join([line, *notes]))
    address = next((host["ssh"] for host in document["hosts"] if not host["ended_at"]), None)
    lines.append(f"key      {document['identity_file']}")
    if address is not None:
        who, _, port = address.rpartition(":")
        lines.append(f"log in   ssh -i {document['identity_file']} -p {port} {who}")
    lines.append(f"store    {document['store_url']}")
    lines.append(f"metrics  {document['metrics']} (as its hosts see it: examples/train.py --metrics)")
    return "\n".join(lines)
