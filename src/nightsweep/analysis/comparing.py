"""One config against another: a ratio with its interval, a verdict, and what more it would take.

A verdict over several cells is held to the level as a whole (Holm's step-down procedure, Scandinavian Journal of Statistics 6,
1979): with twenty cells one would else be "better" by chance. Intervals shown are each at the plain level.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nightsweep.analysis.distributions import student_below
from nightsweep.analysis.intervals import (
    ENOUGH,
    LEVEL,
    Interval,
    Noise,
    Observation,
    Variance,
    combined,
    each_once,
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
class Growth:
    """How what is known of a cell's noise grows with further windows of both sides, in degrees of freedom.

    Attributes:
        own, like: Of the cell's own kind of windows, and of all of its concurrency, as they are now.
        each: What a further window adds: less than 1 where boots' effects take their part.
        each_boot: What a further boot adds to what is known of boots.
    """

    own: float = 0.0
    like: float = 0.0
    each: float = 1.0
    each_boot: float = 1.0

    def windows(self, now: float, more: int) -> float:
        """Return by how much the window noise is known after `more` windows of each side; see `Noise.own`."""
        added = 2 * more * self.each
        return next((df + added for df in (self.own, self.like) if df + added >= ENOUGH), now + added)


AS_IF_ALONE = Growth()


@dataclass(frozen=True)
class Comparison:
    """Config B against config A in one cell.

    Attributes:
        ratio, low, high: B divided by A, with its interval at the plain level; None where an interval cannot be given.
        verdict: Of B: better | worse | same (within `same_within`) | undecided.
        needed: When undecided: further windows of each config that would decide it in its table, if ratio and scatter are what
            they seem; None when that is beyond reason, or nothing can be told.
        why: What stands in the way, in words; None when there is a verdict.
        shared: What came with prompts that both sides drew.
        growth: What further windows would add to what is known of the noise.
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
    growth: Growth = AS_IF_ALONE


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
    everything = each_once([*a, *b, *family])
    noise = noise_of(everything)
    cells: dict[tuple[int, float], tuple[list[Observation], list[Observation]]] = defaultdict(lambda: ([], []))
    for side, observations in enumerate((a, b)):
        for one in observations:
            cells[one.streams, one.temperature][side].append(one)
    found = [
        _cell(streams, temperature, pair, noise, same_within=same_within, level=level)
        for (streams, temperature), pair in sorted(cells.items(), key=lambda item: (item[0][1], item[0][0]))
    ]
    growth = _growth_of(everything, noise)
    return _held_together([replace(one, growth=growth(one.streams, one.temperature)) for one in found], level=level)


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


def _growth_of(observations: Sequence[Observation], noise: Noise) -> Callable[[int, float], Growth]:
    """Return what tells how the noise of a kind of windows (streams, temperature) will be known; a window is given once."""
    cells = Counter((one.cell, one.streams, one.temperature) for one in observations)
    free: dict[tuple[int, float], int] = defaultdict(int)
    for (_, streams, temperature), windows in cells.items():
        free[streams, temperature] += windows - 1
    boots = len({(one.config, one.boot) for one in observations}) - len({one.config for one in observations})
    each_boot = min(1.0, noise.between_seen / boots) if boots else 1.0

    def growth(streams: int, temperature: float) -> Growth:
        kind = streams, temperature
        own, like = noise.within.get(kind), noise.by_streams.get(streams)
        each = 1 / noise.fewer if own is None else min(1.0, own.df / free[kind])
        return Growth(0.0 if own is None else own.df, 0.0 if like is None else like.df, each, each_boot)

    return growth


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
    return replace(found, verdict=UNDECIDED, why=why, p=None)


