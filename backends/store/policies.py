"""Least-privilege policies for a store, as its provider writes them: examples to copy, not applied by anything.

A node reads and creates; it never deletes, never overwrites (but the hint `latest` and its leases), and writes no claims. A controller
(a console, `reprieve watch`) reads, creates, replaces heartbeats and deletes by retention.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from backends.store.objects.address import SCHEMES, Address, parse

GENERAL = (
    "controllers (consoles, `reprieve watch`): read, list, create, replace, delete",
    "nodes: read and list; create under jobs/<uid>/packs, files and checkpoints; never delete, never epochs/",
)


@dataclass(frozen=True)
class Policy:
    """One example."""

    role: str  # node or controller
    text: str  # a JSON policy document, or commands
    note: str  # what it forbids, and what was proven of it where

    def document(self) -> dict[str, str]:
        """For machine formats."""
        return {"role": self.role, "policy": self.text, "note": self.note}


def policies(url: str) -> tuple[Policy, ...]:
    """Examples for the store at `url`: the node's first; none for `file://`, where directories have modes."""
    if url.partition("://")[0] not in SCHEMES:
        return ()
    address = parse(url)
    return {"s3": _amazon, "gs": _google, "az": _azure}[address.scheme](address)


def _amazon(address: Address) -> tuple[Policy, ...]:
    bucket = f"arn:aws:s3:::{address.bucket}"
    top = f"{bucket}/{address.prefix}/" if address.prefix else f"{bucket}/"
    listing = _allow("List", ["s3:ListBucket"], [bucket])  # without it a missing object reads as a refusal
    parts = [f"{top}jobs/*/{part}" for part in ("packs/*", "files/*", "checkpoints/*/manifest.json")]
    create = _allow("CreateOnly", ["s3:PutObject"], parts)
    create["Condition"] = {"Null": {"s3:if-none-match": "false"}}
    node = [
        listing,
        _allow("Read", ["s3:GetObject"], [f"{top}jobs/*"]),
        create,
        _allow("Hint", ["s3:PutObject"], [f"{top}jobs/*/latest", f"{top}jobs/*/leases/*"]),
    ]
    controller = [listing, _allow("All", ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], [f"{top}*"])]
    return (
        Policy(
            "node",
            _document(node),
            "creates only with If-None-Match, never deletes; AWS's condition key s3:if-none-match was not tried by us on "
            "AWS, and servers other than AWS may not know it",
        ),
        Policy("controller", _document(controller), "everything below the prefix; no bucket settings"),
    )


def _allow(name: str, actions: list[str], resources: list[str]) -> dict[str, Any]:
    return {"Sid": name, "Effect": "Allow", "Action": actions, "Resource": resources}


def _document(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2)


def _google(address: Address) -> tuple[Policy, ...]:
    bind = f"gcloud storage buckets add-iam-policy-binding gs://{address.bucket}"
    names = "(resource.name.endsWith('/latest') || resource.name.extract('/jobs/{uid}/leases/') != '')"
    hints = f"resource.name.startsWith('projects/_/buckets/{address.bucket}/objects/') && {names}"
    node = "\n".join(
        (
            f"{bind} --member=serviceAccount:NODE --role=roles/storage.objectViewer",
            f"{bind} --member=serviceAccount:NODE --role=roles/storage.objectCreator",
            f"{bind} --member=serviceAccount:NODE --role=roles/storage.objectUser \\",
            f'    --condition="title=hints,expression={hints}"',
        )
    )
    controller = f"{bind} --member=serviceAccount:CONTROLLER --role=roles/storage.objectUser"
    return (
        Policy("node", node, "objectCreator neither overwrites nor deletes; not tried by us on Google Cloud"),
        Policy("controller", controller, "objects of the bucket; no bucket settings"),
    )


def _azure(address: Address) -> tuple[Policy, ...]:
    blobs = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
    account = address.account or "ACCOUNT"
    scope = (
        f"/subscriptions/ID/resourceGroups/GROUP/providers/Microsoft.Storage/storageAccounts/{account}"
        f"/blobServices/default/containers/{address.bucket}"
    )
    node = {
        "Name": "Reprieve node",
        "IsCustom": True,
        "Description": "Reads and creates blobs; neither overwrites nor deletes",
        "Actions": [],
        "DataActions": [f"{blobs}/read", f"{blobs}/add/action"],
        "AssignableScopes": [scope],
    }
    controller = f'az role assignment create --role "Storage Blob Data Contributor" --assignee CONTROLLER --scope {scope}'
    return (
        Policy(
            "node",
            json.dumps(node, indent=2),
            "neither overwrites nor deletes, so the hint `latest` stays at the first save and a lease cannot be renewed; a shared access signature with "
            "the permissions `rcl` forbids the same (tested on Azurite; the role was not tried by us on Azure)",
        ),
        Policy("controller", controller, "blobs of the container; no account settings"),
    )
