"""Noise of a class of windows that are too few to tell it: by what the other classes say of how it goes with the streams."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

TELLING = 1.0
"""Degrees of freedom from which a number of streams says how noise goes with the streams."""
STEPS = 20
"""Rounds of weighting by what was fitted; it has settled to 1e-6 long before."""

Point = tuple[int, float, float]
"""Streams, a variance, its degrees of freedom."""


@dataclass(frozen=True)
class Curve:
    """Variance of a window = `content` / streams + `rest`, in squared ratios of the mean.

    What scatters by the content that is drawn shrinks with the streams; what a step, a boot or a clock brings does not.

    Attributes:
        covariance: Of `content` with itself, of both, of `rest` with itself.
    """

    content: float
    rest: float
    covariance: tuple[float, float, float]

    def at(self, streams: int) -> tuple[float, float]:
        """Return the variance at so many streams and its degrees of freedom (infinite where it is exactly known)."""
        value, x = self.content / streams + self.rest, 1 / streams
        of_content, both, of_rest = self.covariance
        scatter = of_content * x * x + 2 * both * x + of_rest
        return value, 2 * value * value / scatter if scatter > 0 else math.inf

    def known_less(self, fewer: float) -> Curve:
        """Return the same known by that many times fewer degrees of freedom."""
        of_content, both, of_rest = self.covariance
        return replace(self, covariance=(of_content * fewer, both * fewer, of_rest * fewer))


def constant(value: float, df: float) -> Curve:
    """Return a curve that does not go with the streams."""
    return Curve(0.0, value, (0.0, 0.0, 2 * value * value / df))


def curve_of(points: Sequence[Point]) -> Curve | None:
    """Return the curve through variances of classes; None for none. Neither part is ever below 0.

    It is the maximum of the likelihood of the gamma distribution, by weights that are fitted in turn. Where fewer than two
    numbers of streams tell their noise (`TELLING`), it is taken to go with the content.

    Source:
        P. McCullagh, J. A. Nelder, Generalized Linear Models, 1989, ch. 8.
    """
    if not points:
        return None
    content = _pooled([(value * streams, df) for streams, value, df in points])
    by_content = Curve(content[0], 0.0, (_scatter(*content), 0.0, 0.0))
    known: dict[int, float] = defaultdict(float)
    for streams, _, df in points:
        known[streams] += df
    if sum(df >= TELLING for df in known.values()) < 2 or content[0] == 0:
        return by_content
    flat = constant(*_pooled([(value, df) for _, value, df in points]))
    both = _of_both(points, start=Curve(content[0] / 2, flat.rest / 2, (0.0, 0.0, 0.0)))
    if both is not None and both.content > 0 and both.rest > 0:
        return both
    return min(by_content, flat, key=lambda curve: _deviance(points, curve))


def _pooled(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    df = math.fsum(own for _, own in parts)
    return math.fsum(value * own for value, own in parts) / df, df


def _scatter(value: float, df: float) -> float:
    return 2 * value * value / df


def _of_both(points: Sequence[Point], *, start: Curve) -> Curve | None:
    """Return the curve of both parts without regard to their signs; None where it leaves what a variance can be."""
    found = start
    for _ in range(STEPS):
        a = b = c = right = right_rest = 0.0
        for streams, value, df in points:
            now = found.at(streams)[0]
            if now <= 0:
                return None
            weight, x = df / (2 * now * now), 1 / streams
            a, b, c = a + weight * x * x, b + weight * x, c + weight
            right, right_rest = right + weight * x * value, right_rest + weight * value
        inverse = a * c - b * b
        if inverse <= 1e-9 * a * c:
            return None
        content, rest = (c * right - b * right_rest) / inverse, (a * right_rest - b * right) / inverse
        found = Curve(content, rest, (c / inverse, -b / inverse, a / inverse))
    return found


def _deviance(points: Sequence[Point], curve: Curve) -> float:
    """Return minus twice the logarithm of the likelihood, up to a constant."""
    fitted = [(curve.at(streams)[0], value, df) for streams, value, df in points]
    if any(now <= 0 for now, _, _ in fitted):
        return math.inf
    return math.fsum(df * (math.log(now) + value / now) for now, value, df in fitted)
