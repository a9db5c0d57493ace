"""A run's time of day: what the wall clock showed when the run began, carried on by the monotonic clock.

Somebody, or a time server, may set the wall clock by hours while a sweep runs. By its own time of day a run does not end early
for a step that is taken back, production is not down for longer when it is set back, and no duration on record is negative.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from nightsweep.ports import Clock
from nightsweep.sweep.tools import Tools
from nightsweep.units import MonotonicSeconds, Seconds

STEP = Seconds(30.0)
"""Seconds of difference that no drift makes in a night: the wall clock was set."""
LASTING = Seconds(600.0)
"""Seconds after which a wall clock that was set forward is believed: people expect production by what it shows."""


class SteadyClock:
    """Implements `ports.Clock`. Safe to use from several threads.

    A wall clock that is ahead for `LASTING` is taken over. One that is behind never is: until the run ends, production's
    time is the earlier one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began, self._at = clock.monotonic(), clock.now()
        self._off = 0.0
        self._ahead_since: float | None = None
        self._news: list[str] = []

    def monotonic(self) -> MonotonicSeconds:
        """Return seconds on the monotonic clock."""
        return self._clock.monotonic()

    def sleep(self, seconds: Seconds) -> None:
        """Wait."""
        self._clock.sleep(seconds)

    def now(self) -> datetime:
        """Return the run's time of day, in UTC. Never goes back."""
        with self._lock:
            monotonic, wall = self._clock.monotonic(), self._clock.now()
            off = (wall - self._steady(monotonic)).total_seconds()
            if abs(off - self._off) > STEP:
                self._stepped(off, monotonic)
            if self._ahead_since is not None and monotonic - self._ahead_since >= LASTING:
                self._believe(wall, monotonic)
            return self._steady(monotonic)

    def news(self) -> tuple[str, ...]:
        """Return what became of the wall clock since this was asked last, in words."""
        self.now()
        with self._lock:
            told, self._news = tuple(self._news), []
        return told

    def _steady(self, monotonic: float) -> datetime:
        return self._at + timedelta(seconds=monotonic - self._began)

    def _stepped(self, off: float, monotonic: float) -> None:
        by = off - self._off
        self._off = off
        self._ahead_since = monotonic if off > STEP else None
        way = "forward" if by > 0 else "back"
        self._news.append(f"the wall clock was set {way} by {abs(by):.0f} s; {self._consequence(off)}")

    def _consequence(self, off: float) -> str:
        if abs(off) <= STEP:
            return "it agrees again with the time that has passed"
        if off > 0:
            return (
                f"the night goes by the time that has passed, and by the wall clock if it stays so for {LASTING:.0f} s"
            )
        return "the night ends by the time that has passed: earlier than the wall clock now says"

    def _believe(self, wall: datetime, monotonic: MonotonicSeconds) -> None:
        self._began, self._at = monotonic, wall
        self._off, self._ahead_since = 0.0, None
        self._news.append(f"the wall clock has stayed ahead for {LASTING:.0f} s: the night goes by it from now on")


def tell_steps(tools: Tools, *, sweep_id: int) -> None:
    """Keep what became of the wall clock as events of the sweep."""
    for step in tools.clock_news():
        tools.store.event("clock_stepped", step, level="warning", sweep_id=sweep_id)
