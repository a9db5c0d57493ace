"""What each setting of a grid does, alone and together with others: effects on the logarithm of the decode rate.

Model: log rate = cell + main effects + two-way interactions + boot + window noise. The cell (streams and temperature) is a block:
only configs of one cell are held against each other. The fit is generalised least squares with the noise of
`nightsweep.analysis.intervals`: window noise by class, and one effect for each boot in all of its cells (A. C. Aitken,
Proceedings of the Royal Society of Edinburgh 55, 1936). An effect is a contrast of fitted means, and one that the measured
corners do not determine is not guessed.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nightsweep.analysis.comparing import holm, two_sided
from nightsweep.analysis.distributions import fisher_above
from nightsweep.analysis.factors import Corner, Grid
from nightsweep.analysis.intervals import LEVEL, Noise, Observation, Variance, combined, quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

MAIN, ALONE, TOGETHER, INTERACTION = "main", "alone", "together", "interaction"
"""Kinds of effects: in the mean over the others; with the others at their first level; of two at once; beyond what both do."""

MOST_MEANS = 2000
"""Cells of all configs that one fit takes."""


@dataclass(frozen=True)
class Effect:
    """What a change of one setting, or of two, does to the decode rate.

    Attributes:
        change: (factor, level) by place, against the first level of each.
        ratio, low, high: Rate after the change divided by that before; of an interaction, together divided by the product of
            both alone. None where the measured corners do not tell.
        stands: Whether it differs from 1 when all effects are looked at together; None where that cannot be said.
        n, boots: Windows on the corners that it rests on, and their boots.
    """

    kind: str
    change: tuple[tuple[int, int], ...]
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    stands: bool | None
    n: int
    boots: int


@dataclass(frozen=True)
class Fit:
    """All effects of a grid.

    Attributes:
        misfit: Chance of what the model leaves over, if it were only noise: a small one says that effects differ from cell to
            cell, or that three settings interact. None where nothing is left over to test.
        cells: (streams, temperature) that took part.
        boots_known: False when intervals do not hold what differs from boot to boot: no cell was measured in two boots.
    """

    effects: tuple[Effect, ...]
    misfit: float | None
    cells: tuple[tuple[int, float], ...]
    boots_known: bool = True

    def of(self, kind: str, *change: tuple[int, int]) -> Effect | None:
        """Return one effect."""
        return next((one for one in self.effects if one.kind == kind and one.change == change), None)


def effects_of(grid: Grid, observations: Sequence[Observation], noise: Noise) -> Fit:
    """Return main effects and two-way interactions, each with its interval, and what two changes do alone and together.

    Args:
        observations: Decode rates; `config` is the fingerprint that stands on a corner of the grid.

    Raises:
        ValueError: More than MOST_MEANS cells of configs.
    """
    means = _means(observations, noise)
    if len(means) > MOST_MEANS:
        raise ValueError(f"{len(means):,} cells are more than one fit takes ({MOST_MEANS:,})")
    if not means:
        return Fit((), None, ())
    design = _Design(grid, sorted({mean.place for mean in means}))
    solved = _Solved.of(design, means, noise)
    found = [_effect(kind, change, weights, solved, means) for kind, change, weights in design.contrasts()]
    known = noise.between is not None or solved.within is None
    return Fit(tuple(_held_together(found)), solved.misfit, tuple(design.places), known)


# --- means and their noise -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Mean:
    """Mean of a config's windows in one cell; `share` says how much of it is of which boot."""

    config: Hashable
    place: tuple[int, float]
    value: float
    n: int
    within: Variance | None
    share: Mapping[int, float]


def _means(observations: Sequence[Observation], noise: Noise) -> list[_Mean]:
    groups: dict[tuple[Hashable, int, float], list[Observation]] = defaultdict(list)
    for one in observations:
        groups[one.config, one.streams, one.temperature].append(one)
    found = []
    for (config, streams, temperature), group in groups.items():
        mean = math.fsum(one.value for one in group) / len(group)
        share: dict[int, float] = defaultdict(float)
        for one in group:
            share[one.boot] += 1 / len(group)
        if mean > 0:
            found.append(_Mean(config, (streams, temperature), mean, len(group), noise.of(streams, temperature), share))
    return found


# --- design ----------------------------------------------------------------------------------------------------------


class _Design:
    """Columns of the model: one for each cell, each level but the first of each factor, and each pair of those."""

    def __init__(self, grid: Grid, places: Sequence[tuple[int, float]]) -> None:
        self.grid, self.places = grid, list(places)
        self.singles = [(f, level) for f, factor in enumerate(grid.factors) for level in range(1, len(factor.levels))]
        self.pairs = [(one, other) for one, other in itertools.combinations(self.singles, 2) if one[0] != other[0]]

    def row(self, corner: Corner, place: tuple[int, float] | None) -> list[float]:
        """Return the columns of a corner in a cell; of none, for a contrast."""
        cells = [float(place == one) for one in self.places]
        on = [float(corner[f] == level) for f, level in self.singles]
        at = dict(zip(self.singles, on, strict=True))
        return [*cells, *on, *(at[one] * at[other] for one, other in self.pairs)]

    def contrasts(self) -> Iterator[tuple[str, tuple[tuple[int, int], ...], list[float]]]:
        """Yield each effect's kind, change and weights of the columns."""
        for single in self.singles:
            yield MAIN, (single,), self._mean_of(single)
            yield ALONE, (single,), self._alone(single)
        for one, other in self.pairs:
            both = [a + b for a, b in zip(self._alone(one), self._alone(other), strict=True)]
            extra = [0.0] * (len(self.places) + len(self.singles) + len(self.pairs))
            extra[len(self.places) + len(self.singles) + self.pairs.index((one, other))] = 1.0
            yield TOGETHER, (one, other), [a + b for a, b in zip(both, extra, strict=True)]
            yield INTERACTION, (one, other), extra

    def _alone(self, single: tuple[int, int]) -> list[float]:
        corner = [0] * len(self.grid.factors)
        base = self.row(tuple(corner), None)
        corner[single[0]] = single[1]
        return [a - b for a, b in zip(self.row(tuple(corner), None), base, strict=True)]

    def _mean_of(self, single: tuple[int, int]) -> list[float]:
        """Return the contrast of a level with the first of its factor, in the mean over all levels of the others."""
        total = self._alone(single)
        first_pair = len(self.places) + len(self.singles)
        for i, pair in enumerate(self.pairs):
            if single in pair:
                other = pair[1] if pair[0] == single else pair[0]
                total[first_pair + i] += 1 / len(self.grid.factors[other[0]].levels)
        return total


