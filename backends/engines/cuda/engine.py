"""The engine `criu-cuda`: GPU state into host memory by the driver, then the whole process by CRIU, and back.

CRIU's own CUDA plugin is kept out of saves: one hand moves the GPU state, so that every state in between is known.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backends.clock import Clock
from backends.engines import profile
from backends.engines.criu import CriuEngine
from backends.engines.criu_tool import CriuTool
from backends.engines.cuda import hold, preflight
from backends.engines.cuda.ladder import Abilities, abilities, device_map
from backends.engines.cuda.tool import CudaTool
from backends.engines.port import Process, RestoreRequest, Saved, SaveRequest, Verdict, alive
from backends.engines.proc import Tree, read_tree, tree_pids
from backends.engines.proven import unproven
from backends.engines.system import trees
from backends.engines.system.nvml import NvmlAnswer, Sweep, ask_nvml, sweep_nvml
from backends.errors import EngineError
from backends.records.job import Job

_ENVIRONMENT_BYTES = 1 << 20


class CudaEngine(CriuEngine):
    """`criu` for jobs that compute on GPUs.

    Args:
        tool: the criu to use.
        cuda: the cuda-checkpoint to use.
        run: as for `CriuEngine`.
        devices: the node's driver and GPUs.
        sweep: what the GPUs do now, with the memory of each process.
        arch: the processor, as uname -m says.
    """

    name = "criu-cuda"

    def __init__(
        self,
        tool: CriuTool,
        cuda: CudaTool,
        run: Path,
        clock: Clock,
        *,
        devices: Callable[[], NvmlAnswer] = ask_nvml,
        sweep: Callable[[], Sweep] = sweep_nvml,
        arch: str | None = None,
    ) -> None:
        self._plain = CriuEngine(tool, run, clock)
        # A directory without plugins: CRIU's default one may hold the CUDA plugin.
        self._no_plugins = run / "no-plugins"
        without = {**tool.environment, "CRIU_LIBS_DIR": str(self._no_plugins)}
        super().__init__(dataclasses.replace(tool, environment=without), run, clock)
        self.cuda = cuda
        self._devices = devices
        self._sweep = sweep
        self._arch = os.uname().machine if arch is None else arch

    def ready(self) -> Verdict:
        """CRIU works, the driver answers and can save GPU state."""
        verdict = self._plain.ready()
        if verdict.answer != "ok":
            return dataclasses.replace(verdict, engine=self.name)
        node = self._devices()
        reason = node.fault or self._abilities(node).problem
        if not reason and not node.gpus:
            reason = "this node has no NVIDIA GPU"
        return Verdict("impossible" if reason else "ok", (reason,) if reason else (), None, self.name)

    def examine(self, job: Job, process: Process) -> Verdict:
        """What CRIU minds of the job without its devices, and what cuda-checkpoint minds."""
        if not alive(process):
            return Verdict("impossible", (f"process {process.pid} is gone",), None, self.name)
        tree, node = read_tree(process.pid), self._devices()
        around = self._around(tree, node)
        found = list(preflight.findings(tree, around))
        plain = self._judged(job, process, preflight.without_devices(tree))
        worst = max([plain.answer, *(f.answer for f in found)], key=profile.WORST.index)
        reasons = dict.fromkeys([*(f.reason for f in found if f.answer != "ok"), *plain.reasons,
                                 *(f.reason for f in found if f.answer == "ok")])  # fmt: skip
        line = None
        if worst == "needs_restart":
            line = profile.restart_line(job, self._words(process), found)
            if plain.restart_line and not any(f.assignments for f in found):
                line = plain.restart_line
        proof = unproven(self.name, node.driver, (gpu.model for gpu in node.gpus))
        return Verdict(worst, tuple(reasons), line, self.name, proof)

    def save(self, request: SaveRequest, frozen: Callable[[], None]) -> Saved:
        """Lock, checkpoint, dump, restore, unlock; see the port. The job stands still from the first lock on."""
        process = request.process
        if not alive(process):
            raise EngineError(f"process {process.pid} of job {request.job.name} is gone")
        tree, node = read_tree(process.pid), self._devices()
        pids = self._pids(tree)
        self._refuse(tree, node, pids)
        self._no_plugins.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.cuda.turn(process.pid) as turn:
            if turn is None:
                raise EngineError("an earlier step of cuda-checkpoint with this job has not ended yet")
            started = (self.clock.wall(), self.clock.monotonic())
            frozen()
            hold.take(turn, pids, int(request.max_freeze_s * 1000))
            try:
                saved = super().save(request, lambda: None)
            finally:
                hold.give_back(turn, pids)
            ended = self.clock.monotonic()
        inner = {m.outer_pid: m.pid for m in tree.members}
        details: dict[str, Any] = {
            "pids": [inner[pid] for pid in pids],
            "gpus": [gpu.uuid for gpu in node.gpus],
            "models": [gpu.model for gpu in node.gpus],
            "device_bytes": self._device_bytes(pids),
        }
        return dataclasses.replace(
            saved,
            frozen_at=started[0],
            frozen_at_monotonic=started[1],
            frozen_s=ended - started[1],
            dump_s=ended - started[1],
            versions={**saved.versions, "driver": node.driver or "unknown"},
            details={**saved.details, "cuda": details},
        )

    def restore(self, request: RestoreRequest) -> Process:
        """As `criu`, and the GPU state given back before the job is believed to live; see the port."""
        cuda, node = _details(request), self._devices()
        self._map(cuda, node)
        _check_memory(cuda, node)
        return super().restore(request)

    def _woken(self, request: RestoreRequest, process: Process) -> None:
        cuda = _details(request)
        wanted = set(cuda["pids"])
        tree = read_tree(process.pid)
        pids = [m.outer_pid for m in tree.members if m.pid in wanted]
        if len(pids) < len(wanted):
            raise EngineError(f"{len(wanted) - len(pids)} processes with GPU state did not come back")
        trees.go_on(process, self.clock)  # saved while stopped: the driver needs them to run
        with self.cuda.turn(process.pid) as turn:
            if turn is None:
                raise EngineError("somebody else takes steps of cuda-checkpoint with this job")
            hold.give_back(turn, pids, self._map(cuda, self._devices()))

    def thaw(self, process: Process) -> None:
        """Let the tree run, its GPU state too where a guard that died left it half-way."""
        super().thaw(process)
        with self.cuda.turn(process.pid) as turn:
            if turn is not None and alive(process):
                pids = [
                    pid
                    for pid in tree_pids(process.pid)
                    if self.cuda.state(pid) in ("locked", "checkpointed")
                ]
                try:
                    hold.give_back(turn, pids)
                except EngineError:
                    return  # said by the next save; nothing more can be done for it here

    def _abilities(self, node: NvmlAnswer) -> Abilities:
        return abilities(node.driver, self.cuda.options())

    def _pids(self, tree: Tree) -> list[int]:
        """Outer pids of those with CUDA state, parents first."""
        return [m.outer_pid for m in tree.members if self.cuda.uses_cuda(m.outer_pid)]

    def _around(self, tree: Tree, node: NvmlAnswer) -> preflight.Surroundings:
        pids = self._pids(tree)
        return preflight.Surroundings(
            cuda=frozenset(pids),
            environments={m.outer_pid: _environment(m.outer_pid) for m in tree.members},
            abilities=self._abilities(node),
            partitioned=True if any(gpu.mig for gpu in node.gpus) else None,
            arch=self._arch,
            device_bytes=self._device_bytes(pids),
            memory_free_bytes=_memory_available(),
            staging_free_bytes=self._free_bytes(),
            resident_bytes=sum(m.resident_bytes for m in tree.members),
        )

    def _refuse(self, tree: Tree, node: NvmlAnswer, pids: list[int]) -> None:
        """Before anything stands still: what cannot work.

        Raises:
            EngineError: naming it.
        """
        if node.fault:
            raise EngineError(node.fault)
        for finding in preflight.findings(tree, self._around(tree, node)):
            if finding.answer != "ok":
                raise EngineError(finding.reason, hint="`reprieve jobs doctor` tells all of it")
        if not pids:
            raise EngineError("no process of the job uses CUDA")

    def _device_bytes(self, pids: list[int]) -> int | None:
        """GPU memory of these processes; None when the driver does not say."""
        sweep = self._sweep()
        if sweep.gpus is None or any(state.processes is None for state in sweep.gpus):
            return None
        used = [
            each.memory_bytes for state in sweep.gpus for each in state.processes or () if each.pid in pids
        ]
        return None if not used or None in used else sum(size for size in used if size is not None)

    def _map(self, cuda: dict[str, Any], node: NvmlAnswer) -> str | None:
        """The device map that this restore needs; EngineError when it cannot be made or used."""
        old, new = [str(uuid) for uuid in cuda["gpus"]], [str(gpu.uuid) for gpu in node.gpus]
        if node.fault:
            raise EngineError(node.fault)
        models = [gpu.model for gpu in node.gpus]
        if list(cuda["models"]) != models:
            raise EngineError("the GPUs here differ from those of the save in model or order")
        try:
            text = device_map(old, new)
        except ValueError as error:
            raise EngineError(f"the job cannot come back on these GPUs: {error}") from None
        if text is not None and not self._abilities(node).device_map:
            raise EngineError(
                "the job was saved on other GPUs of this kind: moving it needs driver 580 with its cuda-checkpoint",
                hint="restore on the node it was saved on, or upgrade driver and cuda-checkpoint on both",
            )
        return text


def _check_memory(cuda: dict[str, Any], node: NvmlAnswer) -> None:
    """A restore that runs out of GPU memory loses the process: look first."""
    needed = cuda.get("device_bytes")
    known = [gpu.memory_free_bytes for gpu in node.gpus if gpu.memory_free_bytes is not None]
    if needed is not None and len(known) == len(node.gpus) and sum(known) < needed:
        raise EngineError(
            f"the job needs {needed / 2**30:.1f} GiB of GPU memory, {sum(known) / 2**30:.1f} GiB are free here",
            hint="end what else uses the GPUs, or restore on another node",
        )


def _details(request: RestoreRequest) -> dict[str, Any]:
    cuda = request.details.get("cuda")
    if not isinstance(cuda, dict) or not all(
        isinstance(cuda.get(key), list) for key in ("pids", "gpus", "models")
    ):
        raise EngineError("the checkpoint says nothing of its GPU state: it is incomplete")
    return cuda


def _environment(pid: int) -> dict[str, str]:
    """Those variables of a process that matter here; empty when it cannot be looked into."""
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as file:
            words = file.read(_ENVIRONMENT_BYTES).split(b"\0")
    except OSError:
        return {}
    pairs = (word.decode("utf-8", "replace").partition("=") for word in words)
    return {name: value for name, _, value in pairs if name in preflight.VARIABLES}


def _memory_available() -> int | None:
    """MemAvailable of the node in bytes; None when unknown."""
    try:
        rows = Path("/proc/meminfo").read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for row in rows:
        if row.startswith("MemAvailable:"):
            return int(row.split()[1]) << 10
    return None
