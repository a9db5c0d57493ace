"""Rates from acceptance pooled over concurrencies: single-stream rates with several times less noise, where the data allow it.

Rate = acceptance length x the rest, and the rest (streams / step time) is nearly exact. What scatters is acceptance, by the
content that is drawn: a window of 16 streams sees 16 times as much of it as one of a single stream. Whether acceptance is the
same at every concurrency is a fact of the engine, not ours to assume: it is tested (`Pooling`), and where the data contradict it
nothing is pooled. A pooled number stands beside the plain mean, never instead of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from nightsweep.analysis.comparing import NOTHING_SHARED, Shared, less, two_sided
from nightsweep.analysis.distributions import fisher_above, normal_quantile, student_quantile
from nightsweep.analysis.intervals import (
    LEVEL,
    Interval,
    Noise,
    Observation,
    Variance,
    around,
    combined,
    interval_of,
    more_by_weights,
    noise_of,
    quantile,
)
from nightsweep.analysis.values import WindowRow

SPREAD_LEVEL = 0.025
"""How often one config at one temperature is refused, for concurrencies that differ, although it may be pooled."""
TREND_LEVEL = 0.2
"""How often all of them are refused, for a trend, although they may be pooled. A test that guards a pooling must have power
before it has few false alarms, and a false alarm costs only precision (T. A. Bancroft, Biometrics 20, 1964, takes 0.25)."""
POWER = 0.8
"""How often the trend of `Pooling.least_seen` would be seen."""

Group = tuple[str, str, str, float, str]
"""Config fingerprint, conditions, box, temperature, side: what acceptance is pooled over is its concurrencies."""


@dataclass(frozen=True)
class Pooling:
    """Whether acceptance may be pooled over the concurrencies of a group.

    Attributes:
        p_spread: Chance of concurrencies that differ this much among themselves if acceptance were the same at all; None
            where there is nothing to test.
        p_trend: As much for a trend with the logarithm of the concurrency, all configs and temperatures together.
        trend: That trend: relative change of acceptance length for each doubling of the streams.
        least_seen: Smallest change, as a ratio, from the fewest streams to the most that these data would show in 8 of 10 cases:
            a smaller one may be there, and is then in the pooled number. None where no trend can be tested.
        reason: Why it may not be pooled; None when it may.
    """

    p_spread: float | None
    p_trend: float | None
    trend: float | None
    reason: str | None
    least_seen: float | None = None

    @property
    def allowed(self) -> bool:
        """Whether the data do not contradict it."""
        return self.reason is None


@dataclass(frozen=True)
class Content:
    """What of a pooled acceptance came with the prompts.

    Attributes:
        scatter: Standard deviation that each draw of prompts (streams, draw) brings into the mean, as a ratio, if all its noise
            were the prompts'.
        common, common_se, fewer: See `Noise`.
    """

    scatter: Mapping[tuple[int, int], float]
    common: float
    common_se: float
    fewer: float


@dataclass(frozen=True)
class PooledRate:
    """A cell's decode rate in tokens / second by pooled acceptance, with the acceptance length it rests on.

    Attributes:
        side: Whose windows it is of, as `pooled_rates` was told.
    """

    config_fingerprint: str
    conditions: str
    box: str
    temperature: float
    streams: int
    rate: Interval | None  # None where pooling is not allowed
    acceptance: Interval | None
    pooling: Pooling
    content: Content | None = None
    side: str = ""


def pooled_rates(windows: Sequence[WindowRow], *, sides: Mapping[int, str] | None = None) -> list[PooledRate]:
    """Return one pooled rate for each cell that has acceptance and rate in clean windows; control windows are in none.

    Args:
        sides: Whose a window is, by its id: windows of one config and conditions are pooled only with those of their own side.
    """
    of = sides or {}
    rows = [
        row
        for row in windows
        if not row.flags and not row.control and row.decode_rate is not None and row.acceptance_length is not None
    ]
    acceptance = [observed(row, row.acceptance_length or 0.0, side=of.get(row.window_id, "")) for row in rows]
    rest = [
        observed(row, (row.decode_rate or 0.0) / (row.acceptance_length or 1.0), side=of.get(row.window_id, ""))
        for row in rows
    ]
    noise, rest_noise = noise_of(acceptance), noise_of(rest)
    trend = trend_of(acceptance, noise)
    found: list[PooledRate] = []
    for group, members in _groups(acceptance).items():
        pooling = pooling_of(members, noise, trend=trend)
        weighted = _weighted(members, noise) if pooling.allowed else None
        shared = None if weighted is None else _shared(weighted, noise)
        content = None if weighted is None else _content(weighted, noise)
        for streams in sorted({one.streams for one in members}):
            own = [one for one in rest if one.cell == (group, streams)]
            rate = _product(shared, interval_of(own, rest_noise))
            found.append(PooledRate(*group[:4], streams, rate, shared, pooling, content, group[4]))
    return found


def observed(row: WindowRow, value: float, *, side: str = "") -> Observation:
    """Return a window's value with what it depends on; `side` keeps a config apart that is held against itself."""
    group: Group = (row.config_fingerprint, row.conditions, row.box, float(row.temperature), side)
    config = (row.config_fingerprint, row.conditions, row.box, side)
    cell = (group, row.concurrency)
    return Observation(
        value, config, row.boot_id, cell, row.concurrency, float(row.temperature), drawn(row), row.window_id
    )


