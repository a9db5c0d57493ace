"""Rates from acceptance pooled over concurrencies: single-stream rates with several times less noise, where the data allow it.

Rate = acceptance length x the rest, and the rest (streams / step time) is nearly exact. What scatters is acceptance, by the
content that is drawn: a window of 16 streams sees 16 times as much of it as one of a single stream. Whether acceptance is the
same at every concurrency is a fact of the engine, not ours to assume: it is tested (`Pooling`), and where the data contradict it
nothing is pooled. A pooled number stands beside the plain mean, never instead of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from nightsweep.analysis.intervals import LEVEL, Interval, Noise, Observation, interval_of, noise_of, quantile
from nightsweep.analysis.values import WindowRow

TEST_LEVEL = 0.05
"""How often a set of cells that may be pooled is refused all the same: both tests together, half each."""

Group = tuple[str, str, str, float]
"""Config fingerprint, conditions, box, temperature: what acceptance is pooled over is its concurrencies."""


@dataclass(frozen=True)
class Pooling:
    """Whether acceptance may be pooled over the concurrencies of a group.

    Attributes:
        p_spread: Chance of concurrencies that differ this much among themselves if acceptance were the same at all; None
            where there is nothing to test.
        p_trend: As much for a trend with the logarithm of the concurrency, all configs and temperatures together.
        trend: That trend: relative change of acceptance length for each doubling of the streams.
        reason: Why it may not be pooled; None when it may.
    """

    p_spread: float | None
    p_trend: float | None
    trend: float | None
    reason: str | None

    @property
    def allowed(self) -> bool:
        """Whether the data do not contradict it."""
        return self.reason is None


@dataclass(frozen=True)
class PooledRate:
    """A cell's decode rate in tokens / second by pooled acceptance, with the acceptance length it rests on."""

    config_fingerprint: str
    conditions: str
    box: str
    temperature: float
    streams: int
    rate: Interval | None  # None where pooling is not allowed
    acceptance: Interval | None
    pooling: Pooling


def pooled_rates(windows: Sequence[WindowRow]) -> list[PooledRate]:
    """Return one pooled rate for each cell that has acceptance and rate in clean windows; control windows are in none."""
    rows = [
        row
        for row in windows
        if not row.flags and not row.control and row.decode_rate is not None and row.acceptance_length is not None
    ]
    acceptance = [_observed(row, row.acceptance_length or 0.0) for row in rows]
    rest = [_observed(row, (row.decode_rate or 0.0) / (row.acceptance_length or 1.0)) for row in rows]
    noise, rest_noise = noise_of(acceptance), noise_of(rest)
    found: list[PooledRate] = []
    for group, members in _groups(acceptance).items():
        pooling = pooling_of(members, noise, family=acceptance)
        shared = _shared(members, noise) if pooling.allowed else None
        for streams in sorted({one.streams for one in members}):
            own = [one for one in rest if one.cell == (group, streams)]
            found.append(PooledRate(*group, streams, _product(shared, interval_of(own, rest_noise)), shared, pooling))
    return found


def _observed(row: WindowRow, value: float) -> Observation:
    group: Group = (row.config_fingerprint, row.conditions, row.box, float(row.temperature))
    config = (row.config_fingerprint, row.conditions, row.box)
    return Observation(value, config, row.boot_id, (group, row.concurrency), row.concurrency, float(row.temperature))


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


def pooling_of(members: Sequence[Observation], noise: Noise, *, family: Sequence[Observation]) -> Pooling:
    """Return whether acceptance of one group may be pooled.

    Args:
        members: Acceptance lengths of one config at one temperature, all concurrencies.
        family: Those of all configs and temperatures: a trend that they share is seen sooner together.
    """
    points = _points(members, noise)
    if len(points) < 2:
        return Pooling(None, None, None, "one concurrency only: there is nothing to pool")
    p_spread = _spread_test(points)
    p_trend, trend = _trend_test([_points(group, noise) for group in _groups(family).values()])
    reason = None
    if p_spread is not None and p_spread < TEST_LEVEL / 2:
        reason = f"acceptance differs between concurrencies (p={p_spread:.3f})"
    elif p_trend is not None and p_trend < TEST_LEVEL / 2:
        reason = f"acceptance goes with concurrency ({100 * (trend or 0):+.1f}% for each doubling, p={p_trend:.3f})"
    return Pooling(p_spread, p_trend, trend, reason)


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
    from scipy.special import fdtrc

    df = min(point.df for point in points)
    if df < 1:
        return None
    q = math.fsum((point.value - 1) ** 2 / point.variance for point in points) / (len(points) - 1)
    return float(fdtrc(len(points) - 1, df, q))


def _trend_test(groups: Sequence[Sequence[_Point]]) -> tuple[float | None, float | None]:
    """Return the chance of a slope this far from 0, and the slope, shared by the groups."""
    from scipy.special import stdtr

    above, below, df = 0.0, 0.0, math.inf
    for points in groups:
        weights = [1 / point.variance for point in points]
        if len(points) < 2:
            continue
        middle = math.fsum(w * point.x for w, point in zip(weights, points, strict=True)) / math.fsum(weights)
        above += math.fsum(w * (p.x - middle) * (p.value - 1) for w, p in zip(weights, points, strict=True))
        below += math.fsum(w * (p.x - middle) ** 2 for w, p in zip(weights, points, strict=True))
        df = min(df, *(point.df for point in points))
    if below == 0 or df < 1 or math.isinf(df):
        return None, None
    slope = above / below
    return float(2 * stdtr(df, -abs(slope) * math.sqrt(below))), slope


# --- the estimate ----------------------------------------------------------------------------------------------------


def _shared(members: Sequence[Observation], noise: Noise) -> Interval | None:
    """Return acceptance length over all concurrencies, each window weighted by how little it scatters."""
    parts = []
    for one in members:
        known = noise.of(one.streams, one.temperature)
        if known is None or known.value == 0:
            return None
        parts.append((one, 1 / known.value, known.df))
    total = math.fsum(weight for _, weight, _ in parts)
    mean = math.fsum(weight * one.value for one, weight, _ in parts) / total
    boots: dict[Hashable, float] = defaultdict(float)
    for one, weight, _ in parts:
        boots[one.boot] += weight / total
    variance = 1 / total + (noise.between or 0.0) * math.fsum(share * share for share in boots.values())
    df = min(known for _, _, known in parts)
    se = math.sqrt(variance)
    half = quantile(LEVEL, df) * se * mean
    return Interval(mean, mean - half, mean + half, se, df, len(parts), len(boots), LEVEL, noise.between is not None)


def _product(acceptance: Interval | None, rest: Interval | None) -> Interval | None:
    if acceptance is None or rest is None:
        return None
    mean, se = acceptance.mean * rest.mean, math.hypot(acceptance.se, rest.se)
    df = acceptance.df if acceptance.se >= rest.se else rest.df
    half = quantile(LEVEL, df) * se * mean
    known = acceptance.boot_spread_known and rest.boot_spread_known
    return Interval(mean, mean - half, mean + half, se, df, acceptance.n, acceptance.boots, LEVEL, known)
