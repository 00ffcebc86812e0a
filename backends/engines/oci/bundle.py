"""A container's bundle: what its `config.json` says of places. Pure, but for reading it."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from backends.clean import clean
from backends.errors import EngineError

CONFIG_LIMIT_BYTES = 4 << 20


@dataclass(frozen=True)
class Bundle:
    """One bundle; `config` is the parsed config.json."""

    path: str
    config: dict[str, Any]

    @property
    def rootfs(self) -> str:
        """The container's root file system on the host, absolute."""
        return str(PurePosixPath(self.path) / str(self.config["root"]["path"]))

    def binds(self) -> list[tuple[str, str, bool]]:
        """(place in the container, place on the host, read-only) of every bind mount, the innermost first."""
        found = []
        for mount in self.config.get("mounts") or []:
            options = [str(option) for option in mount.get("options") or []]
            if mount.get("type") == "bind" or "bind" in options or "rbind" in options:
                source = str(PurePosixPath(self.path) / str(mount.get("source", "")))
                found.append((str(mount["destination"]).rstrip("/") or "/", source, "ro" in options))
        return sorted(found, key=lambda item: -len(item[0]))

    def host_path(self, path: str) -> str:
        """Where a path of the container lies on the host. Links inside of the container are not followed."""
        for inside, outside, _ in self.binds():
            if path == inside or path.startswith(inside.rstrip("/") + "/"):
                return outside + path[len(inside.rstrip("/")) :]
        return self.rootfs.rstrip("/") + path

    def moved(self, places: dict[str, str]) -> dict[str, Any]:
        """The config with absolute places on the host, those in `places` replaced (rootfs and bind sources)."""
        config = copy.deepcopy(self.config)
        config["root"]["path"] = places.get(self.rootfs, self.rootfs)
        for mount in config.get("mounts") or []:
            options = mount.get("options") or []
            if mount.get("type") == "bind" or "bind" in options or "rbind" in options:
                source = str(PurePosixPath(self.path) / str(mount.get("source", "")))
                mount["source"] = places.get(source, source)
        return config

    def writable(self) -> list[str]:
        """Places on the host that the container may write: its root file system and bind mounts."""
        found = [] if self.config["root"].get("readonly") else [self.rootfs]
        return found + [outside for _, outside, fixed in self.binds() if not fixed]


def parse_bundle(path: str, text: str) -> Bundle:
    """A bundle from its config.json; EngineError for what is none."""
    try:
        config = json.loads(text)
        root = config["root"]["path"]
        mounts = config.get("mounts") or []
        good = isinstance(root, str) and all(isinstance(m.get("destination"), str) for m in mounts)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        good = False
    if not good:
        raise EngineError(f"{clean(path)}/config.json is not that of a container")
    return Bundle(path, config)


def read_bundle(path: str) -> Bundle:
    """The bundle in the directory `path`; EngineError when it cannot be read."""
    try:
        with (Path(path) / "config.json").open("rb") as file:
            data = file.read(CONFIG_LIMIT_BYTES)
    except OSError as error:
        raise EngineError(f"{clean(path)}/config.json cannot be read: {clean(error.strerror)}") from None
    return parse_bundle(path, data.decode("utf-8", "replace"))
