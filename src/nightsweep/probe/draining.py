"""Waiting until the engine has nothing to do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from nightsweep.errors import MetricsUnreadable
from nightsweep.measurement.values import Reading
from nightsweep.ports import Clock, Target
from nightsweep.probe.client import DirectClient
from nightsweep.probe.readings import fetch_reading
from nightsweep.units import Seconds

IDLE = "for the engine to be idle"
"""What is said of such a wait."""

POLL = 0.05
SLOWEST_POLL = 0.5
STILL = 2.0
"""SGLang's gauges can keep their last value for half a minute when idle: counters that stand still for so long decide."""

LOOKED_AT = frozenset({"running", "waiting", "generation_tokens"})

LAZY_GAUGES = frozenset({"sglang"})


def idle(reading: Reading) -> bool | None:
    """Return whether nothing runs or waits; None when the engine does not tell."""
    running, waiting = reading.values.get("running"), reading.values.get("waiting")
    if running is None and waiting is None:
        return None
    return not running and not waiting


@dataclass
class _Stillness:
    """For how long a counter has stood still."""

    count: float | None = None
    since: float = 0.0

    def lasts(self, reading: Reading) -> float:
        """Take the next reading and return the seconds; 0 when the engine does not count."""
        count = reading.values.get("generation_tokens")
        if count is None or count != self.count:
            self.count, self.since = count, reading.at
        return reading.at - self.since


async def drained(
    client: DirectClient,
    target: Target,
    *,
    clock: Clock,
    timeout: Seconds,
    gone: asyncio.Event | None = None,
    waiting: Callable[[str], None] = lambda what: None,
) -> bool:
    """Wait until the engine reports nothing running or waiting; False when it does not within `timeout`, or is `gone`.

    A page that cannot be read is not idleness. Where gauges lag (SGLang), a token counter that stands still counts
    as well.

    Args:
        waiting: Told what is waited for, and "" when that is over.
    """
    waiting(IDLE)
    looking = asyncio.create_task(_idle_within(client, target, clock=clock, timeout=timeout))
    dying = asyncio.create_task((gone or asyncio.Event()).wait())
    try:
        await asyncio.wait({looking, dying}, return_when=asyncio.FIRST_COMPLETED)
        return looking.done() and looking.result()
    finally:
        looking.cancel()
        dying.cancel()
        await asyncio.gather(looking, dying, return_exceptions=True)
        waiting("")


async def _idle_within(client: DirectClient, target: Target, *, clock: Clock, timeout: Seconds) -> bool:
    deadline = clock.monotonic() + timeout
    lazy = target.dialect.engine in LAZY_GAUGES
    pause, still = POLL, _Stillness()
    while True:
        with contextlib.suppress(MetricsUnreadable):
            reading = await fetch_reading(client, target, clock=clock, only=LOOKED_AT)
            lasts = still.lasts(reading)
            if idle(reading) or (lazy and lasts >= STILL):
                return True
        if clock.monotonic() + pause > deadline:
            return False
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, SLOWEST_POLL)
