"""Intervals that respect boots: windows of one boot share that boot's luck, and are not independent of each other.

Model, in ratios of a cell's mean: value = cell mean x (1 + boot effect + window noise). The boot effect is one number for all
cells of a boot; window noise has a variance of its own for every concurrency and temperature, the same for all configs compared.
Both variances are estimated from all windows at hand by moments, and a cell's interval is Student's with Satterthwaite's degrees
of freedom (F. E. Satterthwaite, Biometrics Bulletin 2, 1946). What the boots' effects cost each kind of noise is their leverage
in it (S. R. Searle, G. Casella, C. E. McCulloch, Variance Components, 1992, ch. 5 and 6). Where no two boots measured the same
cell the boot effect cannot be seen: the interval is then of those boots alone, and says so. Where every window is of a boot of
its own the two effects are one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nightsweep.analysis.borrowing import Curve, curve_of
from nightsweep.analysis.distributions import student_quantile
from nightsweep.analysis.layouts import Block, Fit, Kind, Residual, blocks_of, fitted

LEVEL = 0.95
ENOUGH = 6
"""Degrees of freedom from which a class of noise stands by itself."""
ROUNDS = 4
LEAST = 0.5
"""Degrees of freedom below which a class of noise says nothing."""
EXACT = 1e-12
"""Least variance that windows are weighted by, in squared ratios: rates that were rounded may agree to the last digit."""


@dataclass(frozen=True)
class Observation:
    """One clean window's value.

    Attributes:
        config: What was booted; boots are compared within it.
        cell: What has one true value; a cell belongs to one config.
        draw: Which stretch of the seeded prompts it drew: windows of equal streams, temperature and draw had the same content.
        window: Its id, by which it counts once wherever it is handed in twice; None for a value that is of no stored window.
    """

    value: float
    config: Hashable
    boot: int
    cell: Hashable
    streams: int
    temperature: float
    draw: int = 0
    window: int | None = None


@dataclass(frozen=True)
class Variance:
    """A variance, in squared ratios of the mean, with its degrees of freedom."""

    value: float
    df: float


@dataclass(frozen=True)
class Interval:
    """A mean with the range that holds the true one at `level`.

    Attributes:
        se: Standard error as a ratio of the mean.
        df: Degrees of freedom of `se`.
        n, boots: Windows, and boots that they come from.
        boot_spread_known: False when no two boots of a config measured the same cell: what differs from boot to boot is not in
            the interval.
    """

    mean: float
    low: float
    high: float
    se: float
    df: float
    n: int
    boots: int
    level: float = LEVEL
    boot_spread_known: bool = True
    parts: tuple[Variance, ...] = ()  # what `se` is made of: of windows, then of boots


@dataclass(frozen=True)
class Noise:
    """How values scatter: within boots by concurrency and temperature, and between boots.

    Attributes:
        within: Variance by (streams, temperature).
        borrowed: Variance by the streams, of all classes: for a class that has too few windows of its own.
        between: Variance of boots; None when no two of a config measured the same cell.
        between_seen: Degrees of freedom by which `between` is known.
        common: Share of the window noise that comes with the prompts and falls out of a difference: configs drew the same ones.
            As it was found, by chance also a little below 0.
        common_se: Its standard error.
        fewer: By how much that has lowered the degrees of freedom of the window noise. What is left in a difference has them all.
    """

    within: Mapping[tuple[int, float], Variance]
    by_streams: Mapping[int, Variance]
    borrowed: Curve | None
    between: float | None
    between_seen: float
    common: float = 0.0
    common_se: float = 0.0
    fewer: float = 1.0

    def of(self, streams: int, temperature: float) -> Variance | None:
        """Return the window noise of a class: its own where it has enough windows, else of its concurrency, else of all."""
        own = self.own(streams, temperature)
        return own if own is not None or self.borrowed is None else Variance(*self.borrowed.at(streams))

    def own(self, streams: int, temperature: float) -> Variance | None:
        """Return the window noise of a class by its own windows, or those of its concurrency; None where they are too few."""
        for found in (self.within.get((streams, temperature)), self.by_streams.get(streams)):
            if found is not None and found.df >= ENOUGH:
                return found
        return None

    def weight(self, kind: Kind) -> float:
        """Return the weight of a window of a class (streams, temperature): the inverse of its variance, if that is known."""
        known = self.of(*kind)
        return kind[0] if known is None else 1 / max(known.value, EXACT)


def noise_of(observations: Sequence[Observation]) -> Noise:
    """Return how the observations scatter, all configs together. Values must be finite and of one kind.

    A window counts once, its first one: two of it would look like two that agree to the last digit.
    """
    data = _relative(each_once(observations))
    blocks = blocks_of(data)
    noise = _within(data, ())
    between: float | None = None
    seen, fits = 0.0, list[tuple[Block, Fit]]()
    for _ in range(ROUNDS):
        fits = [(block, fit) for block in blocks if (fit := fitted(block, noise.weight)) is not None]
        between, seen = _boots([fit for _, fit in fits], noise)
        noise = _within(data, fits)
    if fits and not any(block.free for block in blocks):
        # Every window is of a boot of its own: both kinds of noise are one, and it is in the windows as they are.
        noise, fits, between = _within(data, ()), [], 0.0
    merged = {one.cell for block, _ in fits if not block.free for cell in block.cells for one in cell}
    rest = [one for one in data if one.cell not in merged]
    common, common_se, fewer = _common(rest, _effects(fits), noise.borrowed)
    within = {kind: Variance(one.value, one.df / fewer) for kind, one in noise.within.items()}
    by_streams = {streams: Variance(one.value, one.df / fewer) for streams, one in noise.by_streams.items()}
    borrowed = noise.borrowed and noise.borrowed.known_less(fewer)
    return Noise(within, by_streams, borrowed, between, seen, common, common_se, fewer)


def each_once(observations: Sequence[Observation]) -> list[Observation]:
    """Return the observations without those of a window that came before, or that are the very same object."""
    once: dict[Hashable, Observation] = {}
    for one in observations:
        once.setdefault(("object", id(one)) if one.window is None else one.window, one)
    return list(once.values())


def interval_of(observations: Sequence[Observation], noise: Noise, *, level: float = LEVEL) -> Interval | None:
    """Return the interval of the mean of one cell's observations; None for none, or where no noise is known at all."""
    if not observations:
        return None
    first, n = observations[0], len(observations)
    within = noise.of(first.streams, first.temperature)
    if within is None:
        return None
    share: dict[int, int] = defaultdict(int)
    for one in observations:
        share[one.boot] += 1
    mean = math.fsum(one.value for one in observations) / n
    parts = [Variance(within.value / n, within.df)]
    if noise.between is not None:
        parts.append(Variance(noise.between * sum((k / n) ** 2 for k in share.values()), noise.between_seen))
    se, df = combined(parts)
    low, high = around(mean, se=se, df=df, level=level)
    return Interval(mean, low, high, se, df, n, len(share), level, noise.between is not None, tuple(parts))


