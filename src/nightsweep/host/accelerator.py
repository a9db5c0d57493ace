"""Accelerators by NVML, where the optional `pynvml` imports and a driver answers; else there are none to speak of.

Source:
    NVML API reference. A GB10 (unified memory) answers NOT_SUPPORTED for device memory: the system's memory is its memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

from nightsweep.units import Bytes


@dataclass(frozen=True)
class Accelerator:
    """One accelerator, as far as it stays the same from boot to boot.

    Attributes:
        memory: Total device memory; None where it has none of its own (unified memory).
        identity: Hash of the device's UUID: tells two cards apart without naming one.
    """

    index: int
    name: str
    memory: Bytes | None
    identity: str
    compute_capability: str | None


@dataclass(frozen=True)
class AcceleratorUser:
    """A process that holds accelerator memory; `memory` is None where the driver does not tell (containers, unified memory)."""

    pid: int
    name: str
    memory: Bytes | None
    device: int


@dataclass(frozen=True)
class MemoryReading:
    """How much accelerator memory is in use.

    Attributes:
        source: "nvml" (used bytes per device), "meminfo" (unified memory: system total less available), "none" (no accelerator).
        used: Shape: (devices,); one entry for "meminfo", empty for "none".
    """

    source: str
    used: tuple[int, ...] = ()


@contextmanager
def nvml() -> Iterator[Any]:
    """Give the initialised `pynvml` module, or None where there is no such module, driver or device."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def accelerators() -> tuple[Accelerator, ...]:
    """Return the accelerators of this machine, in NVML's order."""
    with nvml() as lib:
        return tuple(_accelerator(lib, index, device) for index, device in devices(lib))


def driver_versions() -> dict[str, str]:
    """Return the driver's and CUDA's version; empty without NVML."""
    with nvml() as lib:
        if lib is None:
            return {}
        cuda = asked(lib, lib.nvmlSystemGetCudaDriverVersion)
        found = {"driver": asked(lib, lib.nvmlSystemGetDriverVersion)}
        found["cuda"] = None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}"
        return {key: _text(value) for key, value in found.items() if value is not None}


def memory_in_use() -> MemoryReading:
    """Return what is in use now."""
    with nvml() as lib:
        found = list(devices(lib))
        if not found:
            return MemoryReading(source="none")
        readings = [asked(lib, lib.nvmlDeviceGetMemoryInfo, device) for _, device in found]
        if all(reading is not None for reading in readings):
            return MemoryReading(source="nvml", used=tuple(int(reading.used) for reading in readings if reading))
    memory = psutil.virtual_memory()
    return MemoryReading(source="meminfo", used=(int(memory.total - memory.available),))


def users() -> tuple[AcceleratorUser, ...]:
    """Return the processes that use an accelerator."""
    with nvml() as lib:
        return tuple(
            AcceleratorUser(
                pid=int(process.pid),
                name=_process_name(int(process.pid)),
                memory=None if process.usedGpuMemory is None else Bytes(int(process.usedGpuMemory)),
                device=index,
            )
            for index, device in devices(lib)
            for process in asked(lib, lib.nvmlDeviceGetComputeRunningProcesses, device) or ()
        )


def devices(lib: Any) -> Iterator[tuple[int, Any]]:
    """Yield (index, handle) of each device; nothing when `lib` is None, as `nvml` gives it without a driver."""
    if lib is None:
        return
    for index in range(asked(lib, lib.nvmlDeviceGetCount) or 0):
        device = asked(lib, lib.nvmlDeviceGetHandleByIndex, index)
        if device is not None:
            yield index, device


def _accelerator(lib: Any, index: int, device: Any) -> Accelerator:
    memory = asked(lib, lib.nvmlDeviceGetMemoryInfo, device)
    uuid = _text(asked(lib, lib.nvmlDeviceGetUUID, device) or f"index-{index}")
    capability = asked(lib, lib.nvmlDeviceGetCudaComputeCapability, device)
    return Accelerator(
        index=index,
        name=_text(asked(lib, lib.nvmlDeviceGetName, device) or "unknown"),
        memory=None if memory is None else Bytes(int(memory.total)),
        identity=hashlib.sha256(uuid.encode()).hexdigest()[:16],
        compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
    )


def asked(lib: Any, question: Callable[..., Any], *args: Any) -> Any:
    """Return NVML's answer, or None where the device does not support the question."""
    try:
        return question(*args)
    except lib.NVMLError:
        return None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _process_name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "unknown"
