"""What the engine really did, kept step by step when asked for (`--sim-journal`): the truth that a measurement is held against.

Times are of the machine's monotonic clock, which all its processes share, so that a client may ask for the very moments that
it stamped. A real engine has no such page.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nightsweep.simulator.metrics import EngineMetrics
from nightsweep.simulator.request import Outlet

STEPS = 400_000
REQUESTS = 20_000
"""What is kept at most; older ones are forgotten."""

COUNTERS = ("generation_tokens", "drafts", "draft_tokens", "accepted_tokens", "steps")


@dataclass
class Journaled:
    """A request's outlet that notes when each event left."""

    outlet: Outlet
    arrived: float
    times: list[float] = field(default_factory=list)
    tokens_so_far: list[int] = field(default_factory=list)
    ended: float | None = None
    now: Callable[[], float] = time.monotonic

    def tokens(self, start: int, count: int, finish_reason: str | None) -> bool:
        """Hand tokens on; see `Outlet`."""
        found = self.outlet.tokens(start, count, finish_reason)
        at = self.now()
        self.times.append(at)
        self.tokens_so_far.append(start + count)
        if finish_reason is not None or found:
            self.ended = at
        return found


class Journal:
    """Totals after every step, and every request's events."""

    def __init__(self, *, steps: int = STEPS, requests: int = REQUESTS) -> None:
        self._at: deque[float] = deque(maxlen=steps)
        self._totals: deque[tuple[int, ...]] = deque(maxlen=steps)
        self._requests: deque[Journaled] = deque(maxlen=requests)

    def step(self, at: float, metrics: EngineMetrics) -> None:
        """Note the counters as they are after a step that ended now."""
        self._at.append(at)
        self._totals.append(
            (
                metrics.generation_tokens,
                metrics.drafts,
                metrics.draft_tokens,
                metrics.accepted,
                metrics.iteration_tokens.count,
            )
        )

    def follow(self, outlet: Outlet, *, arrived: float) -> Outlet:
        """Return an outlet that is noted."""
        journaled = Journaled(outlet, arrived)
        self._requests.append(journaled)
        return journaled

    def between(self, since: float, until: float, *, slack: float) -> dict[str, Any]:
        """Return what was done between two moments.

        Returns:
            `since`, `until`: The totals that held at each moment (None before the first step). `opening`, `closing`: All totals
            that held within `slack` of it, each with the moment from which it held. `requests`: Those that overlap, each with
            arrival, end and its events.
        """
        at = list(self._at)
        totals = list(self._totals)
        return {
            "counters": COUNTERS,
            "since": _held_at(at, totals, since),
            "until": _held_at(at, totals, until),
            "opening": _held_within(at, totals, since - slack, since + slack),
            "closing": _held_within(at, totals, until - slack, until + slack),
            "requests": [_told(one) for one in self._requests if _overlaps(one, since, until)],
        }


def _held_at(at: list[float], totals: list[tuple[int, ...]], moment: float) -> tuple[int, ...] | None:
    place = bisect_right(at, moment) - 1
    return totals[place] if place >= 0 else None


def _held_within(at: list[float], totals: list[tuple[int, ...]], begin: float, end: float) -> list[list[Any]]:
    first = max(0, bisect_left(at, begin) - 1)
    return [[at[place], *totals[place]] for place in range(first, bisect_right(at, end))]


def _overlaps(one: Journaled, since: float, until: float) -> bool:
    return one.arrived <= until and (one.ended is None or one.ended >= since)


def _told(one: Journaled) -> dict[str, Any]:
    return {"arrived": one.arrived, "ended": one.ended, "times": one.times, "tokens": one.tokens_so_far}
