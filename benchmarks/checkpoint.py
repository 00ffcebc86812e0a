"""A checkpoint's way to the store and back against cp, restic, borg and casync: `python -m benchmarks.checkpoint [--mib N]`.

Everything happens in one directory of one disk (`TMPDIR`), in one run, the peers' second save beside ours. Ours syncs and reads
back what it wrote before it says "saved"; of the peers only cp is made to sync. Before each step the disk is brought to rest.
Three ways of ours: sealed, unsealed (for comparison only), and unsealed with `page_hash = "xxh3"`. Peers that are absent are named.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from backends.clock import SystemClock
from backends.ids import CheckpointId
from backends.store.commit import Committed, Committer
from backends.store.fetch import fetch
from backends.store.fileops import RealOps
from backends.store.files import FileStore
from backends.store.fleetkey import FleetKey
from backends.store.format.pagehash import PageHashOption
from backends.store.sealing import CODEC_NONE, TAG_BYTES, Buffer, DataKey, JobKey
from backends.store.takeover import Taker, begin
from benchmarks.common import ratio, report
from benchmarks.freeze import freezable, freezes
from benchmarks.images import CHANGES, DATA, PAGE, changed, content, first_image, remove, source
from benchmarks.peers import TOOLS, Cost, Peer, copy, copy_synced, here, settle

UID = "abcdefghij0123456789"
WAYS = ("sealed", "unsealed", "unsealed_xxh3")
REPEATS = 3
GIB = 1 << 30
USD_PER_GIB_MONTH = 0.023  # S3 standard, us-east-1
KEPT = 3  # checkpoints that retention keeps by default


class Ours:
    """One job's store, with the node's page table."""

    def __init__(self, home: Path, page_hash: PageHashOption = "blake3") -> None:
        self.home = home
        self._page_hash: PageHashOption = page_hash
        (home / "tables").mkdir(parents=True)
        self._store = FileStore(home / "store")
        self._key, self._fleet, self._clock = JobKey.new(), FleetKey.new(), SystemClock()
        begin(Taker(self._store, UID, self._fleet, "bench", "n" * 32, self._clock), "job", "node", "guard")
        self._seq = 0

    def save(self, directory: Path) -> tuple[Cost, Committed]:
        """One more save."""
        self._seq += 1
        committer = Committer(
            self._store,
            UID,
            1,
            self._key,
            self._fleet.verify_key,
            self._clock,
            tables=RealOps(self.home / "tables"),
            page_hash=self._page_hash,
        )
        found: list[Committed] = []
        cost = timed(lambda: found.append(committer.commit(self._seq, source(directory))))
        return Cost(cost.wall_s, cost.cpu_s, found[0].stored_bytes), found[0]

    def restore(self, into: Path) -> Cost:
        """The last save."""
        return timed(lambda: fetch(self._store, UID, CheckpointId(1, self._seq), self._key, into))


def timed(call: Callable[[], object]) -> Cost:
    """What a call in this process takes, all its threads together."""
    settle()
    cpu, begun = time.process_time(), time.perf_counter()
    call()
    return Cost(time.perf_counter() - begun, time.process_time() - cpu)


def unsealed() -> ExitStack:
    """The same frames without encryption, for comparison only: the product has no such mode."""
    tag = bytes(TAG_BYTES)

    def seal(self: DataKey, number: int, data: Buffer, codec: int = CODEC_NONE) -> tuple[bytes, Buffer]:
        return bytes((codec,)), b"".join((data, tag))

    def unseal(self: DataKey, number: int, frame: Buffer) -> tuple[int, memoryview]:
        return frame[0], memoryview(frame)[1:-TAG_BYTES]

    stack = ExitStack()
    stack.enter_context(patch.object(DataKey, "seal", seal))
    stack.enter_context(patch.object(DataKey, "open", unseal))
    return stack


def way(label: str) -> ExitStack:
    """What holds while ours is measured in one of the ways."""
    return ExitStack() if label == "sealed" else unsealed()


def page_hash_of(label: str) -> PageHashOption:
    """The job's option in one of the ways."""
    return "xxh3" if label.endswith("xxh3") else "blake3"


