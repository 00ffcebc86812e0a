"""A recording proxy between boto3 and moto: for what moto cannot do.

Repeated ClientTokens, pools without capacity, throttling, a clock that is off, why a spot machine ended.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.fakehttp import Asked, Reply, serving
from tests.support.motoserver import moto_server

_CREATING = ("RunInstances", "CreateFleet")
_STATE = re.compile(r"<stateReason>\s*<code>[^<]*</code>\s*<message>[^<]*</message>\s*</stateReason>")


@dataclass
class Proxy:
    """What was asked, and what is answered in moto's place. `calls` holds each call's form by its action."""

    upstream: str
    calls: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    answers: dict[str, tuple[str, Reply]] = field(default_factory=dict)  # ClientToken → form, first answer
    short: set[str] = field(default_factory=set)  # instance types or subnets without capacity
    refusals: list[tuple[int, str, str]] = field(default_factory=list)  # each next call is refused by one
    reasons: dict[str, str] = field(default_factory=dict)  # instance → StateReason code once it has ended
    lock: threading.Lock = field(default_factory=threading.Lock)

    def named(self, action: str) -> list[dict[str, str]]:
        """The forms of every call of this action."""
        return [form for name, form in self.calls if name == action]

    def answer(self, asked: Asked) -> Reply:
        form = dict(urllib.parse.parse_qsl(asked.body)) if "x-amz-target" not in asked.headers else {}
        action = form.get("Action") or asked.headers.get("x-amz-target", "").rpartition(".")[2]
        with self.lock:  # one at a time: a repeated token is then never asked twice at once
            self.calls.append((action, form))
            if self.refusals:
                return refusal(*self.refusals.pop(0))
            return self._creating(asked, form) if action in _CREATING else self._plain(asked)

    def _creating(self, asked: Asked, form: dict[str, str]) -> Reply:
        token = form.get("ClientToken", "")
        if form.get("DryRun") == "true":
            return self._plain(asked)
        same = "&".join(sorted(f"{key}={value}" for key, value in form.items()))
        if token in self.answers:
            before, reply = self.answers[token]
            return reply if before == same else refusal(400, "IdempotentParameterMismatch", "another request")
        if {form.get("InstanceType", ""), form.get("SubnetId", "")} & self.short:
            kind = form.get("InstanceType")
            return refusal(
                500, "InsufficientInstanceCapacity", f"We currently do not have sufficient {kind} capacity."
            )
        reply = self._plain(asked)
        self.answers[token] = (same, reply)
        return reply

    def _plain(self, asked: Asked) -> Reply:
        place = urllib.parse.urlsplit(self.upstream)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=120)
        try:
            kept = {k: v for k, v in asked.headers.items() if k not in ("content-length", "connection")}
            connection.request(asked.method, asked.path, asked.body.encode(), kept)
            answer = connection.getresponse()
            body, kind = answer.read().decode(), answer.getheader("Content-Type") or "text/xml"
        finally:
            connection.close()
        return answer.status, kind, self._with_reasons(body)

    def _with_reasons(self, body: str) -> str:
        for instance, code in self.reasons.items():
            before = body.rfind("<stateReason>", 0, max(0, body.find(f"<instanceId>{instance}</instanceId>")))
            if before >= 0:  # moto writes it ahead of the id
                reason = f"<stateReason><code>{code}</code><message>{code}: told by the test</message></stateReason>"
                body = body[:before] + _STATE.sub(reason, body[before:], count=1)
        return body


def refusal(status: int, code: str, message: str) -> Reply:
    """A refusal of EC2 in its own shape."""
    return status, "text/xml", (
        f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>r</RequestID></Response>"
    )  # fmt: skip


@contextlib.contextmanager
def moto_behind_proxy() -> Iterator[Proxy]:
    """A fresh moto server behind a proxy; the environment leads boto3 to the proxy."""
    with moto_server() as environment:
        proxy = Proxy(environment["AWS_ENDPOINT_URL"])
        with serving(proxy.answer) as url:
            os.environ["AWS_ENDPOINT_URL"] = url  # put back with the rest when the server ends
            yield proxy
