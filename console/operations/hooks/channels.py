"""The two ways out: a webhook, and a command that reads one JSON document."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import stat
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.clouds.commands import run_command
from backends.errors import CredentialsError, ReprieveError, UnreachableError, UsageError
from console.operations.hooks.news import Channel

TIMEOUT_S = 10.0
URL_LIMIT = 2048
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A webhook's address is a secret: it is not handed on to wherever an answer points."""

    def redirect_request(self, *arguments: object) -> None:
        """Refuse every redirect; it is then an answer that is no success."""
        return


class Webhook:
    """POSTs one JSON document; any 2xx is a delivery."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.name = f"webhook at {urllib.parse.urlsplit(url).hostname}"
        self._opener = urllib.request.build_opener(_NoRedirect())

    async def send(self, document: dict[str, Any]) -> None:
        """Deliver once; UnreachableError names the status or the trouble, never the address."""
        await asyncio.to_thread(self._post, json.dumps(document).encode())

    def _post(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": "reprieve"}
        request = urllib.request.Request(self._url, body, headers, method="POST")  # noqa: S310 # https or loopback http only
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                status = int(answer.status)
        except urllib.error.HTTPError as error:
            status = error.code
            error.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise UnreachableError(f"no answer ({clean(reason, limit=120)})") from None
        if not 200 <= status < 300:
            raise UnreachableError(f"it answers {status}")


class Command:
    """Runs a program without a shell, the document on its standard input."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self.name = f"command {program}"

    async def send(self, document: dict[str, Any]) -> None:
        """Deliver once; ReprieveError with exit status and output when it fails."""
        body = json.dumps(document).encode() + b"\n"
        argv, extra = (str(self._program),), {"REPRIEVE_NEWS_LEVEL": str(document["level"])}
        status, text = await asyncio.to_thread(run_command, argv, extra, body)
        if status != 0:
            raise ReprieveError(f"exit {status}: {clean(text, limit=200) or 'it said nothing'}")


def channels(webhook_file: str | None, command: str | None) -> tuple[Channel, ...]:
    """The channels that the settings `news_webhook_file` and `news_command` name.

    Raises:
        UsageError: a file that is not there, an address that is none. CredentialsError: others may read the file.
    """
    found: list[Channel] = []
    if webhook_file is not None:
        found.append(Webhook(read_webhook(Path(webhook_file).expanduser())))
    if command is not None:
        program = Path(command).expanduser()
        if not (program.is_file() and os.access(program, os.X_OK)):
            raise UsageError(f"news_command is {str(program)!r}; a program that can be run is expected")
        found.append(Command(program))
    return tuple(found)


def read_webhook(path: Path) -> str:
    """The address in `path`, a file of one line that only its owner may read: the address is a secret."""
    try:
        mode = path.stat().st_mode
        text = path.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"news_webhook_file {path} cannot be read: {clean(getattr(error, 'strerror', None) or error)}"
        ) from None
    if stat.S_IMODE(mode) & 0o077:
        raise CredentialsError(f"news_webhook_file {path} may be read by others: chmod 600 {path}")
    parts = urllib.parse.urlsplit(text)
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    if not secure or not parts.hostname or len(text) > URL_LIMIT or any(char.isspace() for char in text):
        raise UsageError(
            f"news_webhook_file {path}: one https:// address is expected (http:// on this machine only)"
        )
    return text