def drawn(row: WindowRow) -> int:
    """Return which stretch of prompts a window drew; of an imported one nobody knows, so it has it in common with none."""
    return row.repeat if row.source is None else -row.window_id


def _groups(observations: Sequence[Observation]) -> dict[Group, list[Observation]]:
    groups: dict[Group, list[Observation]] = defaultdict(list)
    for one in observations:
        groups[one.cell[0]].append(one)  # type: ignore[index]
    return groups


# --- the test --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Point:
    """A concurrency's mean acceptance, as a ratio of the group's, with its variance."""

    x: float  # logarithm of the streams, base 2
    value: float
    variance: float
    df: float


def pooling_of(members: Sequence[Observation], noise: Noise, *, trend: Trend | None) -> Pooling:
    """Return whether acceptance of one group may be pooled.

    Args:
        members: Acceptance lengths of one config at one temperature, all concurrencies.
        trend: That of all configs and temperatures: a trend that they share is seen sooner together.
    """
    points = _points(members, noise)
    if len(points) < 2:
        several = len({one.streams for one in members}) > 1
        unknown = (
            "how far single runs lie apart is not known: there is nothing to hold concurrencies against each other by"
        )
        return Pooling(None, None, None, unknown if several else "one concurrency only: there is nothing to pool")
    p_spread = _spread_test(points)
    reason = None
    if p_spread is not None and p_spread < SPREAD_LEVEL:
        reason = f"acceptance differs between concurrencies (p={p_spread:.3f})"
    elif trend is not None and trend.p < TREND_LEVEL:
        reason = f"acceptance goes with concurrency ({100 * trend.slope:+.1f}% for each doubling, p={trend.p:.3f})"
    if trend is None:
        return Pooling(p_spread, None, None, reason)
    reach = max(point.x for point in points) - min(point.x for point in points)
    return Pooling(p_spread, trend.p, trend.slope, reason, trend.least_slope * reach)


def _points(members: Sequence[Observation], noise: Noise) -> list[_Point]:
    cells: dict[int, list[Observation]] = defaultdict(list)
    for one in members:
        cells[one.streams].append(one)
    raw = []
    for streams, group in cells.items():
        known = noise.of(streams, group[0].temperature)
        if known is not None and known.value > 0:
            mean = math.fsum(one.value for one in group) / len(group)
            raw.append(_Point(math.log2(streams), mean, known.value / len(group), known.df))
    if not raw:
        return []
    weights = [1 / point.variance for point in raw]
    middle = math.fsum(w * point.value for w, point in zip(weights, raw, strict=True)) / math.fsum(weights)
    return [replace(point, value=point.value / middle) for point in raw]


def _spread_test(points: Sequence[_Point]) -> float | None:
    df = min(point.df for point in points)
    if df < 1:
        return None
    q = math.fsum((point.value - 1) ** 2 / point.variance for point in points) / (len(points) - 1)
    return fisher_above(len(points) - 1, df, q)


@dataclass(frozen=True)
class Trend:
    """A trend of acceptance with the logarithm of the streams, base 2.

    Attributes:
        p: Chance of a slope this far from 0 if there were none.
        least_slope: The slope that would be told from 0 with `POWER`.
    """

    slope: float
    p: float
    least_slope: float


def trend_of(family: Sequence[Observation], noise: Noise) -> Trend | None:
    """Return the trend that all configs and temperatures share; None where it cannot be tested.

    All configs drew the same prompts, so their windows of one draw are not independent of each other: the mean over the configs
    of each draw is one value (a block), and the noise is that of these values.
    """
    blocks = _blocks(family, noise)
    scatter = noise_of(blocks)
    points = [(math.log2(one.streams), one.value - 1, scatter.of(one.streams, one.temperature)) for one in blocks]
    weighed = [(x, y, 1 / known.value, known.df) for x, y, known in points if known is not None and known.value > 0]
    if len({x for x, _, _, _ in weighed}) < 2:
        return None
    middle = math.fsum(w * x for x, _, w, _ in weighed) / math.fsum(w for _, _, w, _ in weighed)
    below = math.fsum(w * (x - middle) ** 2 for x, _, w, _ in weighed)
    slope = math.fsum(w * (x - middle) * y for x, y, w, _ in weighed) / below
    df, se = min(known for _, _, _, known in weighed), 1 / math.sqrt(below)
    if df < 1:
        return None
    least = (student_quantile(df, 1 - TREND_LEVEL / 2) + normal_quantile(POWER)) * se
    return Trend(slope, two_sided(slope, se, df), least)


