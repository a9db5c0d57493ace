"""Where the level of a series changed: the best split into two levels, tested by permutation, and then both sides again.

Windows of one boot share its luck, so a point of the series is a boot's mean. The best split of a stretch into two levels is
that of least squares; for one split its gain has a closed form (CUSUM), the same that `ruptures.KernelCPD` with a linear kernel
finds (C. Truong, L. Oudre, N. Vayatis, Signal Processing 167, 2020), without the seconds that importing it with SciPy takes. It
stands only when at most `LEVEL` of random orders of the same points can be split as well: the divisive procedure with a
permutation test of D. S. Matteson and N. A. James (JASA 109, 2014). Then both stretches are looked at again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEVEL = 0.05
"""Share of series without any change in which one is found."""
FEWEST = 8
"""Points below which no order of them is rare enough: of 7 points in two levels, every 17th order shows two levels."""
SHORTEST = 2
"""Points of a level at least: one boot alone is no level."""
PERMUTATIONS = 199


@dataclass(frozen=True)
class Change:
    """The level before and after a point of the series.

    Attributes:
        index: First point of the new level.
        points_before, points_after: Boots of the two levels, up to the changes beside it.
        p: Share of random orders that can be split as well, this one among them.
    """

    index: int
    before: float
    after: float
    points_before: int
    points_after: int
    p: float

    @property
    def ratio(self) -> float:
        """The new level divided by the old one."""
        return math.nan if self.before == 0 else self.after / self.before


def too_few(points: int) -> str | None:
    """Return why a series says nothing of changes; None when it is long enough."""
    if points >= FEWEST:
        return None
    return f"too few boots to tell a change from chance: {points} of at least {FEWEST}"


def changes_in(values: Sequence[float]) -> list[Change]:
    """Return the changes of level, in order; none when the series is too short. The same series always gives the same answer."""
    if too_few(len(values)) is not None:
        return []
    found: dict[int, float] = {}
    _divide(values, 0, len(values), found)
    edges = [0, *sorted(found), len(values)]
    return [
        Change(
            index=at,
            before=math.fsum(values[start:at]) / (at - start),
            after=math.fsum(values[at:end]) / (end - at),
            points_before=at - start,
            points_after=end - at,
            p=found[at],
        )
        for start, at, end in zip(edges, edges[1:], edges[2:], strict=False)
    ]


def _divide(values: Sequence[float], start: int, end: int, found: dict[int, float]) -> None:
    """Add the split of values[start:end] to `found`, when there is one that stands, and those of its two sides."""
    from nightsweep.analysis.numeric import np

    if end - start < FEWEST:
        return
    part = np.asarray(values[start:end], dtype=np.float64)
    at, gain = _best_split(part)
    if gain <= 0:
        return
    chance = np.random.default_rng(end - start)
    as_well = 0
    for _ in range(PERMUTATIONS):
        as_well += _best_split(chance.permutation(part))[1] >= gain * (1 - 1e-9)
        if as_well + 1 > LEVEL * (PERMUTATIONS + 1):
            return  # whatever the orders that are left say
    found[start + at] = (as_well + 1) / (PERMUTATIONS + 1)
    _divide(values, start, start + at, found)
    _divide(values, start + at, end, found)


def _best_split(part: NDArray[np.float64]) -> tuple[int, float]:
    """Return where two levels fit a series best, and by how much their squared error is less than that of one.

    Shape:
        part: (points,), more than twice `SHORTEST`.

    Source:
        With S(k) the sum of the first k deviations from the mean of all n, the gain is S(k)^2 * n / (k * (n - k)).
    """
    from nightsweep.analysis.numeric import np

    n = len(part)
    places = np.arange(SHORTEST, n - SHORTEST + 1)
    sums = np.cumsum(part - part.mean())[places - 1]
    gains = sums * sums * n / (places * (n - places))
    best = int(np.argmax(gains))
    return int(places[best]), float(gains[best])
