"""A hostile process with a node's credentials and keys: raw requests beside our own rules, and what came of each.

`python -m tests.support.hostile` reads one JSON document on standard input and prints one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.objects import BUCKET, Identity, S3Server

ROOT = Path(__file__).resolve().parents[2]
Try = tuple[str, str, str, str]  # method, key, query, body


def run_hostile(order: dict[str, Any], environment: dict[str, str]) -> Any:
    """Let a process of its own do it with this environment; its answer."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    path = os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.hostile"],
        input=json.dumps(order), capture_output=True, text=True, check=False, timeout=120, cwd="/", env={**kept, **environment, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def s3(order: dict[str, Any]) -> list[int]:
    """HTTP status of each request, signed with the node's keys and without any condition."""
    who = Identity("node", os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
    server = S3Server(order["endpoint"])
    return [
        server.call(method, f"/{BUCKET}/{key}" if key else f"/{BUCKET}", query, body.encode(), who)[0]
        for method, key, query, body in order["tries"]
    ]


def azure(order: dict[str, Any]) -> list[int]:
    """HTTP status of each request with the node's shared access signature."""
    found = []
    for method, key, query, body in order["tries"]:
        signed = "&".join(filter(None, (query, os.environ["AZURE_STORAGE_SAS_KEY"])))
        request = urllib.request.Request(
            f"{order['endpoint']}/{BUCKET}/{key}?{signed}",
            data=body.encode() if method in ("PUT", "POST") else None,
            method=method,
            headers={"x-ms-blob-type": "BlockBlob", "x-ms-version": "2021-12-02"},
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                found.append(response.status)
        except urllib.error.HTTPError as error:
            with error:
                found.append(error.code)
    return found


def main() -> None:
    """Do what is asked for."""
    order = json.loads(sys.stdin.read())
    print(json.dumps({"s3": s3, "azure": azure}[order["do"]](order)))


if __name__ == "__main__":
    main()