def _blocks(family: Sequence[Observation], noise: Noise) -> list[Observation]:
    """Return the mean over all configs of each draw at each concurrency and temperature, in ratios of each config's middle."""
    values: dict[tuple[int, float, int], list[float]] = defaultdict(list)
    for members in _groups(family).values():
        weights = [noise.of(one.streams, one.temperature) for one in members]
        if any(known is None or known.value <= 0 for known in weights) or len({one.streams for one in members}) < 2:
            continue
        shares = [1 / known.value for known in weights if known is not None]
        middle = math.fsum(w * one.value for w, one in zip(shares, members, strict=True)) / math.fsum(shares)
        for one in members:
            values[one.streams, one.temperature, one.draw].append(one.value / middle)
    return [
        Observation(math.fsum(found) / len(found), "all", 0, (streams, temperature), streams, temperature, draw)
        for (streams, temperature, draw), found in values.items()
    ]


# --- the estimate ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Weighted:
    """Windows weighted by how little they scatter.

    Attributes:
        windows: Each with its weight, which is the inverse of its variance.
        total: Of all weights.
        shares: Of each class (streams, temperature) in it.
        more: By what the mean's variance is more than the inverse of `total` (see `more_by_weights`).
    """

    windows: Sequence[tuple[Observation, float]]
    total: float
    shares: Mapping[tuple[int, float], float]
    more: float


def _weighted(members: Sequence[Observation], noise: Noise) -> _Weighted | None:
    windows = []
    classes: dict[tuple[int, float], float] = defaultdict(float)
    for one in members:
        known = noise.of(one.streams, one.temperature)
        if known is None or known.value == 0:
            return None
        windows.append((one, 1 / known.value))
        classes[one.streams, one.temperature] += 1 / known.value
    total = math.fsum(classes.values())
    shares = {kind: weight / total for kind, weight in classes.items()}
    return _Weighted(windows, total, shares, more_by_weights(shares, noise))


def _shared(found: _Weighted, noise: Noise) -> Interval:
    """Return acceptance length over all concurrencies, each window weighted by how little it scatters."""
    total = found.total
    mean = math.fsum(weight * one.value for one, weight in found.windows) / total
    boots: dict[Hashable, float] = defaultdict(float)
    for one, weight in found.windows:
        boots[one.boot] += weight / total
    known = {kind: noise.of(*kind) for kind in found.shares}
    scatter = [Variance(found.more * found.shares[kind] / total, one.df) for kind, one in known.items() if one]
    luck = (noise.between or 0.0) * math.fsum(share * share for share in boots.values())
    se, df = combined([*scatter, Variance(luck, noise.between_seen)])
    return Interval(
        mean, *around(mean, se=se, df=df), se, df, len(found.windows), len(boots), LEVEL, noise.between is not None
    )


def _content(found: _Weighted, noise: Noise) -> Content:
    """Return what the prompts may have brought into the mean of `_shared`, draw by draw."""
    scatter: dict[tuple[int, int], float] = defaultdict(float)
    for one, weight in found.windows:
        scatter[one.streams, one.draw] += math.sqrt(found.more * weight) / found.total
    return Content(scatter, noise.common, noise.common_se, noise.fewer)


def _product(acceptance: Interval | None, rest: Interval | None) -> Interval | None:
    if acceptance is None or rest is None:
        return None
    mean = acceptance.mean * rest.mean
    se, df = combined([Variance(one.se * one.se, one.df) for one in (acceptance, rest)])
    known = acceptance.boot_spread_known and rest.boot_spread_known
    return Interval(mean, *around(mean, se=se, df=df), se, df, acceptance.n, acceptance.boots, LEVEL, known)


@dataclass(frozen=True)
class PooledRatio:
    """Two pooled rates held against each other: B divided by A, with its interval. No verdict rests on it alone."""

    ratio: float
    low: float
    high: float


def pooled_ratio(a: PooledRate | None, b: PooledRate | None) -> PooledRatio | None:
    """Return the ratio; None where either is not pooled."""
    one, other = (side.rate if side is not None else None for side in (a, b))
    if one is None or other is None or one.mean <= 0:
        return None
    both = Variance(one.se**2 + other.se**2, min(one.df, other.df))
    left = less(both, _spared(a, b))
    half = quantile(LEVEL, left.df) * math.sqrt(left.value)
    ratio = other.mean / one.mean
    return PooledRatio(ratio, ratio * math.exp(-half), ratio * math.exp(half))


def _spared(a: PooledRate | None, b: PooledRate | None) -> Shared:
    """Return what the ratio is spared of the scatter of prompts that both sides drew."""
    one, other = (None if side is None else side.content for side in (a, b))
    if one is None or other is None or a is None or b is None or a.temperature != b.temperature:
        return NOTHING_SHARED
    draws = one.scatter.keys() & other.scatter.keys()
    spared = 2 * math.fsum(one.scatter[draw] * other.scatter[draw] for draw in draws)
    return Shared(one.common * spared, one.common_se * spared, one.fewer) if draws else NOTHING_SHARED
