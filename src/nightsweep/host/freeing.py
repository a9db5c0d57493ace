"""Waiting until a port and the accelerator's memory are free again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nightsweep.errors import GpuBusy, PortBusy
from nightsweep.host import accelerator, listeners
from nightsweep.host.accelerator import MemoryReading
from nightsweep.ports import Clock
from nightsweep.units import GIB, Seconds

POLL = Seconds(0.1)
SETTLE = Seconds(1.0)
"""Distance of two readings that tell whether memory is still being given back, where nothing is known of before."""

TOLERANCE = {"nvml": GIB // 2, "meminfo": 3 * GIB}
"""Bytes above the baseline that still count as free. Unified memory is shared with everything that runs, so it needs more."""


class Freeing:
    """Knows what was in use before the last start, and waits until it is so again."""

    def __init__(self, clock: Clock, *, read: Callable[[], MemoryReading] = accelerator.memory_in_use) -> None:
        self._clock = clock
        self._read = read
        self._before: MemoryReading | None = None

    def note(self) -> dict[str, Any]:
        """Take the baseline, just before a start; returns it as facts for the record."""
        self._before = self._read()
        return {"memory_source": self._before.source, "memory_before": list(self._before.used)}

    def wait(self, *, port: int, timeout: Seconds, published: Callable[[], Iterable[tuple[int, str]]]) -> None:
        """Wait for the port, then for the memory.

        Raises:
            PortBusy, GpuBusy: Not free in time.
        """
        begun = self._clock.monotonic()
        while listeners.is_held(port):
            if self._clock.monotonic() - begun >= timeout:
                raise PortBusy(port=port, holder=listeners.holder(port, published()))
            self._clock.sleep(POLL)
        while not self._memory_is_back():
            waited = self._clock.monotonic() - begun
            if waited >= timeout:
                raise GpuBusy(waited=waited, holders=_holders())
            self._clock.sleep(SETTLE)

    def _memory_is_back(self) -> bool:
        now = self._read()
        if now.source == "none":
            return True
        if self._before is not None and self._before.source == now.source:
            allowed = TOLERANCE[now.source]
            return all(used <= before + allowed for used, before in zip(now.used, self._before.used, strict=False))
        # Nothing of ours ran before: whatever just ended gives its memory back until two readings agree.
        self._clock.sleep(SETTLE)
        later = self._read()
        return all(used - after < GIB // 16 for used, after in zip(now.used, later.used, strict=False))


def _holders() -> str:
    found = [
        f"{user.name} (pid {user.pid}" + (f", {user.memory / GIB:.1f} GiB)" if user.memory is not None else ")")
        for user in accelerator.users()
    ]
    return ", ".join(found) or "no process that the driver names"
