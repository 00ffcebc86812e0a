"""What a checkpoint says of the machine it was made on, for the gate of a later restore."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from backends.clock import Clock
from backends.guard import facts
from backends.guard.probes.identity import identify
from backends.guard.vault import Shipment
from backends.records.facts import Facts, FileIdentity
from backends.records.fingerprint import FILES_LIMIT, fingerprint_of
from backends.records.strict import to_document

FRESH_S = 600.0  # facts of a machine hardly change while it runs


class Fingerprints:
    """Looks at the machine at most every ten minutes, and at a job's own program and libraries with each save."""

    def __init__(self, clock: Clock, root: Path) -> None:
        self._clock = clock
        self._root = root
        self._lock = threading.Lock()
        self._facts: tuple[float, Facts] | None = None

    def __call__(self, shipment: Shipment) -> dict[str, Any]:
        """The fingerprint of one save, as its manifest holds it."""
        saved = shipment.saved
        files = sum(file.size for file in saved.files)
        machine, cuda = self._machine(), saved.details.get("cuda")
        gpus = () if cuda is None else machine.gpus
        found = fingerprint_of(
            machine,
            engine=shipment.engine,
            runtime=shipment.job.runtime,
            files=mapped_files(shipment.pid),
            memory_needed_bytes=max(0, saved.size_bytes - files),
            gpus=gpus,
            gpu_memory_needed_bytes=None if cuda is None else cuda["device_bytes"],
            disk_needed_bytes=saved.size_bytes + files,  # fetched, and the files put back beside that
        )
        return to_document(found)

    def _machine(self) -> Facts:
        with self._lock:
            now = self._clock.monotonic()
            if self._facts is None or now - self._facts[0] > FRESH_S:
                self._facts = (now, facts.collect(clock=self._clock, root=self._root))
            return self._facts[1]


def mapped_files(pid: int) -> dict[str, FileIdentity]:
    """Identities of the program and libraries that a process has mapped for execution; empty when it is gone.

    Of more than FILES_LIMIT the lowest and highest addresses count: the program lies first, libc and the loader last.
    """
    try:
        rows = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    found: dict[str, FileIdentity] = {}
    for row in rows:
        fields = row.split(maxsplit=5)
        if len(fields) < 6 or "x" not in fields[1] or not fields[5].startswith("/") or fields[5] in found:
            continue
        identity = identify(Path(fields[5]))
        if identity is not None:
            found[fields[5]] = identity
    paths = list(found)
    kept = paths if len(paths) <= FILES_LIMIT else paths[: FILES_LIMIT // 2] + paths[-FILES_LIMIT // 2 :]
    return {path: found[path] for path in kept}
