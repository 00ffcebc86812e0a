"""Kubernetes as a witness and a place to discover, on recorded shapes of the API server's answers; no cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from backends.clouds.kubernetes.cloud import KubernetesCloud, kubectl
from backends.clouds.port import InstanceState
from backends.errors import CredentialsError, DamagedError, UnreachableError, UsageError
from backends.fakes.clock import FakeClock
from backends.records.node import Node
from console.cli.commands.fleet_discover import planned

UID = "0b0c0d0e-0000-4000-8000-00000000000a"
OTHER = UID.replace("a", "b")
INSTANCE = f"ml/train-0/{UID}"


def pod(
    phase: str,
    *,
    ended: bool = False,
    reason: str | None = None,
    why: str | None = None,
    uid: str = UID,
    **more: Any,
) -> dict[str, Any]:
    """A pod as `kubectl get pod -o json` prints it, cut to what is read."""
    state = (
        {"terminated": {"exitCode": 137, "finishedAt": "2026-12-01T00:00:00Z"}} if ended else {"running": {}}
    )
    conditions = [{"type": "Ready", "status": "False"}]
    conditions += [{"type": "DisruptionTarget", "status": "True", "reason": why}] if why else []
    return {
        "metadata": {"namespace": "ml", "name": "train-0", "uid": uid, "labels": {"app": "train"}, **more},
        "spec": {"nodeName": "ip-10-0-0-9"},
        "status": {"phase": phase, "podIP": "10.1.0.7", "containerStatuses": [{"state": state}], "conditions": conditions,
                   **({"reason": reason} if reason else {})},
    }  # fmt: skip


def said(answer: dict[str, Any] | Exception, instance: str | None = INSTANCE) -> InstanceState:
    def ask(arguments: Sequence[str]) -> dict[str, Any]:
        assert tuple(arguments) == ("get", "pod", "train-0", "--namespace=ml")
        if isinstance(answer, Exception):
            raise answer
        return answer

    return KubernetesCloud(FakeClock(), ask).instance(Node("n", "u@h", "kubernetes", None, instance))


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (pod("Running"), "running"), (pod("Pending"), "running"),
        (pod("Running", deletionTimestamp="2026-12-01T00:00:30Z"), "stopping"),
        (pod("Failed", ended=True), "terminated"), (pod("Succeeded", ended=True), "terminated"),
        (pod("Failed", ended=True, reason="Terminated", why="TerminationByKubelet"), "terminated"),
        (pod("Failed", ended=True, why="PreemptionByScheduler"), "terminated"),
        (pod("Failed"), "unknown"),  # the kubelet never wrote an end
        (pod("Failed", ended=True, why="DeletionByPodGC"), "unknown"), (pod("Running", reason="NodeLost"), "unknown"),
        (pod("Unknown"), "unknown"), (pod("Running", uid=OTHER), "unknown"), ({}, "unknown"),
    ],
)  # fmt: skip
def test_gone_is_only_what_the_kubelet_said(answer: dict[str, Any], state: str) -> None:
    assert said(answer).state == state


def test_what_cannot_be_told_is_never_gone() -> None:
    for error in (UnreachableError("kubectl: exit 1: NotFound"), CredentialsError("kubectl: forbidden")):
        assert (said(error).state, said(error).reason) == ("unknown", error.message)
    for instance in (None, "train-0", "ml/train-0", f"ml/--x/{UID}", f"../x/{UID}"):
        assert "NAMESPACE/NAME/UID" in said({}, instance).reason


def test_running_pods_are_found_by_label_with_the_pool_of_their_machine() -> None:
    labels = {"topology.kubernetes.io/region": "us-east-1", "topology.kubernetes.io/zone": "us-east-1a", "kubernetes.io/os": "linux",
              "node.kubernetes.io/instance-type": "g5.xlarge", "karpenter.sh/capacity-type": "spot"}  # fmt: skip
    asked = []

    def ask(arguments: Sequence[str]) -> dict[str, Any]:
        asked.append(tuple(arguments))
        if arguments[1] == "nodes":
            return {"items": [{"metadata": {"name": "ip-10-0-0-9", "labels": labels}}]}
        return {
            "items": [
                pod("Running"),
                pod("Failed", ended=True),
                {**pod("Running", name="train-1"), "spec": {}},
            ]
        }

    cloud = KubernetesCloud(FakeClock(), ask)
    found = cloud.running([("app", "train")], None)
    assert [(each.name, each.pool, each.spot) for each in found] == [
        ("train-0", "kubernetes/us-east-1/g5.xlarge/linux", True), ("train-1", "kubernetes/any/unknown/linux", False)]  # fmt: skip
    assert asked[0] == ("get", "pods", "--all-namespaces", "--selector=app=train")
    assert [each.name for each in cloud.running([("app", "train")], "us-east-1")] == ["train-0"]
    ((_, node), _) = planned(found, {}, "root", None, None, "kubernetes")
    assert node is not None
    assert (node.ssh, node.instance) == ("root@10.1.0.7", INSTANCE)
    with pytest.raises(DamagedError, match="no list"):
        KubernetesCloud(FakeClock(), lambda arguments: {}).running([], None)


def test_kubectl_that_is_missing_or_refused_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="not on this machine"):
        kubectl(("get", "nodes"))
    tool = tmp_path / "kubectl"
    for text, kind in (
        ('echo "Error from server (Forbidden): pods is forbidden" >&2; exit 1', CredentialsError),
        ('echo "Unable to connect to the server: dial tcp" >&2; exit 1', UnreachableError), ("echo []", DamagedError),
    ):  # fmt: skip
        tool.write_text(f"#!/bin/sh\n{text}\n")
        tool.chmod(0o755)
        with pytest.raises(kind):
            kubectl(("get", "nodes"))
    tool.write_text('#!/bin/sh\necho "{\\"argv\\": \\"$*\\"}"\n')
    assert kubectl(("get", "nodes")) == {"argv": "get nodes --output=json --request-timeout=30s"}
