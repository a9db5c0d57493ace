"""A clock that moves only when told, or when somebody sleeps on it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from nightsweep.units import MonotonicSeconds, Seconds

EVENING = datetime(2026, 11, 29, 22, 30, tzinfo=UTC)


class FakeClock:
    """Implements `ports.Clock`; `monotonic` and `now` move together."""

    def __init__(self, *, start: datetime = EVENING) -> None:
        self._start = start
        self._passed = 0.0
        self._lock = threading.Lock()

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(1000.0 + self._passed)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed)

    def sleep(self, seconds: Seconds) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._lock:
            self._passed += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock, as a person or a time server does; the monotonic clock goes on."""
        with self._lock:
            self._start += timedelta(seconds=seconds)
