"""A loopback Compute Engine: instances, operations, disks and labels that change as the real one's do. Shapes: REST reference v1."""

from __future__ import annotations

import contextlib
import json
import os
import re
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from backends.clock import SystemClock, format_utc
from tests.support.fakehttp import Asked, Reply, serving

PROJECT, REGION = "ml-p", "us-central1"
IMAGE, OTHER_IMAGE = (f"projects/ml-p/global/images/train-{number}" for number in (1, 2))
SUBNET = f"projects/{PROJECT}/regions/{REGION}/subnetworks/default"
_ROOT = "/compute/v1/"


@dataclass
class Google:
    """Answers requests; tests set what is short and what is refused."""

    instances: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # (zone, name)
    disks: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    operations: list[dict[str, Any]] = field(default_factory=list)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)  # request id → its operation
    short: set[str] = field(default_factory=set)  # zones and types that have nothing
    kinds: set[str] = field(default_factory=lambda: {"g2-standard-8", "g2-standard-12", "g2-standard-16"})
    asked: list[Asked] = field(default_factory=list)
    refusal: tuple[int, dict[str, Any]] | None = None  # of every call but that for a token
    token: tuple[int, dict[str, Any]] = (200, {"access_token": "t0k", "expires_in": 3599})
    count: int = 100

    def __call__(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        status, body = self._answer(asked)
        return status, "application/json", json.dumps(body)

    def created(self) -> list[dict[str, Any]]:
        """The bodies of all creating calls, repeated ones once."""
        seen: dict[str, dict[str, Any]] = {}
        for asked in self.asked:
            query = urllib.parse.parse_qs(asked.path.partition("?")[2])
            if asked.method == "POST" and "requestId" in query:
                seen.setdefault(
                    query["requestId"][0], {"path": asked.path.removeprefix(_ROOT), **json.loads(asked.body)}
                )
        return list(seen.values())

    def _answer(self, asked: Asked) -> tuple[int, dict[str, Any]]:
        path, _, text = asked.path.partition("?")
        query = {key: values[0] for key, values in urllib.parse.parse_qs(text).items()}
        if path.endswith("/token"):
            return self.token
        if self.refusal is not None:
            return self.refusal
        if asked.headers.get("authorization") != "Bearer t0k":
            return 401, {"error": {"code": 401, "status": "UNAUTHENTICATED"}}
        parts = path.removeprefix(_ROOT).split("/")
        what = "/".join(parts[2:])
        if asked.method == "POST":
            return self._post(what, asked.body, query.get("requestId", ""))
        if match := re.fullmatch(r"zones/([^/]+)/(instances|disks)/([^/]+)", what):
            return self._one(asked.method, match[2], (match[1], match[3]))
        return self._listed(parts, what, query)

    def _post(self, what: str, body: str, request: str) -> tuple[int, dict[str, Any]]:
        if match := re.fullmatch(r"zones/([^/]+)/instances", what):
            return self._insert(match[1], json.loads(body), request)
        if re.fullmatch(r"regions/[^/]+/instances/bulkInsert", what):
            return self._bulk(json.loads(body), request)
        if match := re.fullmatch(r"zones/([^/]+)/instances/([^/]+)/stop", what):
            self.instances[match[1], match[2]]["status"] = "TERMINATED"
            return 200, {"status": "RUNNING"}
        return 404, {}

    def _one(self, method: str, what: str, key: tuple[str, str]) -> tuple[int, dict[str, Any]]:
        row = (self.instances if what == "instances" else self.disks).get(key)
        if row is None:
            return 404, {"error": {"code": 404}}
        if method == "GET":
            return 200, row
        if what == "instances":
            self.end(str(row["id"]), "delete")
        else:
            del self.disks[key]
        return 200, {"status": "RUNNING"}

    def _listed(self, parts: list[str], what: str, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if match := re.fullmatch(r"aggregated/(instances|disks)", what):
            items: dict[str, dict[str, Any]] = {
                f"zones/{REGION}-b": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}
            }
            store = self.instances if match[1] == "instances" else self.disks
            for (zone, _), row in store.items():
                if _fits(row, query.get("filter", "")):
                    items.setdefault(f"zones/{zone}", {}).setdefault(match[1], []).append(dict(row))
                    if row["status"] == "STAGING":  # up at the next look
                        row["status"] = "RUNNING"
            return 200, {"items": items}
        if match := re.fullmatch(r"zones/([^/]+)/operations", what):
            number = query.get("filter", "").rpartition(" ")[2]
            return 200, {"items": [row for row in self.operations if row["targetId"] == number]}
        if match := re.fullmatch(r"zones/([^/]+)/machineTypes/([^/]+)", what):
            return (200, {"name": match[2]}) if match[2] in self.kinds else (404, {})
        if match := re.fullmatch(r"regions/([^/]+)", what):
            return (200, {"zones": [f"https://g/zones/{REGION}-a"]}) if match[1] == REGION else (404, {})
        known = (IMAGE, OTHER_IMAGE, SUBNET, f"projects/{PROJECT}/global/networks/default")
        there = "/".join(parts) in known or re.fullmatch(r"zones/[^/]+/diskTypes/pd-ssd", what)
        return (200, {"name": parts[-1]}) if there else (404, {})

    def _insert(self, zone: str, body: dict[str, Any], request: str) -> tuple[int, dict[str, Any]]:
        if request in self.requests:
            operation = self.requests[request]
            operation["status"] = "DONE"  # a failed one tells so when it is asked about again
            return 200, operation
        kind = body["machineType"].rpartition("/")[2]
        if (zone, body["name"]) in self.instances:
            return 409, {"error": {"code": 409, "errors": [{"reason": "alreadyExists"}]}}
        operation = {
            "name": f"operation-{len(self.requests)}",
            "status": "RUNNING",
            "operationType": "insert",
        }
        self.requests[request] = operation
        if {zone, kind} & self.short:
            text = f"The zone '{zone}' does not have enough resources available"
            operation["error"] = {"errors": [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": text}]}
        else:
            self.put(zone, body["name"], kind, body)
        return 200, {key: value for key, value in operation.items() if key != "error"}

    def _bulk(self, body: dict[str, Any], request: str) -> tuple[int, dict[str, Any]]:
        if request in self.requests:
            return 200, self.requests[request]
        inside, choices = (
            body["instanceProperties"],
            body.get("instanceFlexibilityPolicy", {}).get("instanceSelections", {}),
        )
        kinds = [each for choice in choices.values() for each in choice["machineTypes"]] or [
            inside["machineType"]
        ]
        zones = [
            each.removeprefix("zones/") for each in body.get("locationPolicy", {}).get("locations", {})
        ] or [f"{REGION}-a"]
        self.requests[request] = {"name": "bulk", "status": "RUNNING"}
        for place in ((zone, kind) for kind in kinds for zone in zones):
            if not set(place) & self.short:
                (name,) = body["perInstanceProperties"]
                self.put(place[0], name, place[1], inside)
                return 200, self.requests[request]
        self.requests[request] = {
            "status": "DONE",
            "error": {"errors": [{"code": "VM_MIN_COUNT_NOT_REACHED"}]},
        }
        return 200, self.requests[request]

    def put(
        self, zone: str, name: str, kind: str, body: dict[str, Any], status: str = "STAGING"
    ) -> dict[str, Any]:
        """An instance with its boot disk."""
        self.count += 1
        base = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{zone}"
        parameters = body["disks"][0]["initializeParams"]
        self.disks[zone, name] = {
            "id": str(self.count + 9000), "name": name, "sourceImage": f"https://www.googleapis.com/compute/v1/{parameters['sourceImage']}",
            "sizeGb": parameters.get("diskSizeGb", "50"), "type": f"{base}/diskTypes/pd-ssd", "status": "READY",
            "labels": parameters.get("labels", {}), "users": [f"{base}/instances/{name}"],
        }  # fmt: skip
        card = {**body["networkInterfaces"][0], "networkIP": f"10.0.0.{self.count % 250}"}
        if card.get("accessConfigs"):
            card["accessConfigs"] = [{**card["accessConfigs"][0], "natIP": f"203.0.113.{self.count % 250}"}]
        row = {
            **body, "id": str(self.count), "name": name, "status": status, "zone": base, "machineType": f"{base}/machineTypes/{kind}",
            "networkInterfaces": [card], "creationTimestamp": format_utc(SystemClock().wall()),
            "disks": [{"boot": True, "source": f"{base}/disks/{name}"}],
        }  # fmt: skip
        self.instances[zone, name] = row
        return row

    def end(self, number: str, kind: str) -> None:
        """An instance is deleted, by whom `kind` tells; the operation stays."""
        for key, row in list(self.instances.items()):
            if str(row["id"]) == number:
                del self.instances[key]
                self.disks.pop(key, None)
                at = format_utc(SystemClock().wall())
                self.operations.append(
                    {"operationType": kind, "targetId": number, "status": "DONE", "endTime": at}
                )


def _fits(row: dict[str, Any], text: str) -> bool:
    for key, value in re.findall(r"\(([a-z.A-Z_-]+) = ([^)]*)\)", text):
        told = row["status"] if key == "status" else row.get("labels", {}).get(key.removeprefix("labels."))
        if told != value:
            return False
    return True


@contextlib.contextmanager
def google_peer() -> Iterator[Google]:
    """A server until the block ends; the environment leads the program there."""
    peer = Google()
    with serving(peer) as base:
        environment = {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{base}{_ROOT}", "GCE_METADATA_HOST": base.removeprefix("http://"),
            "GOOGLE_CLOUD_PROJECT": PROJECT, "HOME": "/nonexistent",
        }  # fmt: skip
        with mock.patch.dict(os.environ, environment):
            os.environ.pop("GOOGLE_APPLICATION_CREDENTIALS", None)
            yield peer
