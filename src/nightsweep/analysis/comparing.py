"""One config against another: a ratio with its interval, a verdict, and what more it would take.

A verdict over several cells is held to the level as a whole (Holm's step-down procedure, Scandinavian Journal of Statistics 6,
1979): with twenty cells one would else be "better" by chance. Intervals shown are each at the plain level.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nightsweep.analysis.distributions import student_below
from nightsweep.analysis.intervals import (
    LEVEL,
    Interval,
    Noise,
    Observation,
    Variance,
    combined,
    interval_of,
    noise_of,
    quantile,
)

SAME_WITHIN = 0.03
"""Ratio within which two configs are called the same, unless the user says another."""
MOST_WINDOWS = 10_000

BOOTS_UNKNOWN = (
    "no cell was measured in two boots of a config: what differs from boot to boot is in no interval, and verdicts are of these "
    "boots"
)
"""Said where no interval holds the spread of boots (`Interval.boot_spread_known`)."""
OPEN = "the interval holds both the same and a difference that matters"
BETTER, WORSE, SAME, UNDECIDED = "better", "worse", "same", "undecided"


@dataclass(frozen=True)
class Shared:
    """Variance that both sides' windows have in common and that falls out of their ratio, in squared ratios.

    Attributes:
        value: By what the ratio's variance is less than the sum of both sides'; by chance also a little below 0.
        se: Standard error of `value`.
        fewer: By how much a side's noise has fewer degrees of freedom than the ratio's (see `Noise.fewer`).
    """

    value: float = 0.0
    se: float = 0.0
    fewer: float = 1.0


NOTHING_SHARED = Shared()


@dataclass(frozen=True)
class Comparison:
    """Config B against config A in one cell.

    Attributes:
        ratio, low, high: B divided by A, with its interval at the plain level; None where an interval cannot be given.
        verdict: Of B: better | worse | same (within `same_within`) | undecided.
        needed: When undecided: further windows of each config that would decide it if the ratio is what it seems; None when
            that is beyond reason, or nothing can be told.
        why: What stands in the way, in words; None when there is a verdict.
        shared: What came with prompts that both sides drew.
    """

    streams: int
    temperature: float
    a: Interval | None
    b: Interval | None
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str
    same_within: float
    needed: int | None = None
    why: str | None = None
    p: float | None = None
    shared: Shared = NOTHING_SHARED


def compare(
    a: Sequence[Observation],
    b: Sequence[Observation],
    *,
    family: Sequence[Observation] = (),
    same_within: float = SAME_WITHIN,
    level: float = LEVEL,
) -> list[Comparison]:
    """Compare B with A in every cell (streams, temperature) that either has.

    Args:
        family: Further windows of the same box and night, to know the noise by. Those of `a` and `b` count once, whether they
            are among them or not.
    """
    noise = noise_of([*a, *b, *family])
    cells: dict[tuple[int, float], tuple[list[Observation], list[Observation]]] = defaultdict(lambda: ([], []))
    for side, observations in enumerate((a, b)):
        for one in observations:
            cells[one.streams, one.temperature][side].append(one)
    found = [
        _cell(streams, temperature, pair, noise, same_within=same_within, level=level)
        for (streams, temperature), pair in sorted(cells.items(), key=lambda item: (item[0][1], item[0][0]))
    ]
    return _held_together(found, level=level)


def _cell(
    streams: int,
    temperature: float,
    pair: tuple[Sequence[Observation], Sequence[Observation]],
    noise: Noise,
    *,
    same_within: float,
    level: float,
) -> Comparison:
    one, other = (interval_of(side, noise, level=level) for side in pair)
    nothing = Comparison(streams, temperature, one, other, None, None, None, UNDECIDED, same_within)
    if not pair[0] or not pair[1]:
        return replace(nothing, why=f"{'A' if not pair[0] else 'B'} has no clean window here")
    mean_a, mean_b = (math.fsum(x.value for x in side) / len(side) for side in pair)
    if one is None or other is None or mean_a <= 0 or mean_b <= 0:
        ratio = mean_b / mean_a if mean_a > 0 else None
        why = "a mean is 0" if min(mean_a, mean_b) <= 0 else "one run of each is no measurement: no spread is known"
        return replace(nothing, ratio=ratio, why=why)
    shared = _shared(pair, noise)
    return _no_lone_run(judged(replace(nothing, ratio=mean_b / mean_a, shared=shared), level=level))


def _shared(pair: tuple[Sequence[Observation], Sequence[Observation]], noise: Noise) -> Shared:
    """Return what the ratio of both means is spared, because windows of one draw had the same prompts."""
    one = pair[0][0]
    known = noise.of(one.streams, one.temperature)
    a, b = (Counter(observation.draw for observation in side) for side in pair)
    if known is None or not a.keys() & b.keys():
        return Shared()
    n, m = len(pair[0]), len(pair[1])
    left = math.fsum((a[draw] / n - b[draw] / m) ** 2 for draw in {*a, *b})
    spared = known.value * (1 / n + 1 / m - left)
    return Shared(noise.common * spared, noise.common_se * abs(spared), noise.fewer)


def _no_lone_run(found: Comparison) -> Comparison:
    """Take back a verdict that rests on one run of either side: a lone run has shipped a wrong config before."""
    sides = [(name, side) for name, side in (("A", found.a), ("B", found.b)) if side is not None and side.n < 2]
    if not sides:
        return found
    who = " and ".join(name for name, _ in sides)
    why = f"{who} rest{'s' if len(sides) == 1 else ''} on one run, and one run is not a measurement"
    return replace(found, verdict=UNDECIDED, needed=max(1, found.needed or 1), why=why, p=None)


def judged(found: Comparison, *, level: float) -> Comparison:
    """Return the comparison with interval and verdict, from its two sides' standard errors."""
    assert found.a is not None
    assert found.b is not None
    assert found.ratio is not None
    se, df = difference(found.a, found.b, shared=found.shared)
    half, distance = quantile(level, df) * se, math.log(found.ratio)
    low, high = distance - half, distance + half
    verdict, needed = _verdict(distance, half, within=math.log1p(found.same_within)), None
    why: str | None = None
    if verdict == UNDECIDED:
        needed = windows_needed(found, se=se, level=level)
        why = OPEN
    p = two_sided(distance, se, df)
    return replace(found, low=math.exp(low), high=math.exp(high), verdict=verdict, needed=needed, why=why, p=p)


