"""How the contenders of a decision stand against each other: scores, their differences, and how well these are known.

A score is the logarithm of the objective: that of acceptance by windows that drew the same prompts (`analysis.paired`), and that
of the rest of a rate (streams by step time), a mean at each concurrency, with what differs from boot to boot.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nightsweep.analysis.distributions import fisher_above, student_below
from nightsweep.analysis.intervals import Variance, combined
from nightsweep.analysis.paired import Fit, Squares, acceptance
from nightsweep.analysis.racing import Rule, Run, Standing

BOOT_SPREAD = 0.005
REST_SPREAD = 0.003
PRIOR_DF = 2.0
"""What boots, and step times within one, are taken to differ by until the night shows it; and the weight of that, in degrees."""


def standings(runs: Sequence[Run], configs: Sequence[str], rule: Rule) -> list[Standing]:
    """Return how the configs stand, the leader first. Every config must have been opened."""
    fit, rest = acceptance(runs, rule), _rest(runs, rule)
    scores = {config: _score(fit, config, rule) + rest.score(config) for config in configs}
    order = sorted(configs, key=lambda config: -scores[config])
    leader = order[0]
    counts, boots = _counts(runs)
    found = []
    for config in order:
        behind = scores[leader] - scores[config]
        se, df = _together([_contrast(fit, leader, config, rule), *rest.parts(leader, config)])
        possible = 1.0 if config == leader else _beyond(-behind - math.log1p(rule.indifferent), se, df)
        stays = config == leader or possible > 1 - rule.confidence
        found.append(Standing(config, behind, se, df, possible, stays, counts[config], boots[config]))
    return found


def scores_without(
    alone: Sequence[Run], runs: Sequence[Run], configs: Sequence[str], rule: Rule
) -> Iterator[tuple[Run, dict[str, float]]]:
    """Yield the logarithm of each config's objective, up to a constant, with one window left out, for each of some windows.

    A concurrency (without pooling: a place) that only this window of its config tells is left out of the objective, for all; if
    nothing of it is left then, nothing is yielded.
    """
    squares = Squares.of(runs, rule)
    for run in alone:
        left = [one for one in runs if one is not run]
        told = any((one.config, one.place[0]) == (run.config, run.place[0]) for one in left)
        lost = {place for place in rule.weights if place[0] == run.place[0]} if not told else set()
        lost |= set() if rule.pooled else {run.place}
        fewer = replace(rule, weights={place: weight for place, weight in rule.weights.items() if place not in lost})
        if fewer.weights:
            values, _ = squares.values(rule, without=run)
            fit, rest = Fit(squares.index, values), _rest(left, fewer)
            yield run, {config: _score(fit, config, fewer) + rest.score(config) for config in configs}


def pooling_p(runs: Sequence[Run], rule: Rule) -> float | None:
    """Return the chance of concurrencies at which configs differ this much in other ways, if their ratios were all the same.

    What concurrency does to the acceptance of every config alike is in the blocks, and contradicts nothing. None where there is
    nothing to test: no place was drawn twice.
    """
    together = acceptance(runs, replace(rule, pooled=True)).variance
    apart = acceptance(runs, replace(rule, pooled=False)).variance
    above = together.df - apart.df
    if apart.df < 1 or above < 1 or apart.value == 0:
        return None
    explained = together.value * together.df - apart.value * apart.df
    return fisher_above(above, apart.df, max(explained, 0.0) / above / apart.value)


def _counts(runs: Sequence[Run]) -> tuple[dict[str, int], dict[str, int]]:
    windows: dict[str, int] = defaultdict(int)
    boots: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        windows[run.config] += 1
        boots[run.config].add(run.boot)
    return windows, {config: len(seen) for config, seen in boots.items()}


def _together(parts: Sequence[Variance]) -> tuple[float, float]:
    """Return the standard error and its degrees of freedom; infinite and 1 where nothing tells one of its parts."""
    return combined(parts) if all(math.isfinite(part.value) for part in parts) else (math.inf, 1.0)


def _beyond(distance: float, se: float, df: float) -> float:
    """Return the chance that a value of this mean and standard error is above 0."""
    if se == 0:
        return float(distance > 0)
    if not math.isfinite(se):
        return 0.5  # nothing tells yet how far it scatters
    return student_below(df, distance / se)


def _shares(fit: Fit, config: str, rule: Rule) -> dict[Hashable, float]:
    """Return the weight of each class of acceptance of a config; none for one that does not speculate."""
    shares: dict[Hashable, float] = defaultdict(float)
    for place in rule.weights:
        if (config, rule.kind(place)) in fit.index:
            shares[rule.kind(place)] += rule.share(place)
    return shares


def _score(fit: Fit, config: str, rule: Rule) -> float:
    return math.fsum(share * fit.values[fit.index[config, kind]] for kind, share in _shares(fit, config, rule).items())


def _contrast(fit: Fit, one: str, other: str, rule: Rule) -> Variance:
    """Return the variance of the difference of two configs' scores by acceptance."""
    if one == other:
        return Variance(0.0, fit.variance.df)
    mine, theirs = _shares(fit, one, rule), _shares(fit, other, rule)
    both = {kind: share for kind, share in mine.items() if kind in theirs}
    signed = {(one, kind): share for kind, share in both.items()} | {(other, kind): -both[kind] for kind in both}
    total = math.fsum(
        left * right * fit.information[fit.index[a]][fit.index[b]]
        for a, left in signed.items()
        for b, right in signed.items()
    )
    value = fit.variance.value * total if total > 0 else 0.0
    df = fit.variance.df
    for config, shares in ((one, mine), (other, theirs)):
        for kind in shares.keys() - both.keys():
            value += shares[kind] ** 2 * fit.level(config, kind)
            df = min(df, fit.content[kind].df)
    return Variance(value, df)


