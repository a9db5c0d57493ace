"""What the box did while a window was measured: samples of about one a second, their summary, and the flags they raise.

Two flags. `throttled`: heat or a power brake held an accelerator of the engine back. `disturbed`: somebody else's work took a
share of what the engine computes on. A box that merely has other things on it raises neither: resident processes that do
nothing, a busy CPU beside an engine on an accelerator, the ordinary power cap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum
from statistics import fmean

from nightsweep.units import Bytes, Celsius, Hertz, Joules, MonotonicSeconds, Ratio, Seconds, Tokens, Watts

THROTTLING = frozenset({"sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake"})
"""Reasons that say that the box is not in its ordinary state: too hot, or short of power from outside.

Not among them: `sw_power_cap`, which an accelerator at full load shows all the time (its power limit is part of the box);
`hw_slowdown` alone, which drivers also report for a moment when clocks change, and which comes together with one of these when
heat or a brake is its cause; `gpu_idle`, `app_clocks`, `sync_boost`, `display_clocks`, which are settings or rest.

Source: NVML API reference, nvmlClocksEventReasons.
"""

FOREIGN_SM = 0.02
"""Mean share of an accelerator's compute that others may take: the same share as of foreign tokens (`flags.FOREIGN_SHARE`).

An idle embedding server beside the engine shows 0; one that answers requests shows several percent.
"""

FOREIGN_CPU = 0.5
"""Mean share of all cores that others may take beside an engine that computes on the CPU.

