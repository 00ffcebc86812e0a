"""Where config.toml lies. Text, not paths: most commands only ask whether the files are there."""

from __future__ import annotations

import os
from collections.abc import Mapping

FILE = "config.toml"


def user_file() -> str:
    """The user's config.toml, whether it exists or not."""
    root = os.environ.get("XDG_CONFIG_HOME", "")
    if not root.startswith("/"):
        root = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(root, "reprieve", FILE)


def system_file(environ: Mapping[str, str]) -> str:
    """The system's config.toml: in the first absolute XDG_CONFIG_DIRS, else /etc/xdg."""
    for part in environ.get("XDG_CONFIG_DIRS", "").split(":"):
        if part.startswith("/"):
            return os.path.join(part, "reprieve", FILE)
    return f"/etc/xdg/reprieve/{FILE}"
