"""Kubernetes as a witness, and its running pods by label: asked by `kubectl`, whose context and login are used. Gone is only what the kubelet said."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.clouds.http import read
from backends.clouds.kubernetes.pods import found_of, name_of, verdict
from backends.clouds.port import Found, InstanceState, Replacement
from backends.errors import CredentialsError, DamagedError, ReprieveError, UnreachableError, UsageError
from backends.records.node import Node

SOURCE = "kubernetes/pods.get"
LIMIT_S = 30.0
_REFUSED = re.compile(r"forbidden|unauthorized|must be logged in|credentials|x509", re.IGNORECASE)

Ask = Callable[[Sequence[str]], dict[str, Any]]  # arguments of kubectl → the JSON object that it prints


class KubernetesCloud:
    """Asks the API server of kubectl's context; see `port.Cloud`."""

    def __init__(self, clock: Clock, ask: Ask | None = None) -> None:
        self._clock, self._ask = clock, kubectl if ask is None else ask

    def instance(self, node: Node) -> InstanceState:
        """What the API server says of this node's pod; never raises. A pod that is not there is `unknown`: deleted by force looks the same."""
        asked = format_utc(self._clock.wall())
        name = name_of(node.instance)
        if name is None:
            reason = f"node {node.name} has no instance of the form NAMESPACE/NAME/UID"
            return InstanceState("unknown", reason, asked, SOURCE)
        try:
            pod = self._ask(("get", "pod", name[1], f"--namespace={name[0]}"))
        except ReprieveError as error:
            return InstanceState("unknown", error.message, asked, SOURCE)
        return InstanceState(*verdict(pod, name[2]), asked, SOURCE)

    def replace(self, pool: str, token: str) -> Replacement:
        """Nothing is created in this version: a Job or StatefulSet starts pods anew."""
        return Replacement(token, "failed", reason=f"no pod is created in this version ({clean(pool)})")

    def running(self, labels: Sequence[tuple[str, str]], region: str | None) -> tuple[Found, ...]:
        """Running pods that have all `labels`, in every namespace, narrowed by region.

        Raises:
            UsageError: no kubectl. CredentialsError, UnreachableError, DamagedError: nobody can be asked, or no list came.
        """
        selector = ",".join(f"{key}={value}" for key, value in labels)
        pods = _items(self._ask(("get", "pods", "--all-namespaces", f"--selector={selector}")))
        machines = {
            str(row.get("metadata", {}).get("name")): row for row in _items(self._ask(("get", "nodes")))
        }
        found = [found_of(pod, machines.get(str(pod.get("spec", {}).get("nodeName")), {})) for pod in pods]
        return tuple(
            each for each in found if each.state == "running" and region in (None, each.pool.split("/")[1])
        )


def _items(document: dict[str, Any]) -> list[dict[str, Any]]:
    rows = document.get("items")
    if not isinstance(rows, list):
        raise DamagedError("kubectl: the answer has no list `items`")
    return [row for row in rows if isinstance(row, dict)]


def kubectl(arguments: Sequence[str]) -> dict[str, Any]:
    """What kubectl prints as JSON.

    Raises:
        UsageError: it is not on this machine. CredentialsError: the API server refused. UnreachableError: any other failure.
        DamagedError: it printed no JSON object.
    """
    argv = ["kubectl", *arguments, "--output=json", f"--request-timeout={LIMIT_S:.0f}s"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=LIMIT_S + 5, check=False)
    except FileNotFoundError:
        raise UsageError("kubectl is not on this machine: Kubernetes is asked by it") from None
    except subprocess.TimeoutExpired:
        raise UnreachableError(f"kubectl gave no answer in {LIMIT_S:.0f} s") from None
    except OSError as error:
        raise UnreachableError(f"kubectl: {clean(error.strerror)}") from None
    if done.returncode == 0:
        return read(done.stdout, "kubectl")
    said = clean(done.stderr.strip()[-300:]) or "it says nothing"
    kind = CredentialsError if _REFUSED.search(said) else UnreachableError
    raise kind(f"kubectl: exit {done.returncode}: {said}")