def middle(costs: list[Cost]) -> Cost:
    """The median in wall time and in CPU time."""
    return Cost(
        statistics.median(cost.wall_s for cost in costs),
        statistics.median(cost.cpu_s for cost in costs),
        costs[0].stored_bytes,
    )


class Run:
    """The measurements of one kind of data."""

    def __init__(self, home: Path, kind: str, pages: int) -> None:
        self.home, self.kind, self.pages = home, kind, pages
        self.figures: dict[str, float] = {}
        self.ratios: dict[str, dict[str, Any]] = {}
        self._rng = np.random.default_rng(7)
        self._image = first_image(kind, pages, self._rng)
        self._image.write(home / "one")

    def note(self, name: str, cost: Cost) -> Cost:
        """Keep a step's figures."""
        for unit, value in (("s", cost.wall_s), ("cpu_s", cost.cpu_s)):
            self.figures[f"{self.kind}.{name}_{unit}"] = round(value, 4)
        if cost.stored_bytes:
            self.figures[f"{self.kind}.{name}_stored_mb"] = round(cost.stored_bytes / 1e6, 3)
        return cost

    def rate(self, name: str, value: float, target: float, *, higher: bool = False) -> None:
        """Keep a ratio."""
        self.ratios[f"{self.kind}.{name}"] = ratio(value, target, "higher" if higher else "lower")

    def first_and_restore(self) -> None:
        """First save and restore, sealed and not, each in turn with cp."""
        costs: dict[str, list[Cost]] = {}

        def add(name: str, cost: Cost) -> None:
            costs.setdefault(name, []).append(cost)

        for turn in range(REPEATS):
            add("cp_sync", copy_synced(self.home / "one", self.home / "copy"))
            add("cp", copy(self.home / "one", self.home / "copy2"))
            for label in WAYS:
                with way(label):
                    ours = Ours(self.home / f"{label}{turn}", page_hash_of(label))
                    add(f"first_{label}", ours.save(self.home / "one")[0])
                    add(f"restore_{label}", ours.restore(self.home / "back"))
                for path in (ours.home, self.home / "back"):
                    remove(path)
            for path in (self.home / "copy", self.home / "copy2"):
                remove(path)
        found = {name: self.note(name, middle(each)) for name, each in costs.items()}
        for label in WAYS[1:]:
            times = found[f"first_{label}"].wall_s / found["cp_sync"].wall_s
            self.rate(f"first_{label}_over_cp_sync", times, 1.4)
        self.rate("restore_unsealed_over_cp", found["restore_unsealed"].wall_s / found["cp"].wall_s, 1.3)
        self.rate("restore_sealed_over_cp", found["restore_sealed"].wall_s / found["cp"].wall_s, 2.5)

    def second(self, change: str) -> None:
        """The save after a tenth of the pages changed, with the peers."""
        image, differ = changed(self._image, self.kind, change, self._rng)
        remove(self.home / "two")
        image.write(self.home / "two")
        costs: dict[str, list[Cost]] = {label: [] for label in WAYS}
        for turn in range(REPEATS):
            for label, found in costs.items():
                with way(label):
                    ours = Ours(self.home / f"{label}{turn}", page_hash_of(label))
                    ours.save(self.home / "one")
                    cost, committed = ours.save(self.home / "two")
                    assert committed.manifest.parent == "1.1"
                    found.append(cost)
                remove(ours.home)
        mine = {label: self.note(f"{change}.second_{label}", middle(found)) for label, found in costs.items()}
        self.rate(f"{change}.stored_over_changed", mine["sealed"].stored_bytes / (differ * PAGE), 1.02)
        for name in here():
            peer = Peer(name, self.home / name)
            self.note(f"{change}.{name}_first", peer.save(self.home / "one"))
            cost = self.note(f"{change}.{name}_second", peer.save(self.home / "two"))
            self.note(f"{change}.{name}_restore", peer.restore(self.home / "back"))
            target = {"restic": 20.0, "borg": 5.0}.get(name)
            if target is not None:
                for label in WAYS[1:]:
                    times = cost.wall_s / mine[label].wall_s
                    self.rate(f"{change}.{name}_over_{label}", times, target, higher=True)
            for path in (self.home / name, self.home / "back"):
                remove(path)

    def all_changed(self) -> None:
        """Every page of weights changed, as an optimizer leaves them: what it costs in a day and a month."""
        image = first_image(self.kind, self.pages, self._rng)
        remove(self.home / "two")
        image.write(self.home / "two")
        ours = Ours(self.home / "all")
        ours.save(self.home / "one")
        cost, _ = ours.save(self.home / "two")
        self.note("all_changed.upload_sealed", cost)
        if freezable():
            self.figures |= {
                f"{self.kind}.all_changed.freeze_{name}": value
                for name, value in freezes(self.pages * PAGE >> 20).items()
            }
        else:
            print("the freeze is left out: it needs root and CRIU", file=sys.stderr)
        per_day = cost.stored_bytes * 24 * 6
        self.figures["float32.all_changed_gib_per_day_each_10_min"] = round(per_day / GIB, 2)
        self.figures["float32.all_changed_usd_per_month_kept"] = round(
            KEPT * cost.stored_bytes / GIB * USD_PER_GIB_MONTH, 4
        )
        remove(ours.home)