@dataclass
class _Rest:
    """The rest of the rate (streams by step time), by config and concurrency, with what it scatters by."""

    means: dict[tuple[str, int], float]
    counts: dict[tuple[str, int], int]
    boots: dict[str, int]
    shares: dict[int, float]
    between: Variance
    within: Variance

    def score(self, config: str) -> float:
        return math.fsum(share * self.means[config, streams] for streams, share in self.shares.items())

    def parts(self, one: str, other: str) -> list[Variance]:
        if one == other:
            return []
        boots = 1 / self.boots[one] + 1 / self.boots[other]
        windows = math.fsum(
            share * share * (1 / self.counts[one, streams] + 1 / self.counts[other, streams])
            for streams, share in self.shares.items()
        )
        return [
            Variance(self.between.value * boots, self.between.df),
            Variance(self.within.value * windows, self.within.df),
        ]


def _rest(runs: Sequence[Run], rule: Rule) -> _Rest:
    cells: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    shares: dict[int, float] = defaultdict(float)
    for place in rule.weights:
        shares[place[0]] += rule.share(place)
    for run in runs:
        cells[run.config, run.place[0]].append((run.boot, math.log(run.rate / (run.acceptance or 1.0))))
    means = {key: math.fsum(value for _, value in group) / len(group) for key, group in cells.items()}
    between, within = _scatter(cells, means)
    boots: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        boots[run.config].add(run.boot)
    return _Rest(
        means,
        {key: len(group) for key, group in cells.items()},
        {config: len(known) for config, known in boots.items()},
        dict(shares),
        between,
        within,
    )


def _scatter(
    cells: Mapping[tuple[str, int], Sequence[tuple[int, float]]], means: Mapping[tuple[str, int], float]
) -> tuple[Variance, Variance]:
    """Return the variance from boot to boot, told by concurrencies that several boots of a config had, and that within one."""
    effects: dict[tuple[str, int], list[float]] = defaultdict(list)
    inside, free = 0.0, 0
    for key, group in cells.items():
        free += len(group) - 1
        alone = len({boot for boot, _ in group}) == 1
        for boot, value in group:
            if alone:
                inside += (value - means[key]) ** 2
            else:
                effects[key[0], boot].append(value - means[key])
    middles: dict[str, list[float]] = defaultdict(list)
    for (config, _), found in effects.items():
        middle = math.fsum(found) / len(found)
        middles[config].append(middle)
        inside += math.fsum((value - middle) ** 2 for value in found)
    seen = sum(len(known) - 1 for known in middles.values())
    between = math.fsum(e * e for known in middles.values() for e in known)
    return _with_prior(between, seen, BOOT_SPREAD), _with_prior(inside, max(free - seen, 0), REST_SPREAD)


def _with_prior(squares: float, df: float, spread: float) -> Variance:
    return Variance((squares + PRIOR_DF * spread * spread) / (df + PRIOR_DF), df + PRIOR_DF)
