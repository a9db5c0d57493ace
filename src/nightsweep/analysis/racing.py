"""What a decision is made of: windows, how contenders stand, and what is asked."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from nightsweep.analysis.intervals import quantile
from nightsweep.plan.opening import Place

CONFIDENCE = 0.95
INDIFFERENT = 0.01
"""Ratio by which the pick may be worse than the best without being a wrong one."""


@dataclass(frozen=True)
class Run:
    """One clean window of a contender.

    Attributes:
        draw: Which stretch of the seeded prompts it drew; windows of equal place and draw had the same.
        acceptance: Acceptance length; None for an engine without speculation.
    """

    config: str
    boot: int
    place: Place
    draw: int
    rate: float
    acceptance: float | None


@dataclass(frozen=True)
class Standing:
    """How one contender stands against the leader.

    Attributes:
        behind: Logarithm of the leader's objective over its own: 0 for the leader.
        se, df: Of `behind`.
        possible: Chance (one-sided) that it is better than the leader by more than the indifference, as the data have it.
        open: Whether it may still be the best.
    """

    config: str
    behind: float
    se: float
    df: float
    possible: float
    open: bool
    windows: int
    boots: int

    def within(self, level: float) -> float:
        """Return half the width of the interval of `behind`; infinite where nothing tells how far it scatters."""
        return math.inf if not math.isfinite(self.se) else quantile(level, self.df) * self.se

    @property
    def lead(self) -> float:
        """By how much the leader's objective is more than its own, as a ratio of its own."""
        return math.expm1(self.behind)

    def lead_span(self, level: float) -> tuple[float, float] | None:
        """Return the interval of `lead`; None where nothing tells how far it scatters."""
        half = self.within(level)
        return (math.expm1(self.behind - half), math.expm1(self.behind + half)) if math.isfinite(half) else None

    def lead_said(self, level: float, *, on: str | None = None) -> str:
        """Return the lead with its interval, for people; `on` is what it rests on, in words."""
        found = self.lead_span(level)
        span = None if found is None else f"{100 * level:g}%: {100 * found[0]:.1f} to {100 * found[1]:.1f}%"
        more = "; ".join(part for part in (span, on) if part is not None)
        return f"{100 * self.lead:.1f}% ({more})" if more else f"{100 * self.lead:.1f}%"


@dataclass(frozen=True)
class Rule:
    """What is asked.

    Attributes:
        weights: Of each place; they are divided by their sum.
        most: Windows of one config at one place at most.
        incumbent: Config that serves now: it is confirmed beside the winner.
        pooled: Whether acceptance is taken to be the same at every concurrency of a temperature.
    """

    weights: Mapping[Place, float]
    most: int = 12
    incumbent: str | None = None
    pooled: bool = True
    confidence: float = CONFIDENCE
    indifferent: float = INDIFFERENT

    def share(self, place: Place) -> float:
        """Return a place's weight as a part of 1."""
        return self.weights[place] / math.fsum(self.weights.values())

    def kind(self, place: Place) -> Hashable:
        """Return the class of a place: all of a class have one acceptance length of a config, up to what its prompts do."""
        return place[1] if self.pooled else place
