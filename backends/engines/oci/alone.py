"""Runs a command in the network namespace it was started in, after bringing up its loopback: CRIU needs one.

`unshare -n python -m backends.engines.oci.alone COMMAND …`
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from backends.engines.system.scratch import loopback_up


def main(arguments: Sequence[str]) -> None:
    """Become the command; never returns."""
    loopback_up()
    os.execvp(arguments[0], list(arguments))  # noqa: S606 - an argv list, no shell


if __name__ == "__main__":
    main(sys.argv[1:])
