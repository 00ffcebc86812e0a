"""URLs signed in advance (AWS Signature Version 4 in the query), for one object, one method and one condition."""

from __future__ import annotations

import hashlib
import hmac
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field

from tests.support.objects import ADMIN, BUCKET, REGION, Identity, S3Server


@dataclass(frozen=True)
class Signed:
    """What a controller hands out: the URL, and the headers that it is valid with."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)


def presign(
    server: S3Server, method: str, key: str, *, seconds: int = 600, who: Identity = ADMIN, **headers: str
) -> Signed:
    """Sign one request; `headers` (underscores for hyphens) become part of what is signed."""
    host = server.endpoint.partition("://")[2]
    named = {"host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    stamp, names = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), ";".join(sorted(named))
    scope = f"{stamp[:8]}/{REGION}/s3/aws4_request"
    query = urllib.parse.urlencode(
        {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{who.access}/{scope}", "X-Amz-Date": stamp,
            "X-Amz-Expires": str(seconds), "X-Amz-SignedHeaders": names,
        }, quote_via=urllib.parse.quote,
    )  # fmt: skip
    path = f"/{BUCKET}/{key}"
    lines = "".join(f"{name}:{named[name]}\n" for name in sorted(named))
    canonical = "\n".join((method, path, query, lines, names, "UNSIGNED-PAYLOAD"))
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    secret = f"AWS4{who.secret}".encode()
    for part in (*scope.split("/"), text):
        secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
    url = f"{server.endpoint}{path}?{query}&X-Amz-Signature={secret.hex()}"
    return Signed(method, url, {name: value for name, value in named.items() if name != "host"})


def send(
    signed: Signed, body: bytes = b"", *, method: str | None = None, bare: bool = False
) -> tuple[int, bytes]:
    """Use it as a process without any credentials would; `bare` leaves the signed headers out."""
    request = urllib.request.Request(
        signed.url, data=body or None, method=method or signed.method, headers={} if bare else signed.headers
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
