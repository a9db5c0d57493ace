"""Real time for the engine: steps on absolute deadlines.

A step's deadline is the one before plus the step's length. When the machine is busy and a step comes late, the next ones
follow without waiting until the deadlines are met again: the average rate stays what was set, and the lateness is measured
and told, so that a test can refuse to judge a machine that was too busy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from nightsweep.simulator.engine import EngineCore

LATE = 0.003
"""Seconds beyond its deadline (plus a tenth of its length) from which a step counts as late."""
_GIVE_UP = 2.0  # a delay beyond this is not caught up with: the machine slept


class Pacer:
    """Runs an engine's steps in real time.

    Args:
        speed: Simulated seconds that pass in a real one.
        monotonic: The clock; the running loop's own by default.
    """

    def __init__(self, core: EngineCore, *, speed: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.core = core
        self.speed = speed
        self.steps = 0
        self.late_steps = 0
        self.worst_late = 0.0
        self.given_up = 0.0
        self.busy = 0.0
        self.slow_since: float | None = None
        self.slow_per_second = 0.0
        self._stalled_until = 0.0
        self._now = monotonic
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Say that there may be work."""
        self._wake.set()

    def stall(self, seconds: float) -> None:
        """Make no step for so many real seconds."""
        self._stalled_until = self._now() + seconds

    def slow_down(self, fraction_per_second: float) -> None:
        """Let steps take longer from now on, by this fraction with every real second."""
        self.slow_since = self._now() if fraction_per_second else None
        self.slow_per_second = fraction_per_second

    def lateness(self) -> dict[str, float]:
        """Return what the machine did to the pace: shares of steps, and real seconds."""
        return {
            "late_fraction": self.late_steps / self.steps if self.steps else 0.0,
            "late_steps": self.late_steps,
            "paced_steps": self.steps,
            "worst_late_seconds": self.worst_late,
            "given_up_seconds": self.given_up,
        }

    async def run(self) -> None:
        """Make steps until cancelled."""
        deadline: float | None = None
        while True:
            await self._sit_out()
            now = self._now()
            simulated = self.core.begin(now)
            if simulated is None:
                deadline = None
                await self._wake.wait()
                self._wake.clear()
                continue
            length = simulated / self.speed * self._slowed(now)
            deadline = (now if deadline is None else deadline) + length
            await self._until(deadline)
            self.busy += length
            now = self._now()
            deadline = self._account(now, deadline, length)
            self.core.finish(now)

    async def _sit_out(self) -> None:
        while (left := self._stalled_until - self._now()) > 0:
            await asyncio.sleep(left)

    def _slowed(self, now: float) -> float:
        if self.slow_since is None:
            return 1.0
        return 1.0 + self.slow_per_second * (now - self.slow_since)

    async def _until(self, deadline: float) -> None:
        await asyncio.sleep(max(0.0, deadline - self._now()))

    def _account(self, now: float, deadline: float, length: float) -> float:
        """Count the step; return the deadline from which the next one is reckoned."""
        self.steps += 1
        late = now - deadline
        if late > LATE + 0.1 * length:
            self.late_steps += 1
            self.worst_late = max(self.worst_late, late)
        if late > _GIVE_UP or self._stalled_until > deadline:
            self.given_up += late
            return now
        return deadline
