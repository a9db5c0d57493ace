"""Intervals of paired differences: by Student's t for the mean, by resampling whole blocks for the median."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
RESAMPLINGS = 4000


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval at the 95% level."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half of its width: what the data can tell at best."""
        return (self.high - self.low) / 2


def of_mean(samples: Sequence[float]) -> Interval:
    """Mean and t interval of independent samples, two or more."""
    mean = statistics.fmean(samples)
    half = student_t(len(samples) - 1) * statistics.stdev(samples) / math.sqrt(len(samples))
    return Interval(mean, mean - half, mean + half)


def of_median(samples: Sequence[float], *, seed: int = 1) -> Interval:
    """Median and bootstrap interval: what one block in ten, spoilt by another program, cannot move."""
    chance = random.Random(seed)
    medians = sorted(statistics.median(chance.choices(samples, k=len(samples))) for _ in range(RESAMPLINGS))
    cut = round((1 - LEVEL) / 2 * RESAMPLINGS)
    return Interval(statistics.median(samples), medians[cut], medians[-cut - 1])


def student_t(freedom: int) -> float:
    """The two-sided 95% quantile of Student's t.

    Source:
        Cornish-Fisher expansion around the normal quantile (Abramowitz and Stegun, 26.7.5); within 0.5% from 4 degrees of freedom
        on.
    """
    z = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, start=1)))
