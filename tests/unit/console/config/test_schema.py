"""The schemas say exactly the keys that the readers take."""

from __future__ import annotations

import json
from dataclasses import fields

from backends.inventory.fields import JOB_KEYS, NODE_KEYS
from backends.records.job import Job
from backends.records.node import Node
from console.config.model import SETTINGS
from console.config.schema import config_schema, fleet_schema


def test_every_setting_is_in_the_schema() -> None:
    schema = config_schema()
    assert set(schema["properties"]) == {item.name for item in SETTINGS} | {"contexts"}
    assert schema["additionalProperties"] is False
    inner = schema["properties"]["contexts"]["additionalProperties"]["properties"]
    assert "context" not in inner
    assert {"fleet", "store", "production", "read_only"} <= set(inner)
    json.dumps(schema)


def test_every_key_of_a_fleet_file_is_in_the_schema() -> None:
    schema = fleet_schema()
    assert set(schema["properties"]) == {"fleet", "nodes", "jobs", "pools"}
    job = schema["properties"]["jobs"]["additionalProperties"]
    assert set(job["properties"]) == set(JOB_KEYS)
    assert job["required"] == ["node"]
    assert set(job["properties"]["attach"]["properties"]) == {"pid", "pid_file", "container", "slurm"}
    json.dumps(schema)


def test_every_field_of_the_records_can_be_written() -> None:
    assert {key.field for key in JOB_KEYS.values()} == {item.name for item in fields(Job)} - {"name"}
    assert {key.field for key in NODE_KEYS.values()} == {item.name for item in fields(Node)} - {"name"}
