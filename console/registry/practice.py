"""`demo` and `practice`: a fleet on this machine to learn and to break."""

from __future__ import annotations

from console.registry.model import Argument, Command, Example

_PRACTICE = "console.cli.commands.practice"
_HOSTS = Argument("hosts", "number of practice hosts, 2 to 16", kind="int", default="3")
_MODE = Argument(
    "mode",
    "how hosts are made: namespaces need root, loopback does not",
    kind="choice",
    choices=("auto", "namespaces", "loopback"),
    default="auto",
)
_HOST = Argument("name", "name of the practice host", kind="node", operand=True, required=True)

COMMANDS: tuple[Command, ...] = (
    Command(
        noun="demo",
        verb="",
        summary="a practice fleet on this machine loses a node and its job comes back",
        handler="console.cli.commands.demo:run",
        arguments=(
            Argument("headless", "play the story without a terminal", kind="flag"),
            Argument("hosts", "number of practice hosts, 3 to 16", kind="int", default="3"),
            _MODE,
            Argument(
                "steps",
                "length of the two jobs in steps, at least 400 (default 700, about a minute; in the console 2100)",
                kind="int",
            ),
        ),
        examples=(
            Example("reprieve demo", "in the console, with a short guide"),
            Example(
                "reprieve demo --headless -o json", "the story as one document; exit 0 when digests match"
            ),
        ),
        details="Everything it starts ends with it: no process, namespace, mount or link is left behind.",
    ),
    Command(
        noun="practice",
        verb="up",
        summary="start a practice fleet and keep it until Ctrl-C",
        handler=f"{_PRACTICE}:up",
        arguments=(_HOSTS, _MODE, Argument("bare", "hosts without guard and without records", kind="flag")),
        examples=(Example("reprieve practice up --hosts 3", "then: reprieve --context practice fleet list"),),
    ),
    Command(
        noun="practice",
        verb="down",
        summary="end the practice fleet and everything on it",
        handler=f"{_PRACTICE}:down",
        examples=(Example("reprieve practice down", "from another terminal"),),
    ),
    Command(
        noun="practice",
        verb="status",
        summary="hosts, addresses and instances of the practice fleet",
        handler=f"{_PRACTICE}:status",
        examples=(Example("reprieve practice status", "what runs, and how to reach it"),),
    ),
    Command(
        noun="practice",
        verb="reclaim",
        summary="take a practice host away, at once or after a notice",
        handler=f"{_PRACTICE}:reclaim",
        arguments=(
            _HOST,
            Argument("notice", "seconds between the notice and the end (default: no notice)", kind="seconds"),
        ),
        examples=(
            Example("reprieve practice reclaim host-b", "silently, at once"),
            Example("reprieve practice reclaim host-b --notice 120", "announced two minutes ahead"),
        ),
    ),
    Command(
        noun="practice",
        verb="notice",
        summary="announce the end of a practice host without taking it",
        handler=f"{_PRACTICE}:notice",
        arguments=(_HOST,),
        examples=(Example("reprieve practice notice host-b", "its metadata endpoint says so"),),
    ),
    Command(
        noun="practice",
        verb="partition",
        summary="cut a practice host off the network; it runs on",
        handler=f"{_PRACTICE}:partition",
        arguments=(_HOST,),
        examples=(
            Example("reprieve practice partition host-b", "no restore follows: nothing proves it is gone"),
        ),
    ),
    Command(
        noun="practice",
        verb="heal",
        summary="end the partition of a practice host",
        handler=f"{_PRACTICE}:heal",
        arguments=(_HOST,),
        examples=(Example("reprieve practice heal host-b", "it answers again"),),
    ),
    Command(
        noun="practice",
        verb="add",
        summary="one more practice host, bare as a new machine",
        handler=f"{_PRACTICE}:add",
        arguments=(Argument("pool", "pool of the new host", kind="pool"),),
        examples=(Example("reprieve practice add", "then: reprieve --context practice fleet install NAME"),),
    ),
)