Half, since a smaller machine always runs something, and below it the scheduler still finds the engine its cores on machines
with two threads a core; above it the engine has measurably less. For engines on an accelerator, the CPU's load flags nothing.
"""

SATURATED = 0.9
"""Share of all cores in use from which on an engine on the CPU may want for one; with cores to spare nobody takes any from it."""

SHORTEST_SPAN = 0.5
"""Seconds between first and last sample below which a share of CPU time says nothing: kernels count in hundredths."""


@dataclass(frozen=True)
class DeviceSample:
    """One accelerator at one moment. None: the device or the driver does not tell.

    Attributes:
        sm_clock, memory_clock: Of the compute units and of the memory.
        energy: Since the driver was loaded: only differences mean anything.
        reasons: Why clocks are lower than they could be, by our names of NVML's bits.
        memory_used: Of the device, all processes together.
        engines: Whether the engine has a context on it.
        foreign_pids: Processes on it that are surely not the engine's.
        foreign_sm: Share of the compute units that these took since the sample before; None where the driver does not tell.
    """

    index: int
    sm_clock: Hertz | None = None
    memory_clock: Hertz | None = None
    power: Watts | None = None
    energy: Joules | None = None
    temperature: Celsius | None = None
    reasons: tuple[str, ...] | None = None
    memory_used: Bytes | None = None
    engines: bool | None = None
    foreign_pids: tuple[int, ...] = ()
    foreign_sm: Ratio | None = None


@dataclass(frozen=True)
class BoxSample:
    """The box at one moment.

    Attributes:
        cpu_busy: CPU seconds that all processes have used since the machine's start.
        cpu_engine, cpu_own: The same of the engine's processes and of our own, since the sampler's start.
        containers: The same by container (beginning of its id), the engine's left out.
        page_cache: Bytes of files that the kernel keeps in memory; they count as available.
    """

    at: MonotonicSeconds
    devices: tuple[DeviceSample, ...] = ()
    memory_available: Bytes | None = None
    page_cache: Bytes | None = None
    cpu_busy: Seconds | None = None
    cpu_engine: Seconds | None = None
    cpu_own: Seconds | None = None
    containers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Range:
    """Mean, least and most of one quantity over the samples of a window."""

    mean: float
    least: float
    most: float


@dataclass(frozen=True)
class DeviceState:
    """One accelerator over a window.

    Attributes:
        energy: Of the window, in joules: the mean of `power` over time, times the window's length.
        reasons: Share of the samples that showed each reason.
        newcomers: Those of `foreign_pids` that came in the window.
    """

    index: int
    engines: bool | None
    sm_clock: Range | None
    memory_clock: Range | None
    power: Range | None
    energy: Joules | None
    temperature: Range | None
    memory_used: Range | None
    reasons: Mapping[str, float]
    foreign_pids: tuple[int, ...]
    foreign_sm: Ratio | None
    newcomers: tuple[int, ...] = ()


@dataclass(frozen=True)
class BoxState:
    """The box over a window. None: it could not be told.

    Attributes:
        samples: How many samples lay in the window.
        energy_per_token: Joules of the engine's accelerators / generated tokens.
        foreign_cpu: Share of all cores that neither engine nor we used, but others.
        engine_cpu, own_cpu: Cores that the engine and we kept busy.
        containers: Cores that other containers kept busy, by beginning of the id; idle ones left out.
        flags: Detail by flag.
    """

    samples: int
    seconds: Seconds
    devices: tuple[DeviceState, ...] = ()
    energy_per_token: Joules | None = None
    memory_available: Range | None = None
    page_cache: Range | None = None
    foreign_cpu: Ratio | None = None
    engine_cpu: float | None = None
    own_cpu: float | None = None
    containers: Mapping[str, float] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BoxRecord:
    """What is kept of the box beside a window: the samples as they came, and what was made of them."""

    state: BoxState
    samples: tuple[BoxSample, ...]


def box_state(
    samples: Sequence[BoxSample],
    *,
    opened: MonotonicSeconds,
    closed: MonotonicSeconds,
    cores: int,
    tokens: Tokens | None,
    simulated: bool,
) -> BoxState | None:
    """Return the box's state over a window; None when no sample lies in it.

    Args:
        cores: Logical ones of the machine.
        tokens: That the engine generated in the window.
        simulated: The engine's pace is a clock's: others' load does not move it, and no share of the CPU is flagged.
    """
    inside = [sample for sample in samples if opened <= sample.at <= closed]
    if not inside:
        return None
    seconds = Seconds(closed - opened)
    indexes = sorted({device.index for sample in inside for device in sample.devices})
    devices = tuple(_device(index, inside, seconds=seconds) for index in indexes)
    used = _of_engine(devices)
    cpu = _cpu(inside, cores=cores)
    return BoxState(
        samples=len(inside),
        seconds=seconds,
        devices=devices,
        energy_per_token=_energy_per_token(used, tokens=tokens),
        memory_available=_range(sample.memory_available for sample in inside),
        page_cache=_range(sample.page_cache for sample in inside),
        foreign_cpu=cpu.foreign,
        engine_cpu=cpu.engine,
        own_cpu=cpu.own,
        containers=_containers(inside),
        flags=_flags(used, cpu, cores=cores, simulated=simulated),
    )


# --- accelerators ------------------------------------------------------------------------------------------------


def _device(index: int, samples: Sequence[BoxSample], *, seconds: Seconds) -> DeviceState:
    seen = [(sample.at, device) for sample in samples for device in sample.devices if device.index == index]
    devices = [device for _, device in seen]
    told = [device.reasons for device in devices if device.reasons is not None]
    names = sorted({reason for reasons in told for reason in reasons})
    shares = [device.foreign_sm for device in devices if device.foreign_sm is not None]
    engines = [device.engines for device in devices if device.engines is not None]
    power = [(at, float(device.power)) for at, device in seen if device.power is not None]
    return DeviceState(
        index=index,
        engines=any(engines) if engines else None,
        sm_clock=_range(device.sm_clock for device in devices),
        memory_clock=_range(device.memory_clock for device in devices),
        power=_range(value for _, value in power),
        energy=Joules(_mean_over_time(power) * seconds) if power else None,
        temperature=_range(device.temperature for device in devices),
        memory_used=_range(device.memory_used for device in devices),
        reasons={name: sum(name in reasons for reasons in told) / len(told) for name in names},
        foreign_pids=tuple(sorted({pid for device in devices for pid in device.foreign_pids})),
        foreign_sm=Ratio(fmean(shares)) if shares else None,
        newcomers=_newcomers(index, samples),
    )


def _of_engine(devices: Sequence[DeviceState]) -> tuple[DeviceState, ...]:
    """Return the accelerators that the engine computes on: those that it holds; all but the surely unused when none is known."""
    held = tuple(device for device in devices if device.engines)
    return held or tuple(device for device in devices if device.engines is None)


def _energy_per_token(devices: Sequence[DeviceState], *, tokens: Tokens | None) -> Joules | None:
    known = [device.energy for device in devices if device.energy is not None]
    if not tokens or not known or len(known) < len(devices):
        return None
    return Joules(fsum(known) / tokens)


def _mean_over_time(values: Sequence[tuple[float, float]]) -> float:
    """Return the mean of a sampled quantity, each pair of neighbours weighing as much as the time between them (trapezoids)."""
    spans = [(later[0] - one[0], (one[1] + later[1]) / 2.0) for one, later in pairwise(values)]
    total = fsum(span for span, _ in spans)
    return fsum(span * value for span, value in spans) / total if total > 0 else values[0][1]


# --- the rest of the box -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cpu:
    busy: Ratio | None = None  # share of all cores
    foreign: Ratio | None = None
    engine: float | None = None
    own: float | None = None


def _cpu(samples: Sequence[BoxSample], *, cores: int) -> _Cpu:
    first, last = samples[0], samples[-1]
    span = last.at - first.at
    if span < SHORTEST_SPAN or cores < 1:
        return _Cpu()
    busy = _moved(first, last, lambda sample: sample.cpu_busy)
    engine = _moved(first, last, lambda sample: sample.cpu_engine)
    own = _moved(first, last, lambda sample: sample.cpu_own)
    foreign = None
    if busy is not None and engine is not None and own is not None:
        foreign = Ratio(min(max((busy - engine - own) / (span * cores), 0.0), 1.0))
    return _Cpu(
        busy=None if busy is None else Ratio(busy / (span * cores)),
        foreign=foreign,
        engine=None if engine is None else engine / span,
        own=None if own is None else own / span,
    )


def _moved(first: BoxSample, last: BoxSample, of: Callable[[BoxSample], Seconds | None]) -> float | None:
    before, after = of(first), of(last)
    return None if before is None or after is None else max(after - before, 0.0)


def _containers(samples: Sequence[BoxSample]) -> dict[str, float]:
    first, last = samples[0], samples[-1]
    span = last.at - first.at
    if span < SHORTEST_SPAN:
        return {}
    cores = {
        name: (last.containers[name] - used) / span
        for name, used in first.containers.items()
        if name in last.containers
    }
    return {name: busy for name, busy in sorted(cores.items()) if busy >= 0.001}


def _range(values: Iterable[float | None]) -> Range | None:
    known = [float(value) for value in values if value is not None]
    return Range(mean=fmean(known), least=min(known), most=max(known)) if known else None


# --- flags -------------------------------------------------------------------------------------------------------


def _flags(devices: Sequence[DeviceState], cpu: _Cpu, *, cores: int, simulated: bool) -> dict[str, str]:
    found = {"throttled": _throttled(devices), "disturbed": _disturbed(devices)}
    if not devices and not simulated:
        found["disturbed"] = _crowded_out(cpu, cores=cores)
    return {flag: detail for flag, detail in found.items() if detail}


def _crowded_out(cpu: _Cpu, *, cores: int) -> str:
    """Return how others took the cores that an engine on the CPU computes on."""
    if cpu.foreign is None or cpu.busy is None or cpu.foreign <= FOREIGN_CPU or cpu.busy <= SATURATED:
        return ""
    return (
        f"other processes kept {cpu.foreign:.0%} of {cores} cores busy, which the engine computes on, and none was left"
    )


def _throttled(devices: Sequence[DeviceState]) -> str:
    said = []
    for device in devices:
        shown = {reason: share for reason, share in device.reasons.items() if reason in THROTTLING}
        heat = f" at up to {device.temperature.most:.0f} °C" if device.temperature is not None else ""
        said += [
            f"accelerator {device.index}: {name} in {share:.0%} of the samples{heat}" for name, share in shown.items()
        ]
    return "; ".join(said)


def _disturbed(devices: Sequence[DeviceState]) -> str:
    """Return what others did on the engine's accelerators. Who was there before and is not known to compute says nothing."""
    said = []
    for device in devices:
        if device.foreign_sm is not None and device.foreign_sm > FOREIGN_SM:
            took = f"{device.foreign_sm:.1%} of it (pid {_listed(device.foreign_pids)})"
            said.append(f"others computed on accelerator {device.index}: {took}")
        elif device.foreign_sm is None and device.newcomers:
            said.append(f"pid {_listed(device.newcomers)} came onto accelerator {device.index}")
    return "; ".join(said)


def _newcomers(index: int, samples: Sequence[BoxSample]) -> tuple[int, ...]:
    """Return foreign processes that came onto an accelerator in the window."""
    seen = [set(device.foreign_pids) for sample in samples for device in sample.devices if device.index == index]
    return tuple(sorted(set().union(*seen[1:]) - seen[0])) if seen else ()


def _listed(pids: Sequence[int]) -> str:
    return ", ".join(str(pid) for pid in pids) or "unknown"
