"""SkyPilot's managed jobs as another restarter: its controller recovers every one of them, and has no switch for that."""

from __future__ import annotations

from backends.clean import clean
from backends.schedulers.port import Answer


class SkyPilot:
    """Knows what SkyPilot does; its controller is not asked, since what it prints is made for people."""

    def ask(self, identity: str) -> Answer:
        """A managed job is always recovered, from its beginning unless the program saves itself."""
        number = clean(identity, limit=20)
        detail = f"SkyPilot recovers managed job {number} itself when its node is lost"
        return Answer("will", detail, f"sky jobs cancel {number}")
