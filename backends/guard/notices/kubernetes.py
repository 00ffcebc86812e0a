"""Notices of Kubernetes: the deletion of the guard's own pod, with the grace that it really has.

Sources: Kubernetes documentation, "Pod lifecycle" (deletionTimestamp = request + grace; a preStop hook counts inside it)
and "Node shutdowns". The pod is read with the token that Kubernetes mounts; its role needs `get` on this pod only.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from backends.clean import clean
from backends.clock import Clock, parse_utc
from backends.errors import ReprieveError, UsageError
from backends.guard.notices.containers import hears_signals
from backends.guard.notices.metadata import BODY_LIMIT, TIMEOUT_S, MetadataService, UnreadableError
from backends.guard.notices.port import Reading, seconds
from backends.records.strict import Document, loads

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NAME_VARIABLE = "REPRIEVE_POD"  # the pod's name, where it is not the host name
GRACE_VARIABLE = "REPRIEVE_NOTICE_S"  # the grace of the pod's manifest, where the pod cannot be read
SHORTEST_S = 15.0  # what a graceful node shutdown leaves an ordinary pod
PERIOD_S = 2.0


class KubernetesNotices:
    """Looks at the guard's pod every two seconds, and takes SIGTERM for what it is."""

    def __init__(
        self,
        clock: Clock,
        environment: Mapping[str, str] | None = None,
        account: Path = ACCOUNT,
        url: str | None = None,
        pid: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._clock = clock
        self._environment = os.environ if environment is None else environment
        self._account = account
        self._url = url
        self._timeout_s = timeout_s
        self._heard = hears_signals(self._environment, os.getpid() if pid is None else pid)

    @property
    def period_s(self) -> float:
        """Gentle on the API server; SIGTERM comes at once anyway."""
        return PERIOD_S

    def read(self) -> Reading:
        """Look at the pod; where it cannot be read, SIGTERM alone must do, if it comes here at all."""
        try:
            return self._verdict(self._pod())
        except UnreadableError as error:
            return Reading("none") if self._heard else Reading("unreadable", str(error))

    def signalled(self) -> Reading | None:
        """SIGTERM of the kubelet: the pod tells how long is left, else its manifest, else the shortest is assumed."""
        try:
            reading = self._verdict(self._pod())
            if reading.state == "notice":
                return reading
        except UnreadableError:
            pass
        return Reading("notice", "SIGTERM to the pod", window_s=self._declared())

    def _declared(self) -> float:
        try:
            told = seconds(float(self._environment.get(GRACE_VARIABLE, "")))
        except ValueError:
            told = None
        return SHORTEST_S if told is None else told

    def _pod(self) -> Document:
        name = self._environment.get(NAME_VARIABLE) or socket.gethostname()
        try:
            token = (self._account / "token").read_text().strip()  # renewed by Kubernetes: read each time
            namespace = (self._account / "namespace").read_text().strip()
            service = MetadataService(self._address(), self._timeout_s, self._context())
        except (OSError, ValueError, UsageError, ssl.SSLError) as error:
            raise UnreadableError(
                f"no Kubernetes service account can be used ({clean(error, limit=80)})"
            ) from None
        if not _plain(name) or not _plain(namespace) or not token.isascii() or not token.isprintable():
            raise UnreadableError(
                "the pod's name, namespace or token has characters that do not belong there"
            )
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        answer = service.ask("GET", f"/api/v1/namespaces/{namespace}/pods/{name}", headers)
        if answer.status != 200:
            raise UnreadableError(f"the Kubernetes API answered {answer.status} for pod {name}")
        try:
            return loads(answer.body, what="pod", limit=4 * BODY_LIMIT)
        except ReprieveError as error:
            raise UnreadableError(error.message) from None

    def _address(self) -> str:
        if self._url is not None:
            return self._url
        host = self._environment.get("KUBERNETES_SERVICE_HOST", "")
        shown = f"[{host}]" if ":" in host else host
        return f"https://{shown}:{self._environment.get('KUBERNETES_SERVICE_PORT', '443')}"

    def _context(self) -> ssl.SSLContext | None:
        if self._url is not None and self._url.startswith("http://"):
            return None
        return ssl.create_default_context(cafile=str(self._account / "ca.crt"))

    def _verdict(self, pod: Document) -> Reading:
        about = pod.get("metadata")
        if not isinstance(about, dict):
            raise UnreadableError("the answer of the Kubernetes API is no pod")
        deleted = about.get("deletionTimestamp")
        if deleted is None:
            return Reading("none")
        grace = seconds(about.get("deletionGracePeriodSeconds"))
        window = self._declared() if grace is None else grace
        try:
            left = parse_utc(deleted) - self._clock.wall() if isinstance(deleted, str) else None
        except UsageError:
            left = None
        return Reading("notice", _reason(pod), left_s=left, window_s=window)


def _plain(name: str) -> bool:
    """Whether it may stand in an address (RFC 1123 names)."""
    return 0 < len(name) <= 253 and name.isascii() and all(char.isalnum() or char in "-." for char in name)


def _reason(pod: Document) -> str:
    status = pod.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == "DisruptionTarget":
            return f"the pod is deleted: {clean(condition.get('reason', ''), limit=60)}"
    return "the pod is deleted"
