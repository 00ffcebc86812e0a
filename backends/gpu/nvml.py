"""The binding: one open NVML, asked for what does not change (`inventory`) and for what does (`sweep`).

Whatever a driver or a model does not support is None. Calls into NVML can hang where a GPU fails: use it in a
process of its own (`backends.gpu.sweep`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml  # type: ignore[import-untyped]  # the distribution has no types

from backends.clean import clean
from backends.gpu import values
from backends.records.facts import Gpu
from backends.records.gpu import GpuProcess, GpuState

T = TypeVar("T")
GPUS_LIMIT = 64
PIDS_LIMIT = 1 << 22  # the kernel's largest PID


class GpuError(Exception):
    """NVML answered with an error of the whole library; `code` is nvml.h's."""

    def __init__(self, code: int) -> None:
        super().__init__(values.explain(code))
        self.code = code


@dataclass(frozen=True)
class Inventory:
    """What the driver says of itself and its GPUs."""

    driver: str | None
    cuda: str | None
    gpus: tuple[Gpu, ...]
    faults: tuple[str, ...]  # one line a GPU that does not answer


@contextlib.contextmanager
def opened() -> Iterator[Nvml]:
    """NVML, loaded and initialised.

    Raises:
        GpuError: there is no library, no driver, or they do not fit each other.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise GpuError(int(error.value)) from None
    try:
        yield Nvml()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


class Nvml:
    """Use through `opened`."""

    def inventory(self) -> Inventory:
        """Everything that stays as it is while the driver is loaded, and the memory free now."""
        gpus, faults = [], []
        for index in range(self._count()):
            gpu, fault = self._gpu(index)
            gpus.append(gpu)
            if fault:
                faults.append(f"GPU {index}: {fault}")
        driver = _ask(pynvml.nvmlSystemGetDriverVersion)
        return Inventory(
            driver=None if driver is None else clean(driver, limit=40) or None,
            cuda=values.cuda(_ask(pynvml.nvmlSystemGetCudaDriverVersion)),
            gpus=tuple(gpus),
            faults=tuple(faults),
        )

    def sweep(self) -> tuple[GpuState, ...]:
        """What every GPU does now."""
        return tuple(self._state(index) for index in range(self._count()))

    def _count(self) -> int:
        try:
            return min(int(pynvml.nvmlDeviceGetCount()), GPUS_LIMIT)
        except pynvml.NVMLError as error:
            raise GpuError(int(error.value)) from None

    def _gpu(self, index: int) -> tuple[Gpu, str]:
        handle, fault = _handle(index)
        if handle is None:
            return Gpu(index=index), fault
        with _watched() as trouble:
            sizes = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
            total, free, _ = values.memory(*_fields(sizes, "total", "free", "used"))
            mode = _ask(pynvml.nvmlDeviceGetMigMode, handle)
            mig = None if mode is None else mode[0] == 1
            if mode is None and _unsupported(pynvml.nvmlDeviceGetMigMode, handle):
                mig = False  # this model cannot be partitioned
            gpu = Gpu(
                index=index,
                uuid=values.uuid(_ask(pynvml.nvmlDeviceGetUUID, handle)),
                model=values.name(_ask(pynvml.nvmlDeviceGetName, handle)),
                memory_bytes=total,
                memory_free_bytes=free,
                mig=mig,
                mig_profiles=_profiles(handle) if mig else () if mig is False else None,
                compute_capability=values.capability(_ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle)),
                persistence=_switch(_ask(pynvml.nvmlDeviceGetPersistenceMode, handle)),
            )
        return (Gpu(index=index), trouble[0]) if trouble else (gpu, "")

    def _state(self, index: int) -> GpuState:
        handle, fault = _handle(index)
        if handle is None:
            return GpuState(index, fault=fault)
        with _watched() as trouble:
            sizes = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
            rates = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
            heat = _ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
            errors = _ask(
                pynvml.nvmlDeviceGetTotalEccErrors,
                handle,
                pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                pynvml.NVML_VOLATILE_ECC,
            )
            running = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
            state = GpuState(
                index=index,
                uuid=values.uuid(_ask(pynvml.nvmlDeviceGetUUID, handle)),
                memory_used_bytes=values.memory(*_fields(sizes, "total", "free", "used"))[2],
                utilisation=values.share(None if rates is None else int(rates.gpu)),
                temperature_c=values.count(heat, 200),
                ecc_uncorrected=values.count(errors, values.ECC_LIMIT),
                processes=None if running is None else tuple(_process(item) for item in running),
            )
        return GpuState(index, fault=trouble[0]) if trouble else state


def _process(item: Any) -> GpuProcess:
    used = item.usedGpuMemory
    return GpuProcess(
        values.count(int(item.pid), PIDS_LIMIT) or 0,
        None if used is None else values.count(int(used), values.MEMORY_LIMIT),
    )


class _LostError(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


@contextlib.contextmanager
def _watched() -> Iterator[list[str]]:
    """Catches the loss of one GPU half-way through its answers; the list then holds the one line about it."""
    trouble: list[str] = []
    try:
        yield trouble
    except _LostError as lost:
        trouble.append(values.explain(lost.code))


def _ask(function: Callable[..., T], *arguments: Any) -> T | None:
    """The answer, or None where driver or model have none; _LostError where the GPU itself is gone."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        if int(error.value) in values.LOST:
            raise _LostError(int(error.value)) from None
        return None
    except UnicodeDecodeError:
        return None


def _unsupported(function: Callable[..., Any], *arguments: Any) -> bool:
    try:
        function(*arguments)
    except pynvml.NVMLError as error:
        return bool(error.value == pynvml.NVML_ERROR_NOT_SUPPORTED)
    return False


def _handle(index: int) -> tuple[Any, str]:
    try:
        return pynvml.nvmlDeviceGetHandleByIndex(index), ""
    except pynvml.NVMLError as error:
        return None, values.explain(int(error.value))


def _profiles(handle: Any) -> tuple[str, ...] | None:
    """The partitions of a GPU, sorted; None when they cannot be told."""
    most = _ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    if most is None:
        return None
    found = []
    for index in range(min(int(most), GPUS_LIMIT)):
        part = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if part is None:
            continue  # places that hold no partition answer "not found"
        shape = _ask(pynvml.nvmlDeviceGetAttributes, part)
        text = (
            None
            if shape is None
            else values.profile(
                shape.gpuInstanceSliceCount, shape.computeInstanceSliceCount, shape.memorySizeMB
            )
        )
        if text is None:
            return None
        found.append(text)
    return tuple(sorted(found))


def _fields(value: Any, *names: str) -> tuple[int | None, int | None, int | None]:
    read = [None if value is None else int(getattr(value, name)) for name in names]
    return read[0], read[1], read[2]


def _switch(value: int | None) -> bool | None:
    return None if value not in (0, 1) else value == 1
