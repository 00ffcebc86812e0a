"""A bundle with a guard of ours that is small enough to watch, and a node root on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from backends.nodes.bundle import Bundle, build
from backends.nodes.wheels import Target, own_target

ROOT = Path(__file__).resolve().parents[2]

# Stands for backends.guard.entry: one process with the lock, `status`, `facts`, `shutdown`, `serve --detach`.
ENTRY = """
import fcntl, json, os, signal, subprocess, sys, time
from pathlib import Path
root = Path(os.environ["REPRIEVE_NODE_ROOT"])
lock, pid = root / "state/lock", root / "run/guard.pid"
identity = json.loads((root / "state/guard.json").read_text())

def holder():
    try:
        number = int(pid.read_text())
        os.kill(number, 0)
        return number
    except (OSError, ValueError):
        return None

def say(document):
    print(json.dumps(document))

verb = sys.argv[1]
if verb == "serve" and "--detach" in sys.argv:
    if (root / "run/refuse").exists():
        sys.exit("no guard today")
    subprocess.Popen([sys.executable, "-m", "backends.guard.entry", "serve"], start_new_session=True,
                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
elif verb == "serve":
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    pid.write_text(str(os.getpid()))
    time.sleep(300)
elif verb == "status":
    number = holder()
    say({"node": identity["node"], "pid": number} if number else {"error": {"code": 5, "kind": "unreachable",
        "message": "the guard is not running", "hint": None}})
elif verb == "facts":
    from backends.guard import facts
    from backends.records.strict import to_document
    import blake3, cryptography.hazmat.primitives.ciphers.aead
    say(to_document(facts.collect()))
elif verb == "shutdown":
    if number := holder():
        os.kill(number, signal.SIGKILL)
        pid.unlink()
    say({})
elif verb == "events":
    say({"modules": sorted(sys.modules), "path": sys.path, "file": __file__})
"""


def sources(directory: Path, mark: str = "") -> Path:
    """A copy of the packages with the small guard; another `mark` makes another bundle."""
    place = directory / f"sources{mark}"
    for package in ("planner", "backends"):
        shutil.copytree(ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "backends/guard/entry.py").write_text(f"# {mark}\n{ENTRY}")
    return place


def small_bundle(directory: Path, mark: str = "") -> Bundle:
    """A bundle for this machine's own Python."""
    target = own_target()
    assert isinstance(target, Target), "the tests run on glibc"
    return build(target, directory / "cache", version=f"0.1{mark}", sources=sources(directory, mark))
