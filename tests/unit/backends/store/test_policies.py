"""The example policies: what a node may, what it may not, and that nothing is printed for a directory."""

from __future__ import annotations

import fnmatch
import json

import pytest

from backends.store.policies import GENERAL, policies

UID = "abcdefghij0123456789"
PACK = f"jobs/{UID}/packs/1.1/0"
MANIFEST = f"jobs/{UID}/checkpoints/1.1/manifest.json"
CLAIM = f"jobs/{UID}/epochs/2"


def allowed(text: str, action: str, resource: str, *, conditional: bool = True) -> bool:
    """What a policy of Allow statements says of one request."""
    for statement in json.loads(text)["Statement"]:
        assert statement["Effect"] == "Allow"
        needs = statement.get("Condition", {}).get("Null", {}).get("s3:if-none-match") == "false"
        hit = any(fnmatch.fnmatchcase(resource, pattern) for pattern in statement["Resource"])
        if action in statement["Action"] and hit and (conditional or not needs):
            return True
    return False


@pytest.mark.parametrize("prefix", ["", "/team/fleet"])
def test_amazon_a_node_reads_and_creates_and_nothing_else(prefix: str) -> None:
    node, controller = policies(f"s3://bucket{prefix}?region=eu-west-1")
    top = f"arn:aws:s3:::bucket{prefix}/"
    assert (node.role, controller.role) == ("node", "controller")
    for key in (PACK, MANIFEST):
        assert allowed(node.text, "s3:GetObject", top + key)
        assert allowed(node.text, "s3:PutObject", top + key)
        assert not allowed(node.text, "s3:PutObject", top + key, conditional=False)
        assert not allowed(node.text, "s3:DeleteObject", top + key)
        assert allowed(controller.text, "s3:DeleteObject", top + key)
    for key in (
        CLAIM,
        f"{CLAIM}.continues",
        f"jobs/{UID}/job.json",
        f"jobs/{UID}/checkpoints/1.1/verified",
        "controllers/a",
    ):
        assert not allowed(node.text, "s3:PutObject", top + key)
        assert allowed(controller.text, "s3:PutObject", top + key)
    assert allowed(node.text, "s3:PutObject", f"{top}jobs/{UID}/latest", conditional=False)
    assert allowed(node.text, "s3:ListBucket", "arn:aws:s3:::bucket")
    assert not allowed(node.text, "s3:GetObject", "arn:aws:s3:::bucket-of-others/jobs/x")


def test_google_and_azure() -> None:
    node, controller = policies("gs://bucket/fleet")
    assert "objectCreator" in node.text
    assert "objectAdmin" not in node.text + controller.text
    node, _ = policies("az://box?account=acct")
    document = json.loads(node.text)
    assert [action.rpartition("blobs/")[2] for action in document["DataActions"]] == ["read", "add/action"]
    assert document["AssignableScopes"][0].endswith(
        "/storageAccounts/acct/blobServices/default/containers/box"
    )


def test_a_directory_has_none() -> None:
    assert policies("file:///srv/reprieve") == ()
    assert any("never delete" in line for line in GENERAL)
