"""What a fleet created on AWS, found by its mark, and its removal. Calls: EC2 Describe…, Terminate…, Delete…."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from backends.clean import clean
from backends.clock import format_utc
from backends.clouds.aws.calls import code_of, explained, pages
from backends.clouds.aws.instances import instances
from backends.clouds.lending import FLEET_MARK, TOKEN_MARK
from backends.clouds.port import Owned
from backends.errors import UsageError

_GONE = ("InvalidInstanceID.NotFound", "InvalidVolume.NotFound", "InvalidLaunchTemplateName.NotFoundException",
         "InvalidLaunchTemplateId.NotFound")  # fmt: skip
_LIVE = ["pending", "running", "shutting-down", "stopping", "stopped"]


def owned(ec2: Any, region: str, fleet: str) -> tuple[Owned, ...]:
    """Machines, volumes and launch templates of `region` that carry the mark `fleet` and still exist.

    A volume that belongs to a machine ends with it and is not listed.

    Raises:
        UsageError, CredentialsError, UnreachableError: a call failed; nothing can then be said to be gone.
    """
    mine = (f"tag:{FLEET_MARK}", [fleet])
    machines = [
        Owned("instance", each.instance, region, each.pool, each.reason or each.state, each.launched_at,
              each.tags.get(TOKEN_MARK, ""))
        for each in instances(region, [mine, ("instance-state-name", _LIVE)], ec2)
        if each.state != "stopping"
    ]  # fmt: skip
    return (*machines, *_volumes(ec2, region, fleet), *_templates(ec2, region, fleet))


def _filters(fleet: str) -> list[dict[str, Any]]:
    return [{"Name": f"tag:{FLEET_MARK}", "Values": [fleet]}]


def _volumes(ec2: Any, region: str, fleet: str) -> Iterator[Owned]:
    filters = [*_filters(fleet), {"Name": "status", "Values": ["available", "error"]}]

    def ask(more: dict[str, str]) -> dict[str, Any]:
        with explained("volumes", region):
            answer: dict[str, Any] = ec2.describe_volumes(Filters=filters, **more)
            return answer

    for page in pages(ask, f"volumes of {region}"):
        for row in page.get("Volumes", []):
            state = clean(row.get("State", ""), limit=40)
            yield Owned(
                "volume",
                clean(row.get("VolumeId", ""), limit=40),
                region,
                "",
                state,
                _when(row.get("CreateTime")),
            )


def _templates(ec2: Any, region: str, fleet: str) -> Iterator[Owned]:
    def ask(more: dict[str, str]) -> dict[str, Any]:
        with explained("launch templates", region):
            answer: dict[str, Any] = ec2.describe_launch_templates(Filters=_filters(fleet), **more)
            return answer

    for page in pages(ask, f"launch templates of {region}"):
        for row in page.get("LaunchTemplates", []):
            name = clean(row.get("LaunchTemplateId", ""), limit=60)
            yield Owned("template", name, region, "", "kept for CreateFleet", _when(row.get("CreateTime")))


def _when(value: object) -> str | None:
    return format_utc(value.timestamp()) if isinstance(value, datetime.datetime) else None


def remove(ec2: Any, thing: Owned, fleet: str) -> None:
    """Remove what still carries the mark; what is gone already is no error.

    Raises:
        UsageError: it does not carry the fleet's mark (any more).
        CredentialsError, UnreachableError: the call failed.
    """
    if thing.kind == "instance":
        found = instances(thing.region, [("instance-id", [thing.id])], ec2)
        if not found or found[0].state in ("terminated", "stopping"):
            return
        if found[0].tags.get(FLEET_MARK) != fleet:
            raise UsageError(
                f"{thing.id} in {thing.region} does not carry the mark of this fleet: it is left alone"
            )
    with explained(f"remove {thing.kind} {thing.id}", thing.region):
        try:
            if thing.kind == "instance":
                ec2.terminate_instances(InstanceIds=[thing.id])
            elif thing.kind == "volume":
                ec2.delete_volume(VolumeId=thing.id)
            else:
                ec2.delete_launch_template(LaunchTemplateId=thing.id)
        except ec2.exceptions.ClientError as error:
            if code_of(error) not in _GONE:
                raise