def peak_mib(mib: int) -> float:
    """Peak memory of a process that makes a full save and one with a tenth changed of an image of `mib`."""
    argv = [sys.executable, "-m", "benchmarks.checkpoint", "--peak", str(mib)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return float(done.stdout)


def peak(mib: int) -> None:
    """Save twice and print this process's peak memory in MiB; images are written by a child, so that they do not count."""
    with TemporaryDirectory(prefix="bench.") as name:
        home = Path(name)
        child = os.fork()
        if child == 0:
            rng = np.random.default_rng(7)
            image = first_image("random", mib * 256, rng)
            image.write(home / "one")
            for _, pages in image.runs:
                where = rng.choice(len(pages), len(pages) // 10, replace=False)
                pages[where] = content("random", len(where), rng)
            image.write(home / "two")
            os._exit(0)
        os.waitpid(child, 0)
        ours = Ours(home / "ours")
        for directory in ("one", "two"):
            ours.save(home / directory)
        ours.restore(home / "back")
    lines = Path("/proc/self/status").read_text().splitlines()
    print(int(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) / 1024)


def main() -> None:
    """Measure and print."""
    arguments = sys.argv[1:]
    if "--peak" in arguments:
        peak(int(arguments[-1]))
        return
    mib = int(arguments[arguments.index("--mib") + 1]) if "--mib" in arguments else 256
    figures: dict[str, float] = {"image_mib": mib}
    ratios: dict[str, dict[str, Any]] = {}
    for kind in DATA:
        with TemporaryDirectory(prefix="bench.") as home:
            run = Run(Path(home), kind, mib * 256)
            run.first_and_restore()
            for change in CHANGES if kind == "random" else CHANGES[:1]:
                run.second(change)
            if kind == "float32":
                run.all_changed()
            figures |= run.figures
            ratios |= run.ratios
    small, large = peak_mib(64), peak_mib(mib)
    figures |= {"peak_64_mib": round(small, 1), f"peak_{mib}_mib": round(large, 1)}
    ratios["peak_memory_large_over_small"] = ratio(large / small, 1.1)
    for name in TOOLS:
        if name not in here():
            print(f"{name} is not on this machine: its ratios are left out", file=sys.stderr)
    report("checkpoint", figures, ratios, ("blake3", "cryptography", "xxhash"))


if __name__ == "__main__":
    main()