def difference(a: Interval, b: Interval, *, shared: Shared = NOTHING_SHARED) -> tuple[float, float]:
    """Return standard error and degrees of freedom of the logarithm of a ratio of two means.

    Both sides' noise is estimated from the same windows, all at hand, so its degrees of freedom count once.
    """
    parts = [
        Variance(one.value + other.value, min(one.df, other.df)) for one, other in zip(a.parts, b.parts, strict=True)
    ]
    return combined([less(parts[0], shared), *parts[1:]])


def less(variance: Variance, shared: Shared) -> Variance:
    """Return what is left of a variance, with the degrees of freedom of the difference."""
    left = max(variance.value - shared.value, 0.0)
    uncertain = 2 * left * left / (variance.df * shared.fewer) + shared.se**2
    return Variance(left, 2 * left * left / uncertain if uncertain else math.inf)


def _verdict(distance: float, half: float, *, within: float) -> str:
    if abs(distance) + half <= within:
        return SAME
    if distance - half > 0:
        return BETTER
    if distance + half < 0:
        return WORSE
    return UNDECIDED


def windows_needed(found: Comparison, *, se: float, level: float) -> int | None:
    """Return further windows of each config until the verdict is likely, if the ratio is what it seems; None beyond reason.

    The standard error must shrink so far that the interval lies on one side of 1, or inside of `same_within`, whichever comes
    sooner. It shrinks with the root of the windows, as long as new windows come from new boots, too.
    """
    assert found.a is not None
    assert found.b is not None
    assert found.ratio is not None
    distance, within = abs(math.log(found.ratio)), math.log1p(found.same_within)
    room = max(distance, within - distance)
    wanted = room / quantile(level, math.inf)
    if se == 0 or wanted <= 0:
        return None
    n = min(found.a.n, found.b.n)
    more = math.ceil(n * (se / wanted) ** 2) - n
    return max(1, more) if more <= MOST_WINDOWS else None


def two_sided(distance: float, se: float, df: float) -> float:
    """Return the chance of a value this far from 0, either way, if 0 were true."""
    if se == 0:
        return 0.0 if distance else 1.0
    return 2 * student_below(df, -abs(distance) / se)


def holm(ps: Sequence[float], *, level: float = LEVEL) -> list[bool]:
    """Return which of the claims stand when all are looked at together, in the order given."""
    standing, stands = True, [False] * len(ps)
    for place, index in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        standing = standing and ps[index] <= (1 - level) / (len(ps) - place)
        stands[index] = standing
    return stands


def _held_together(found: Sequence[Comparison], *, level: float) -> list[Comparison]:
    """Take back verdicts of a difference that do not stand when all cells are looked at together (Holm)."""
    claims = [index for index, one in enumerate(found) if one.p is not None]
    held = list(found)
    for index, stands in zip(claims, holm([found[i].p or 0.0 for i in claims], level=level), strict=True):
        one = found[index]
        if not stands and one.verdict in (BETTER, WORSE):
            why = f"{one.verdict} by itself, but not by enough for one of {len(claims)} cells looked at together"
            together = 1 - (1 - level) / len(claims)
            held[index] = replace(one, verdict=UNDECIDED, why=why, needed=_again(one, level=together))
    return held


def _again(one: Comparison, *, level: float) -> int | None:
    if one.a is None or one.b is None:
        return None
    se, _ = difference(one.a, one.b, shared=one.shared)
    return windows_needed(one, se=se, level=level) or 1