def judged(found: Comparison, *, level: float) -> Comparison:
    """Return the comparison with interval and verdict by itself, from its two sides' standard errors."""
    assert found.a is not None
    assert found.b is not None
    assert found.ratio is not None
    se, df = difference(found.a, found.b, shared=found.shared)
    half, distance = quantile(level, df) * se, math.log(found.ratio)
    low, high = distance - half, distance + half
    verdict = _verdict(distance, half, within=math.log1p(found.same_within))
    why = OPEN if verdict == UNDECIDED else None
    p = two_sided(distance, se, df)
    return replace(found, low=math.exp(low), high=math.exp(high), verdict=verdict, why=why, p=p)


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


def windows_needed(found: Comparison, *, level: float = LEVEL, together: int = 1) -> int | None:
    """Return further windows of each config until there is a verdict, if ratio and scatter stay what they seem.

    Then the interval lies inside of `same_within` at the plain level, or the difference stands at the strictest step that it may
    be judged at in its table: whatever comes sooner. Both sides' variances shrink as their windows grow in number, as long as new
    windows come from new boots, too, and the noise is known by more degrees of freedom.

    Args:
        found: With both sides, and a ratio above 0.
        together: Cells that the level is shared among, this one with them: those that do not stand yet (`holm`).

    Returns:
        At least 1; None beyond reason (`MOST_WINDOWS`).
    """
    assert found.ratio is not None
    distance = abs(math.log(found.ratio))
    inside = math.log1p(found.same_within) - distance

    def decided(more: int) -> bool:
        se, df = _later(found, more)
        same = inside > 0 and two_sided(inside, se, df) <= 1 - level
        return same or two_sided(distance, se, df) <= (1 - level) / together

    if not decided(MOST_WINDOWS):
        return None
    open_at, decided_at = 0, MOST_WINDOWS
    while decided_at - open_at > 1:
        middle = (open_at + decided_at) // 2
        open_at, decided_at = (open_at, middle) if decided(middle) else (middle, decided_at)
    return decided_at


def _later(found: Comparison, more: int) -> tuple[float, float]:
    """Return `difference` as it would be after further windows of each side."""
    assert found.a is not None
    assert found.b is not None
    a, b = (_with_more(side, found.growth, more) for side in (found.a, found.b))
    most = max(found.a.n, found.b.n)
    shrunk = most / (most + more)  # of what equal prompts spare, if the new windows of both draw the same ones
    shared = replace(found.shared, value=found.shared.value * shrunk, se=found.shared.se * shrunk)
    return difference(a, b, shared=shared)


def _with_more(side: Interval, growth: Growth, more: int) -> Interval:
    windows, *boots = side.parts
    shrunk = side.n / (side.n + more)
    parts = [Variance(windows.value * shrunk, growth.windows(windows.df, more))]
    for one in boots:
        new = 2 * more * side.boots / side.n  # of both sides
        parts.append(Variance(one.value * shrunk, one.df + new * growth.each_boot))
    return replace(side, n=side.n + more, parts=tuple(parts))


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
    """Take back verdicts of a difference that do not stand when all cells are looked at together (Holm); say what it takes."""
    claims = [index for index, one in enumerate(found) if one.p is not None]
    held = list(found)
    for index, stands in zip(claims, holm([found[i].p or 0.0 for i in claims], level=level), strict=True):
        one = found[index]
        if not stands and one.verdict in (BETTER, WORSE):
            why = f"{one.verdict} by itself, but not by enough for one of {len(claims)} cells looked at together"
            held[index] = replace(one, verdict=UNDECIDED, why=why)
    return _with_needed(held, level=level)


def _with_needed(held: Sequence[Comparison], *, level: float) -> list[Comparison]:
    """Return the same with the windows that what is undecided needs: a lone run will be a claim as soon as it has a second."""
    told = [1.0 if one.p is None else one.p for one in held if one.low is not None]
    still = len(told) - sum(holm(told, level=level))
    return [
        replace(one, needed=windows_needed(one, level=level, together=still))
        if one.verdict == UNDECIDED and one.low is not None
        else one
        for one in held
    ]