# --- least squares ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Solved:
    """A fit: what each mean weighs in each column's estimate, and the two covariances of the means, of windows and of boots."""

    design: _Design
    columns: Matrix
    solver: Matrix
    values: Matrix
    within: Matrix | None
    boots: Matrix | None
    df: tuple[float, float]
    misfit: float | None

    @classmethod
    def of(cls, design: _Design, means: Sequence[_Mean], noise: Noise) -> _Solved:
        """Fit; without any known noise all means weigh the same, and no interval is given."""
        from nightsweep.analysis.numeric import np

        columns = np.array([design.row(design.grid.corners[str(mean.config)], mean.place) for mean in means])
        values = np.log([mean.value for mean in means])
        variances = [mean.within for mean in means]
        known = [one for one in variances if one is not None and one.value > 0]
        if len(known) < len(means):
            return cls(design, columns, np.linalg.pinv(columns), values, None, None, (0.0, 0.0), None)
        within = np.diag([one.value / mean.n for one, mean in zip(known, means, strict=True)])
        boots = None if noise.between is None else noise.between * _shared(means)
        root = np.linalg.cholesky(within if boots is None else within + boots)
        whitened = np.linalg.solve(root, columns)
        solver = np.linalg.pinv(whitened) @ np.linalg.inv(root)
        df = (min(one.df for one in known), noise.between_seen)
        left = np.linalg.solve(root, values - columns @ (solver @ values))
        free = len(means) - int(np.linalg.matrix_rank(whitened))
        return cls(design, columns, solver, values, within, boots, df, _left_over(float(left @ left), free, df[0]))

    def estimate(self, weights: Sequence[float]) -> tuple[float, float | None, float] | None:
        """Return a contrast with standard error and degrees of freedom; None where the corners do not determine it."""
        from nightsweep.analysis.numeric import np

        contrast = np.array(weights)
        seen = contrast @ np.linalg.pinv(self.columns) @ self.columns
        if not np.allclose(seen, contrast, atol=1e-8):
            return None
        share = contrast @ self.solver
        value = float(share @ self.values)
        if self.within is None:
            return value, None, 0.0
        parts = [Variance(float(share @ self.within @ share), self.df[0])]
        if self.boots is not None:
            parts.append(Variance(float(share @ self.boots @ share), self.df[1]))
        return value, *combined(parts)


def _shared(means: Sequence[_Mean]) -> Matrix:
    """Return how much of its boot each two means share. Shape: (means, means)."""
    from nightsweep.analysis.numeric import np

    boots = sorted({boot for mean in means for boot in mean.share})
    shares = np.array([[mean.share.get(boot, 0.0) for boot in boots] for mean in means])
    return np.asarray(shares @ shares.T, dtype=np.float64)


def _left_over(squares: float, free: int, df: float) -> float | None:
    return fisher_above(free, df, squares / free) if free > 0 and df >= 1 else None


def _effect(
    kind: str, change: tuple[tuple[int, int], ...], weights: Sequence[float], solved: _Solved, means: Sequence[_Mean]
) -> Effect:
    n, boots = _evidence(change, solved.design.grid, means)
    nothing = Effect(kind, change, None, None, None, None, None, n, boots)
    found = solved.estimate(weights)
    if found is None:
        return nothing
    value, se, df = found
    if se is None:
        return replace(nothing, ratio=math.exp(value))
    half = quantile(LEVEL, df) * se
    ends = math.exp(value - half), math.exp(value + half)
    return Effect(kind, change, math.exp(value), *ends, two_sided(value, se, df), None, n, boots)


def _evidence(change: Sequence[tuple[int, int]], grid: Grid, means: Sequence[_Mean]) -> tuple[int, int]:
    """Return windows and boots on the corners where each changed factor is at its first or at its changed level."""
    on = [mean for mean in means if all(grid.corners[str(mean.config)][f] in (0, level) for f, level in change)]
    return sum(mean.n for mean in on), len({boot for mean in on for boot in mean.share})


def _held_together(found: Sequence[Effect]) -> list[Effect]:
    """Say of main effects and interactions which stand when all are looked at together; the others are the same data again."""
    claims = [i for i, one in enumerate(found) if one.p is not None and one.kind in (MAIN, INTERACTION)]
    held = list(found)
    for i, stands in zip(claims, holm([found[i].p or 0.0 for i in claims]), strict=True):
        held[i] = replace(held[i], stands=stands)
    return held
