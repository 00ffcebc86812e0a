"""JSON Schema (draft 2020-12) of config.toml and of fleet files, made from the tables that the readers use."""

from __future__ import annotations

from typing import Any

from backends.inventory.fields import ATTACH_KEYS, JOB_KEYS, LAUNCH_KEYS, NODE_KEYS, RENTING_KEYS
from backends.records.job import ENGINES
from backends.records.node import PROVIDERS
from console.config.model import CONTEXT_KEYS, SETTINGS, Setting

Schema = dict[str, Any]
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Schema = {"type": "string", "minLength": 1}
_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_LIST: Schema = {"type": "array", "items": {"type": "string"}}
_DURATION: Schema = {"type": "string", "description": "duration with its unit: 90s, 10m, 1h30m, 2.5h, P1DT2H"}
_COUNT: Schema = {"type": "integer"}


def _closed(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


_SPECIAL: dict[str, Schema] = {
    "provider": {"enum": list(PROVIDERS)},
    "engine": {"enum": list(ENGINES)},
    "labels": _TEXTS,
    "environment": _TEXTS,
    "runtime": _TEXTS,
    "command": _LIST,
    "files": _LIST,
    "resume": _LIST,
    "cordoned": {"type": "boolean"},
    "rollback": {"type": "boolean"},
    "paused": {"type": "boolean"},
    "accept_unproven": {"type": "boolean"},
    "pid": _COUNT,
    "slurm": _COUNT,
    "priority": _COUNT,
    "stop_after_reclaims": {"type": "integer", "minimum": 0},
    "discount": {"type": ["number", "string"], "description": "share from 0 to 1, or per cent"},
    "stop_when_unpaid": {"type": "boolean"},
    "rent": {"type": "boolean"},
    "on_demand": {"type": "boolean"},
    "max_usd": {"type": "number"},
    "max_nodes": _COUNT,
    "max_usd_month": {"type": "number"},
    "max_rent_usd": {"type": "number"},
    "keep_last": {"type": "integer", "minimum": 1},
    "hours": {"type": ["number", "string"], "description": "hours as a number, or a duration"},
    "max_overhead": {"type": ["number", "string"], "description": "share from 0 to 1, or per cent"},
    "max_store_usd_per_day": {"type": "number"},
    "interval": {"anyOf": [{"const": "auto"}, _DURATION]},
    "max_freeze": _DURATION,
    "lease": _DURATION,
    "min_age": _DURATION,
    "fence": {**_closed({"command": _LIST}), "required": ["command"]},
    "on_unreachable": {"enum": ["wait", "terminate"]},
    "terminate_after": _DURATION,
    "page_hash": {"enum": ["blake3", "xxh3"]},
    "on_isolated": {"enum": ["continue", "freeze"]},
    "restore": {
        "anyOf": [
            {"enum": ["owned", "same-pool", "any-pool"]},
            {"type": "string", "pattern": "^on-demand-after="},
            {"type": "object", "properties": {"on-demand-after": _DURATION}, "additionalProperties": False},
        ]
    },
}


def config_schema() -> Schema:
    """The schema of config.toml."""
    properties = {setting.name: _setting(setting) for setting in SETTINGS}
    context = _closed({name: properties[name] for name in CONTEXT_KEYS})
    properties["contexts"] = {"type": "object", "additionalProperties": context}
    return {"$schema": _DRAFT, "title": "reprieve config.toml", **_closed(properties)}


def fleet_schema() -> Schema:
    """The schema of a fleet file (contract section 4)."""
    attach = _closed({key: _SPECIAL.get(key, _TEXT) for key in ATTACH_KEYS})
    attach |= {"minProperties": 1, "maxProperties": 1}
    node = _closed({key: _SPECIAL.get(key, _TEXT) for key in NODE_KEYS})
    node["required"] = ["ssh"]
    job = _closed({key: _SPECIAL.get(key, _TEXT) for key in JOB_KEYS})
    job["required"] = ["node"]
    job["properties"] |= {"attach": attach, "done": {**_closed({"file": _TEXT}), "required": ["file"]}}
    pool = _closed({"launch": _closed(dict.fromkeys(LAUNCH_KEYS, True))})
    properties = {
        "fleet": _closed({"store": _TEXT, "notices": _LIST, **{key: _SPECIAL[key] for key in RENTING_KEYS}}),
        "nodes": {"type": "object", "additionalProperties": node},
        "jobs": {"type": "object", "additionalProperties": job},
        "pools": {"type": "object", "additionalProperties": pool},
    }
    return {"$schema": _DRAFT, "title": "reprieve fleet file", **_closed(properties)}


def _setting(setting: Setting) -> Schema:
    described = {"description": setting.help}
    if setting.kind == "flag":
        return {"type": "boolean", **described}
    if setting.choices:
        return {"enum": list(setting.choices), **described}
    return {**_TEXT, **described}
