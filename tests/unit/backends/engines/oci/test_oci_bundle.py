"""Where a container's files lie on the host, from its config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.criu_tool import CriuTool
from backends.engines.oci.bundle import Bundle, parse_bundle, read_bundle
from backends.engines.oci.runtime import Container, Runtime
from backends.errors import EngineError

CONFIG: dict[str, Any] = {
    "root": {"path": "rootfs"},
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
        {"destination": "/data", "type": "none", "source": "/srv/data", "options": ["rbind"]},
        {"destination": "/data/deep", "type": "bind", "source": "deep", "options": ["bind"]},
    ],
}
BUNDLE = Bundle("/b", CONFIG)


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("/etc/passwd", "/b/rootfs/etc/passwd"),
        ("/data", "/srv/data"),
        ("/data/x", "/srv/data/x"),
        ("/data/deep/x", "/b/deep/x"),
        ("/database", "/b/rootfs/database"),
        ("/usr/bin/python3", "/usr/bin/python3"),
    ],
)
def test_places(inside: str, outside: str) -> None:
    assert BUNDLE.host_path(inside) == outside


def test_what_it_may_write_and_where_copies_go() -> None:
    assert BUNDLE.writable() == ["/b/rootfs", "/b/deep", "/srv/data"]
    assert Bundle("/b", {**CONFIG, "root": {"path": "/r", "readonly": True}}).writable() == [
        "/b/deep",
        "/srv/data",
    ]
    moved = BUNDLE.moved({"/b/rootfs": "/s/0", "/srv/data": "/s/1"})
    assert moved["root"]["path"] == "/s/0"
    assert [mount["source"] for mount in moved["mounts"]] == ["proc", "/usr", "/s/1", "/b/deep"]
    assert CONFIG["root"]["path"] == "rootfs", "the record itself stays"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"root": 1}', '{"root": {"path": 3}}', '{"root": {"path": "r"}, "mounts": [1]}']
)
def test_what_is_no_config(text: str) -> None:
    with pytest.raises(EngineError, match="is not that of a container"):
        parse_bundle("/b", text)


@given(
    st.text(max_size=200) | st.dictionaries(st.text(), st.none() | st.integers() | st.text()).map(json.dumps)
)
def test_any_text_is_a_bundle_or_refused(text: str) -> None:
    try:
        found = parse_bundle("/b", text)
    except EngineError:
        return
    assert found.host_path("/x")


def test_a_bundle_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be read"):
        read_bundle(str(tmp_path))


def runtime(tmp_path: Path, name: str, version: str, listing: str = "[]") -> Runtime:
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\ncase $1 in --version) echo '{version}';; list) echo '{listing}';; esac\n")
    program.chmod(0o755)
    return Runtime(name, program, CriuTool(("/bin/true",), "4.2"), tmp_path / "home")


@pytest.mark.parametrize(
    ("name", "version", "problem"),
    [
        ("runc", "runc version 1.1.15", ""),
        ("runc", "runc version 1.0.0", "runc 1.0.0 is too old: 1.1 or newer"),
        ("crun", "crun version 1.28\n+CRIU", ""),
        ("crun", "crun version 1.8.1\n+YAJL", "crun 1.8.1 was built without CRIU"),
        ("crun", "hello", "crun does not tell its version"),
    ],
)
def test_versions(tmp_path: Path, name: str, version: str, problem: str) -> None:
    found = runtime(tmp_path, name, version).problem()
    assert found.startswith(problem) if problem else not found


def test_listings(tmp_path: Path) -> None:
    row = json.dumps([{"id": "a", "pid": 7, "status": "running", "bundle": "/b"}])
    assert runtime(tmp_path, "runc", "", row).containers() == [Container("a", 7, "running", "/b")]
    for odd in ("null", "{", '[{"id": 1}]'):
        assert runtime(tmp_path, "runc", "", odd).containers() == []
