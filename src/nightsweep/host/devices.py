"""What an accelerator says of itself at one moment.

Source:
    NVML API reference: clocks in MHz, power in milliwatts, energy in millijoules, utilization in percent, times in microseconds.
    A GB10 (unified memory) answers NOT_SUPPORTED for some of them: that field is then None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from nightsweep.host.accelerator import asked, devices
from nightsweep.measurement.boxstate import DeviceSample
from nightsweep.units import Bytes, Celsius, Hertz, Joules, Ratio, Watts

Owns = Callable[[int], bool | None]
"""Whether a process is the engine's; None when nobody can tell."""

REASONS = {
    0x001: "gpu_idle",
    0x002: "app_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake",
    0x100: "display_clocks",
}
"""Our names of NVML's nvmlClocksEventReason bits; a bit without a name keeps its number ("bit_0x200")."""

MHZ = 1e6


def reason_names(bits: int) -> tuple[str, ...]:
    """Return the names of the bits that are set, lowest first."""
    singles = (1 << place for place in range(bits.bit_length()) if bits >> place & 1)
    return tuple(REASONS.get(bit, f"bit_{bit:#x}") for bit in singles)


class DeviceReader:
    """Reads all accelerators; nothing where there is no NVML."""

    def __init__(self, lib: Any, *, owns: Owns) -> None:
        self._devices = [Device(lib, index, device) for index, device in devices(lib)]
        self._owns = owns

    def read(self) -> tuple[DeviceSample, ...]:
        """Return a sample of each, in NVML's order."""
        return tuple(device.sample(owns=self._owns) for device in self._devices)


@dataclass
class Device:
    """One accelerator, and until when its processes' shares were read."""

    lib: Any
    index: int
    handle: Any
    seen: int = 0

    def sample(self, *, owns: Owns) -> DeviceSample:
        """Return what it says now."""
        lib = self.lib
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        pids = self._pids()
        known = {pid: owns(pid) for pid in pids or ()}
        foreign = frozenset(pid for pid, ours in known.items() if ours is False)
        reasons = self._reasons()
        return DeviceSample(
            index=self.index,
            sm_clock=_scaled(Hertz, self._ask("nvmlDeviceGetClockInfo", lib.NVML_CLOCK_SM), MHZ),
            memory_clock=_scaled(Hertz, self._ask("nvmlDeviceGetClockInfo", lib.NVML_CLOCK_MEM), MHZ),
            power=_scaled(Watts, self._ask("nvmlDeviceGetPowerUsage"), 1e-3),
            energy=_scaled(Joules, self._ask("nvmlDeviceGetTotalEnergyConsumption"), 1e-3),
            temperature=_scaled(Celsius, self._ask("nvmlDeviceGetTemperature", lib.NVML_TEMPERATURE_GPU), 1.0),
            reasons=None if reasons is None else reason_names(int(reasons)),
            memory_used=None if memory is None else Bytes(int(memory.used)),
            engines=held(known.values()) if pids is not None else None,
            foreign_pids=tuple(sorted(foreign)),
            foreign_sm=self._share(owns),
        )

    def _ask(self, name: str, *args: Any) -> Any:
        """Return an answer, or None: an old library does not know the question, or the device does not support it."""
        question = getattr(self.lib, name, None)
        return None if question is None else asked(self.lib, question, self.handle, *args)

    def _reasons(self) -> Any:
        """Return the bits; the question was renamed in driver 535."""
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        return self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") if bits is None else bits

    def _pids(self) -> tuple[int, ...] | None:
        computing = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return None if computing is None else tuple(int(process.pid) for process in computing)

    def _share(self, owns: Owns) -> Ratio | None:
        """Return the share of compute that foreign processes took since the last look; None where it is not told.

        The driver samples each process several times a second. Without any process at work it answers NOT_FOUND: a share of 0.
        """
        lib = self.lib
        question = getattr(lib, "nvmlDeviceGetProcessUtilization", None)
        if question is None:
            return None
        try:
            entries = question(self.handle, self.seen)
        except lib.NVMLError as error:
            return Ratio(0.0) if getattr(error, "value", None) == lib.NVML_ERROR_NOT_FOUND else None
        fresh = [entry for entry in entries if int(entry.timeStamp) > self.seen]
        first = self.seen == 0  # what lies before the first look is not of this window
        self.seen = max((int(entry.timeStamp) for entry in entries), default=self.seen)
        return Ratio(0.0) if first else Ratio(_foreign_share(fresh, owns))


def _foreign_share(entries: Iterable[Any], owns: Owns) -> float:
    shares: dict[int, list[int]] = {}
    for entry in entries:
        shares.setdefault(int(entry.pid), []).append(int(entry.smUtil))
    return sum(fmean(values) for pid, values in shares.items() if owns(pid) is False) / 100.0


def held(known: Iterable[bool | None]) -> bool | None:
    """Return whether the engine is among processes: surely, surely not, or None when one could be it."""
    answers = tuple(known)
    if any(answer is True for answer in answers):
        return True
    return None if any(answer is None for answer in answers) else False


def _scaled(unit: Callable[[float], Any], value: Any, factor: float) -> Any:
    return None if value is None else unit(float(value) * factor)
