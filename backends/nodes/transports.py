"""The built-in transports `aws-ssm:` and `gcp-iap:`: SSH through a tunnel of the provider's own tool, for nodes without an open port.

The tool runs as SSH's proxy, without a shell; host key, login and everything after it are SSH's own, from end to end. Its credentials
are the tool's. Sources: "Allow and control permissions for SSH connections through Session Manager"; "Using IAP for TCP forwarding".
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from backends.clean import clean
from backends.errors import UsageError

BUILT_IN = ("aws-ssm:", "gcp-iap:")
_SSM = re.compile(r"(?:(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)/)?(?P<id>m?i-[0-9a-f]{8,40})\Z")
_IAP = re.compile(
    r"(?P<project>[a-z][a-z0-9-]{3,60})/(?P<zone>[a-z][a-z0-9-]{3,60})/(?P<name>[a-z][a-z0-9-]{0,61})\Z"
)
_NEEDS = {
    "aws": "the AWS CLI with its session-manager-plugin",
    "gcloud": "the Google Cloud CLI",
}


@dataclass(frozen=True)
class Transport:
    """One tunnel to one machine."""

    host: str  # by which SSH knows the machine: host keys are kept under it
    tool: str
    arguments: tuple[str, ...]  # `{port}` stands for SSH's port there

    def command(self, port: int) -> tuple[str, ...]:
        """Program and arguments of the tunnel to `port`."""
        return (self.tool, *(each.replace("{port}", str(port)) for each in self.arguments))


def is_transport(text: str) -> bool:
    """Whether an address names a built-in transport, a user in front of it allowed."""
    return text.rpartition("@")[2].startswith(BUILT_IN)


def read(text: str) -> Transport:
    """The transport of `aws-ssm:[REGION/]INSTANCE` or `gcp-iap:PROJECT/ZONE/NAME`; UsageError for anything else."""
    kind, _, rest = text.partition(":")
    if kind == "aws-ssm" and (match := _SSM.match(rest)):
        region = ("--region", match["region"]) if match["region"] else ()
        arguments = (
            "ssm", "start-session", "--target", match["id"], "--document-name", "AWS-StartSSHSession",
            "--parameters", "portNumber={port}", *region,
        )  # fmt: skip
        return Transport(match["id"], "aws", arguments)
    if kind == "gcp-iap" and (match := _IAP.match(rest)):
        arguments = (
            "compute", "start-iap-tunnel", match["name"], "{port}", "--listen-on-stdin",
            f"--project={match['project']}", f"--zone={match['zone']}", "--verbosity=warning",
        )  # fmt: skip
        return Transport(f"{match['name']}.{match['zone']}.{match['project']}", "gcloud", arguments)
    raise UsageError(
        f"ssh = {clean(text, limit=120)!r}: aws-ssm:[REGION/]i-… or gcp-iap:PROJECT/ZONE/NAME is expected"
    )


def check_tool(command: tuple[str, ...], which: Callable[[str], str | None] = shutil.which) -> None:
    """UsageError where the tunnel's program is not installed here."""
    if which(command[0]) is None:
        raise UsageError(
            f"{command[0]} is not installed: it is needed for this node's tunnel",
            hint=f"install {_NEEDS.get(command[0], command[0])} where Reprieve runs",
        )
