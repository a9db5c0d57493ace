"""How many draft tokens a step accepts: chains of conditional odds, and how content moves them.

A draft of k tokens is accepted up to its first rejected position. The profile gives the *unconditional* rate of each
position (accepted at i / drafts), as engines report it. Content is easier or harder to draft: a shift in logit space that
moves every conditional rate of a request. `Chain.calibrated` solves for the odds whose average over all content is exactly
the given rates, so that the truth that was set is the truth that a long measurement finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

_GRID = tuple(-5.0 + 0.25 * i for i in range(41))
_RAW = tuple(math.exp(-0.5 * z * z) for z in _GRID)
NODES: tuple[tuple[float, float], ...] = tuple((z, w / sum(_RAW)) for z, w in zip(_GRID, _RAW, strict=True))
"""Points and weights of a standard normal average: the trapezoid rule, exact to 1e-10 for what is averaged here."""

LEVELS_PER_UNIT = 16
"""Shifts are rounded to 1/16 of a logit, so that a step looks a table up instead of computing odds."""


def logistic(x: float) -> float:
    """Return 1 / (1 + exp(-x)) without overflow."""
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    grown = math.exp(x)
    return grown / (1.0 + grown)


def logit(p: float) -> float:
    """Return the log odds of p, held within +-30 so that 0 and 1 stay finite."""
    if p <= 0.0:
        return -30.0
    if p >= 1.0:
        return 30.0
    return max(-30.0, min(30.0, math.log(p / (1.0 - p))))


def conditionals(positions: Sequence[float]) -> tuple[float, ...]:
    """Return the rate of each position given that the one before was accepted."""
    before = 1.0
    found = []
    for rate in positions:
        found.append(rate / before if before > 0 else 0.0)
        before = rate
    return tuple(found)


def scaled_to(shape: Sequence[float], length: float) -> tuple[float, ...]:
    """Return rates of the same shape whose acceptance length (1 + their sum) is `length`: one shift of all log odds."""
    odds = [logit(c) for c in conditionals(shape)]
    wanted = length - 1.0
    if not 0.0 < wanted < len(odds):
        raise ValueError(f"an acceptance length of {length} is out of reach with {len(odds)} draft tokens")
    shift = _root(lambda x: sum(_unconditional(odds, x)) - wanted)
    return _unconditional(odds, shift)


def _unconditional(odds: Sequence[float], shift: float) -> tuple[float, ...]:
    rate = 1.0
    rates = []
    for value in odds:
        rate *= logistic(value + shift)
        rates.append(rate)
    return tuple(rates)


def _missing(carried: Sequence[float], spread: float, wanted: float, odds: float) -> float:
    reached = (c * logistic(odds + spread * z) for c, (z, _) in zip(carried, NODES, strict=True))
    return sum(reached) - wanted


def _root(rising: Callable[[float], float]) -> float:
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@dataclass(frozen=True)
class Chain:
    """Conditional log odds by position, at the middle of all content.

    Attributes:
        odds: Shape: (num_speculative_tokens,), position 0 first.
        spread: Standard deviation of the shift over all content and all moments, in logit units.
    """

    odds: tuple[float, ...]
    spread: float
    _tables: dict[int, tuple[float, ...]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def calibrated(cls, positions: Sequence[float], *, spread: float) -> Chain:
        """Return the chain whose average over content has exactly these unconditional rates."""
        if spread <= 0.0:
            return cls(tuple(logit(c) for c in conditionals(positions)), 0.0)
        carried = [w for _, w in NODES]
        odds: list[float] = []
        for wanted in positions:
            here = _root(partial(_missing, carried, spread, wanted))
            odds.append(here)
            carried = [c * logistic(here + spread * z) for c, (z, _) in zip(carried, NODES, strict=True)]
        return cls(tuple(odds), spread)

    def positions(self, shift: float) -> tuple[float, ...]:
        """Return the unconditional rates for content with this shift."""
        return _unconditional(self.odds, shift)

    def length(self, shift: float) -> float:
        """Return the acceptance length for content with this shift."""
        return 1.0 + sum(self.positions(shift))

    def length_variance(self, shift: float) -> float:
        """Return the variance of the tokens of one drafting step, from E[A^2] = sum over i of (2i - 1) P(A >= i)."""
        rates = self.positions(shift)
        mean = sum(rates)
        return sum((2 * i + 1) * rate for i, rate in enumerate(rates)) - mean * mean

    def table(self, shift: float) -> tuple[float, ...]:
        """Return the rates in rising order, for the shift rounded to a level: accepted = k - bisect_right(table, uniform)."""
        level = round(shift * LEVELS_PER_UNIT)
        found = self._tables.get(level)
        if found is None:
            found = tuple(reversed(self.positions(level / LEVELS_PER_UNIT)))
            self._tables[level] = found
        return found