def around(mean: float, *, se: float, df: float, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a mean, on its logarithm, as that of a ratio is: what scatters by content is skewed.

    Args:
        se: Standard error as a ratio of the mean.
    """
    half = quantile(level, df) * se
    low, high = sorted((mean * math.exp(-half), mean * math.exp(half)))
    return low, high


def combined(parts: Iterable[Variance]) -> tuple[float, float]:
    """Return the root of summed variances, and Satterthwaite's degrees of freedom of the sum (infinite for nothing)."""
    known = [part for part in parts if part.value > 0]
    total = math.fsum(part.value for part in known)
    if total == 0:
        return 0.0, math.inf
    df = total * total / math.fsum(part.value * part.value / max(part.df, 1.0) for part in known)
    return math.sqrt(total), df


def quantile(level: float, df: float) -> float:
    """Return Student's two-sided quantile: 1.96 for 0.95 and many degrees of freedom."""
    return student_quantile(df, 1 - (1 - level) / 2)


# --- moments ---------------------------------------------------------------------------------------------------------


def _relative(observations: Sequence[Observation]) -> list[Residual]:
    """Return each value as its distance from its cell's mean, in ratios of that mean."""
    cells: dict[Hashable, list[Observation]] = defaultdict(list)
    for one in observations:
        cells[one.cell].append(one)
    found = []
    for group in cells.values():
        mean = math.fsum(one.value for one in group) / len(group)
        if mean == 0:
            continue
        found += [
            Residual(
                one.value / mean - 1, one.config, one.boot, one.cell, one.streams, one.temperature, one.draw, len(group)
            )
            for one in group
        ]
    return found


def _within(data: Sequence[Residual], fits: Sequence[tuple[Block, Fit]]) -> Noise:
    """Return the noise that is left when boots' effects are taken off, by class.

    The effects are weighted means, so a class pays for them by its leverage: what they take of its sum of squares, and more of
    its degrees of freedom, for what they follow of its chance is lost to it twice (as in the information of REML: where boots
    hold all cells, a share p of d taken degrees leaves (1 - p)^2 of them, not 1 - p).
    """
    effects = _effects(fits)
    squares: dict[Kind, float] = defaultdict(float)
    free: dict[Kind, float] = defaultdict(float)
    cells: dict[Hashable, list[Residual]] = defaultdict(list)
    for one in data:
        cells[one.cell].append(one)
    for group in cells.values():
        rest = [one.value - effects.get((one.config, one.boot), 0.0) for one in group]
        mean = math.fsum(rest) / len(rest)
        squares[group[0].kind] += math.fsum((value - mean) ** 2 for value in rest)
        free[group[0].kind] += len(group) - 1
    within, left, known_by = {}, {}, {}
    for kind, all_of in free.items():
        taken = math.fsum(fit.taken.get(kind, 0.0) for _, fit in fits)
        left[kind] = all_of - taken
        known_by[kind] = max(all_of - 2 * taken + math.fsum(fit.lost_once.get(kind, 0.0) for _, fit in fits), LEAST)
        if left[kind] > LEAST:
            within[kind] = Variance(squares[kind] / left[kind], known_by[kind])
    by_streams = {
        streams: _pool([found for (own, _), found in within.items() if own == streams]) for streams, _ in within
    }
    points = [(streams, found.value, found.df) for (streams, _), found in within.items()]
    total = math.fsum(left.values())
    if not points and total > LEAST:  # a little of each class: together they say something
        scaled = math.fsum(squares[kind] * kind[0] for kind in left) / total
        points = [(1, scaled, min(total, math.fsum(known_by.values())))]
    return Noise(within, by_streams, curve_of(points), None, 0.0)


def _effects(fits: Sequence[tuple[Block, Fit]]) -> dict[tuple[Hashable, int], float]:
    """Return each boot's effect by its config and number. A boot is of one block."""
    return {(block.config, boot): effect for block, fit in fits for boot, effect in fit.effects.items()}


def _pool(parts: Sequence[Variance]) -> Variance:
    df = math.fsum(part.df for part in parts)
    return Variance(math.fsum(part.value * part.df for part in parts) / df, df)


def _boots(fits: Sequence[Fit], noise: Noise) -> tuple[float | None, float]:
    """Return the variance between boots with its degrees of freedom; None and 0 where no two boots share a cell."""
    rank = sum(fit.rank for fit in fits)
    if not rank:
        return None, 0.0
    squares = math.fsum(fit.squares for fit in fits)
    expected = math.fsum(more_by_weights(fit.shares, noise) * fit.noise * fit.rank for fit in fits)
    between, seen = max(0.0, (squares - expected) / rank), math.fsum(fit.seen for fit in fits)
    # What is left of a difference of two variances is known less well than the first of them.
    return between, seen * (between * rank / squares) ** 2 if squares else seen


def more_by_weights(shares: Mapping[tuple[int, float], float], noise: Noise) -> float:
    """Return by what a weighted mean's variance is more than the inverse of its weights, for they are estimates themselves.

    Args:
        shares: Of each class (streams, temperature) in all the weights.

    Source:
        P. Meier, Variance of a weighted mean, Biometrics 9, 1953.
    """
    more = 0.0
    for kind, share in shares.items():
        known = noise.own(*kind)
        if known is not None:  # what is borrowed from all has weights that stand in a known ratio
            more += share * (1 - share) / known.df
    return 1 + 4 * more


def _by_draw(
    data: Sequence[Residual], effects: Mapping[tuple[Hashable, int], float], usual: Curve | None
) -> dict[tuple[int, float, int], list[float]]:
    """Return what is left of values without their boots' effects, by streams, temperature and draw, in units of the usual noise.

    A class's own noise would be no unit: of the three draws of a night, those that scatter much by chance have much in common,
    and a share of their own noise takes half of that away again.

    Args:
        usual: Noise by the streams, as all classes tell it.
    """
    rest: dict[tuple[int, float], list[tuple[int, float]]] = defaultdict(list)
    for one in data:
        if one.of > 1:
            value = one.value - effects.get((one.config, one.boot), 0.0)
            free = math.sqrt(1 - 1 / one.of)  # a mean of its own was taken off
            rest[one.streams, one.temperature].append((one.draw, value / free))
    draws: dict[tuple[int, float, int], list[float]] = defaultdict(list)
    for (streams, temperature), values in rest.items():
        own = math.fsum(value * value for _, value in values) / len(values)
        unit = math.sqrt(own if usual is None else usual.at(streams)[0])
        for draw, value in values if own > 0 and unit > 0 else ():
            draws[streams, temperature, draw].append(value / unit)
    return draws


def _common(
    data: Sequence[Residual], effects: Mapping[tuple[Hashable, int], float], usual: Curve | None
) -> tuple[float, float, float]:
    """Return what windows of one draw have in common, as a share of their noise, with its standard error.

    It is the correlation of pairs of configs. The third number is by how much fewer degrees of freedom all configs together have
    than their windows: eight that saw the same prompts tell how prompts scatter little better than one (squares of values that
    correlate by r correlate by its square).

    Source:
        R. A. Fisher, Statistical Methods for Research Workers, chapter VII: the intraclass correlation and its standard error.
    """
    draws = _by_draw(data, effects, usual)
    blocks = [values for values in draws.values() if len(values) > 1]
    classes = len({(streams, temperature) for (streams, temperature, _), values in draws.items() if len(values) > 1})
    pairs = sum(len(values) * (len(values) - 1) for values in blocks)
    free_blocks = len(blocks) - classes
    if free_blocks < ENOUGH:
        return 0.0, 0.0, 1.0
    squares = [math.fsum(value * value for value in values) for values in blocks]
    alike = math.fsum(math.fsum(values) ** 2 - own for values, own in zip(blocks, squares, strict=True))
    found = alike / math.fsum(own * (len(values) - 1) for values, own in zip(blocks, squares, strict=True))
    k = 0.5 + math.sqrt(0.25 + pairs / len(blocks))  # configs of a draw, in the mean of pairs
    likely = min(max(0.0, found), 0.99)
    se = (1 - likely) * (1 + (k - 1) * likely) * math.sqrt(2 / (k * (k - 1) * free_blocks))
    squared = max(likely * likely - se * se, 0.0)  # the square of what scatters is too large by its variance
    return min(max(found, -1 / k), 0.99), se, 1 + (k - 1) * squared
