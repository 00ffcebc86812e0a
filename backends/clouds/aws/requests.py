"""The requests that launch a machine on AWS by a pool's record. Pure; shapes: EC2 API reference."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from backends.clouds.aws.launch import Launch
from backends.clouds.lending import FLEET_MARK, client_token
from backends.clouds.port import Market
from backends.clouds.recorded import user_data

MARKED = ("instance", "volume")


def _tags(launch: Launch, mark: Mapping[str, str]) -> list[dict[str, str]]:
    both = {"Name": "reprieve-replacement", **launch.tags, **mark}
    return [{"Key": key, "Value": value} for key, value in both.items()]


def _machine(launch: Launch) -> dict[str, Any]:
    """What RunInstances and a launch template have in common."""
    request: dict[str, Any] = {
        "ImageId": launch.image,
        "MetadataOptions": {
            "HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": launch.hop_limit,
        },
        "InstanceInitiatedShutdownBehavior": "terminate",
    }  # fmt: skip
    if launch.security_groups:
        request["SecurityGroupIds"] = list(launch.security_groups)
    if launch.profile:
        name = "Arn" if launch.profile.startswith("arn:") else "Name"
        request["IamInstanceProfile"] = {name: launch.profile}
    if launch.key_name:
        request["KeyName"] = launch.key_name
    if launch.volumes:  # every one ends with the machine: nothing is left over
        request["BlockDeviceMappings"] = [
            {
                "DeviceName": each.device,
                "Ebs": {
                    "VolumeSize": each.size_gib, "VolumeType": each.kind, "DeleteOnTermination": True,
                    **({"Encrypted": True} if each.encrypted else {}),
                },
            }
            for each in launch.volumes
        ]  # fmt: skip
    if launch.mounts:
        request["UserData"] = user_data(launch.mounts)
    return request


def run_request(
    launch: Launch, kind: str, subnet: str | None, *, market: Market, mark: Mapping[str, str], token: str
) -> dict[str, Any]:
    """RunInstances for one machine of instance type `kind`; `token` is its ClientToken."""
    request = {
        **_machine(launch),
        "InstanceType": kind,
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": token,
        "TagSpecifications": [{"ResourceType": each, "Tags": _tags(launch, mark)} for each in MARKED],
    }
    if subnet:
        request["SubnetId"] = subnet
    if market == "spot":  # no highest price: a machine with one is taken more often
        options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        request["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
    return request


def template_request(launch: Launch, *, fleet: str) -> dict[str, Any]:
    """CreateLaunchTemplate for CreateFleet; its name follows from its contents, so that it is made once."""
    machine = _machine(launch)
    if "UserData" in machine:
        machine["UserData"] = base64.b64encode(machine["UserData"].encode()).decode()
    mark = {FLEET_MARK: fleet}
    machine["TagSpecifications"] = [{"ResourceType": "volume", "Tags": _tags(launch, mark)}]
    name = client_token(fleet, json.dumps(machine, sort_keys=True))
    spec = [{"ResourceType": "launch-template", "Tags": [{"Key": FLEET_MARK, "Value": fleet}]}]
    return {
        "LaunchTemplateName": name,
        "LaunchTemplateData": machine,
        "ClientToken": name,
        "TagSpecifications": spec,
    }


def fleet_request(
    launch: Launch, kind: str, *, market: Market, mark: Mapping[str, str], token: str, template: str
) -> dict[str, Any]:
    """CreateFleet of type instant for one machine of `kind` or a compatible type, in any subnet of the record."""
    kinds = tuple(dict.fromkeys((kind, *launch.types)))
    overrides = [
        {"InstanceType": each, **({"SubnetId": subnet} if subnet else {})}
        for each in kinds
        for subnet in launch.subnets or (None,)
    ]
    word = "spot" if market == "spot" else "on-demand"
    strategy = (
        {
            "SpotOptions": {
                "AllocationStrategy": "price-capacity-optimized",
                "InstanceInterruptionBehavior": "terminate",
            }
        }
        if market == "spot"
        else {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}
    )
    return {
        "Type": "instant",
        "ClientToken": token,
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": word},
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "$Latest"},
                "Overrides": overrides,
            }
        ],
        "TagSpecifications": [{"ResourceType": "instance", "Tags": _tags(launch, mark)}],
        **strategy,
    }
