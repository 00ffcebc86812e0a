"""Keys and region from AWS's own files, `~/.aws/credentials` and `~/.aws/config`, which obstore does not read.

Order, as AWS's own programs have it: keys or a web identity in the environment, then these files, then the container's
or the instance's role (obstore does the first and the last).
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path

from backends.clean import clean
from backends.errors import CredentialsError

_LIMIT = 1 << 20  # bytes of a file that is read
_ELSEWHERE = (
    "sso_session",
    "sso_start_url",
    "credential_process",
    "source_profile",
    "credential_source",
    "role_arn",
)


def settings(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """What the files add: `access_key_id`, `secret_access_key`, `session_token`, `region`, where they hold them.

    Raises:
        CredentialsError: the named profile is missing, or gets its keys in a way that is not offered here.
    """
    named = environment.get("AWS_PROFILE")
    name = named or "default"
    keys = _section(
        Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials"), name
    )
    path = Path(environment.get("AWS_CONFIG_FILE") or home / ".aws" / "config")
    config = _section(path, name if name == "default" else f"profile {name}")
    found: dict[str, str] = {}
    if "region" in config and not environment.get("AWS_REGION") and not environment.get("AWS_DEFAULT_REGION"):
        found["region"] = config["region"]
    if environment.get("AWS_ACCESS_KEY_ID") or environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return found
    merged = {**config, **keys}
    if merged.get("aws_access_key_id") and merged.get("aws_secret_access_key"):
        found["access_key_id"] = merged["aws_access_key_id"]
        found["secret_access_key"] = merged["aws_secret_access_key"]
        if merged.get("aws_session_token"):
            found["session_token"] = merged["aws_session_token"]
        return found
    way = next((option for option in _ELSEWHERE if option in merged), None)
    if way is not None or (named and not merged):
        reason = f"gets its keys by {way}" if way else "is in neither of AWS's files"
        raise CredentialsError(
            f"AWS profile {clean(name, limit=60)!r} {reason}; keys in it or in the environment are expected",
            hint='eval "$(aws configure export-credentials --format env)"',
        )
    return found


def _section(path: Path, name: str) -> dict[str, str]:
    """The options of one section; empty where file or section is absent; CredentialsError when it cannot be read."""
    try:
        if path.stat().st_size > _LIMIT:
            raise CredentialsError(f"{path}: larger than 1 MiB, AWS's settings are expected there")
        text = path.read_text("utf-8")
        parser = configparser.RawConfigParser(default_section="\0", strict=False)
        parser.read_string(text)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise CredentialsError(
            f"{path}: {os.strerror(error.errno or 0)}; AWS's settings are expected there"
        ) from None
    except (configparser.Error, UnicodeDecodeError):
        raise CredentialsError(f"{path}: not a file of [sections] and key = value lines; mend it") from None
    return dict(parser.items(name)) if parser.has_section(name) else {}
