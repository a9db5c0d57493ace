"""Where the night's time goes when a decision is wanted, and not a table: the rule, as pure functions.

Successive rounds of racing (O. Maron and A. Moore, NIPS 6, 1994; Even-Dar, Mannor and Mansour, JMLR 7, 2006): all configs are
measured a little, then only those are measured again that may still be the best, until the best is known or the night ends. Two
things of this field make it cheap. Every config draws the same prompts in the same order, so what a prompt does to acceptance
falls out of a difference (common random numbers, as blocks). And a rate is acceptance length times the rest, of which the rest is
nearly exact and acceptance is the same at every concurrency where the data allow that (`nightsweep.analysis.pooled`): so it is
measured where one window tells most of it, at the highest concurrency.

An objective is a weighted geometric mean of rates over concurrency and temperature: a ratio means the same at every concurrency.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from nightsweep.analysis.distributions import student_below
from nightsweep.analysis.intervals import Variance, combined, quantile

CONFIDENCE = 0.95
INDIFFERENT = 0.01
"""Ratio by which the pick may be worse than the best without being a wrong one."""
BOOT_SPREAD = 0.005
REST_SPREAD = 0.003
PRIOR_DF = 2.0
"""What boots, and step times within one, are taken to differ by until the night shows it; and the weight of that, in degrees."""

Place = tuple[int, float]
"""Streams and temperature."""


@dataclass(frozen=True)
class Run:
    """One clean window of a contender.

    Attributes:
        draw: Which stretch of the seeded prompts it drew; windows of equal place and draw had the same.
        acceptance: Acceptance length; None for an engine without speculation.
    """

    config: str
    boot: int
    place: Place
    draw: int
    rate: float
    acceptance: float | None


@dataclass(frozen=True)
class Standing:
    """How one contender stands against the leader.

    Attributes:
        behind: Logarithm of the leader's objective over its own: 0 for the leader.
        se, df: Of `behind`.
        possible: Chance (one-sided) that it is better than the leader by more than the indifference, as the data have it.
        open: Whether it may still be the best.
    """

    config: str
    behind: float
    se: float
    df: float
    possible: float
    open: bool
    windows: int
    boots: int


@dataclass(frozen=True)
class Round:
    """What to measure next: for each config, in one fresh boot, the places in order.

    Attributes:
        why: For people: what is open, and why this is next.
    """

    places: Mapping[str, tuple[Place, ...]]
    why: str


@dataclass(frozen=True)
class Rule:
    """What is asked.

    Attributes:
        weights: Of each place; they are divided by their sum.
        most: Windows of one config at one place at most.
        incumbent: Config that serves now: it is confirmed beside the winner.
        pooled: Whether acceptance is taken to be the same at every concurrency of a temperature.
    """

    weights: Mapping[Place, float]
    most: int = 12
    incumbent: str | None = None
    pooled: bool = True
    confidence: float = CONFIDENCE
    indifferent: float = INDIFFERENT

    def share(self, place: Place) -> float:
        """Return a place's weight as a part of 1."""
        return self.weights[place] / math.fsum(self.weights.values())


@dataclass
class _Fit:
    """Least squares of the logarithm of acceptance: one number per config and class, one per block of equal prompts."""

    index: dict[tuple[str, Hashable], int]
    values: list[float]
    covariance: list[list[float]] = field(default_factory=list)
    df: float = 0.0


# --- rounds ----------------------------------------------------------------------------------------------------------


def first_round(configs: Sequence[str], rule: Rule) -> Round:
    """Return the opening: every config once at each concurrency, with temperatures taking turns, and at the highest with all."""
    places = opening(rule)
    return Round(
        {config: places for config in configs},
        f"nothing is known yet: each of {len(configs)} configs once at every concurrency ({len(places)} windows each)",
    )


def opening(rule: Rule) -> tuple[Place, ...]:
    """Return the places that tell the objective with the fewest windows; all of them where acceptance is not pooled."""
    streams = sorted({place[0] for place in rule.weights}, reverse=True)
    if not rule.pooled:
        return tuple(sorted(rule.weights, key=lambda place: (-place[0], place[1])))
    temperatures = sorted({place[1] for place in rule.weights})
    chosen = [(streams[0], temperature) for temperature in temperatures]
    for turn, each in enumerate(streams[1:]):
        chosen.append((each, temperatures[turn % len(temperatures)]))
    return tuple(chosen)


def next_round(runs: Sequence[Run], configs: Sequence[str], rule: Rule) -> Round | None:
    """Return what to measure next; None when the decision stands (or cannot be had with `rule.most` windows a place)."""
    missing = [config for config in configs if not _opened(runs, config, rule)]
    if missing:
        return first_round(missing, rule)
    found = standings(runs, configs, rule)
    contenders = [one for one in found if one.open]
    if len(contenders) > 1:
        return _again(runs, contenders, found, rule)
    return _confirmation(runs, found, rule)


def _opened(runs: Sequence[Run], config: str, rule: Rule) -> bool:
    seen = {run.place for run in runs if run.config == config}
    return all(place in seen for place in opening(rule))


def _again(runs: Sequence[Run], contenders: Sequence[Standing], found: Sequence[Standing], rule: Rule) -> Round | None:
    places = _telling(runs, [one.config for one in contenders], rule)
    if not places:
        return None
    closest = min((one for one in contenders if one.behind > 0 or one is not contenders[0]), key=lambda one: one.behind)
    why = (
        f"{len(contenders)} of {len(found)} configs may still be the best: {contenders[0].config} leads "
        f"{closest.config} by {100 * (math.exp(closest.behind) - 1):.1f}%, known to "
        f"{100 * quantile(rule.confidence, closest.df) * closest.se:.1f}%; measured again where a window tells most"
    )
    return Round({one.config: places for one in contenders}, why)


def _telling(runs: Sequence[Run], configs: Sequence[str], rule: Rule) -> tuple[Place, ...]:
    """Return the places of a further round: by pooled acceptance the highest concurrency alone, else all of them."""
    counts: dict[Place, int] = defaultdict(int)
    for run in runs:
        if run.config == configs[0]:
            counts[run.place] += 1
    top = max(place[0] for place in rule.weights)
    wanted = [place for place in opening(rule) if not rule.pooled or place[0] == top]
    return tuple(place for place in wanted if counts[place] < rule.most)


def _confirmation(runs: Sequence[Run], found: Sequence[Standing], rule: Rule) -> Round | None:
    """Return the last round: winner and incumbent once more in fresh boots, unless both had two already."""
    winner = found[0].config
    pair = [winner, *([rule.incumbent] if rule.incumbent not in (None, winner) else [])]
    boots = {one.config: one.boots for one in found}
    if all(boots.get(config, 0) >= 2 for config in pair):
        return None
    places = _telling(runs, pair, rule)
    names = " and ".join(str(name) for name in pair)
    return Round({str(name): places for name in pair}, f"{names} confirmed by a fresh boot") if places else None


# --- standings -------------------------------------------------------------------------------------------------------


def standings(runs: Sequence[Run], configs: Sequence[str], rule: Rule) -> list[Standing]:
    """Return how the configs stand, the leader first. Every config must have been opened."""
    fit = _acceptance(runs, rule)
    rest = _rest(runs, rule)
    scores = {config: _score(fit, config, rule) + rest.score(config) for config in configs}
    order = sorted(configs, key=lambda config: -scores[config])
    leader = order[0]
    counts, boots = _counts(runs)
    found = []
    for config in order:
        behind = scores[leader] - scores[config]
        parts = [Variance(_contrast(fit, leader, config, rule), fit.df), *rest.parts(leader, config)]
        se, df = combined(parts)
        possible = 1.0 if config == leader else _beyond(-behind - math.log1p(rule.indifferent), se, df)
        stays = config == leader or possible > 1 - rule.confidence
        found.append(Standing(config, behind, se, df, possible, stays, counts[config], boots[config]))
    return found


def _counts(runs: Sequence[Run]) -> tuple[dict[str, int], dict[str, int]]:
    windows: dict[str, int] = defaultdict(int)
    boots: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        windows[run.config] += 1
        boots[run.config].add(run.boot)
    return windows, {config: len(seen) for config, seen in boots.items()}


def _beyond(distance: float, se: float, df: float) -> float:
    """Return the chance that a value of this mean and standard error is above 0."""
    if se == 0:
        return float(distance > 0)
    return student_below(df, distance / se)


def _class(place: Place, rule: Rule) -> Hashable:
    return place[1] if rule.pooled else place


def _acceptance(runs: Sequence[Run], rule: Rule) -> _Fit:
    import numpy as np

    used = [(run, run.acceptance) for run in runs if run.acceptance is not None]
    index: dict[tuple[str, Hashable], int] = {}
    blocks: dict[tuple[Place, int], int] = {}
    for run, _ in used:
        index.setdefault((run.config, _class(run.place, rule)), len(index))
        blocks.setdefault((run.place, run.draw), len(blocks))
    if not used:
        return _Fit({}, [])
    design = np.zeros((len(used), len(index) + len(blocks)))
    for row, (run, _) in enumerate(used):
        design[row, index[run.config, _class(run.place, rule)]] = 1
        design[row, len(index) + blocks[run.place, run.draw]] = 1
    values = np.log([acceptance for _, acceptance in used])
    weights = np.array([run.place[0] for run, _ in used], dtype=float)
    information = np.linalg.pinv(design.T @ (weights[:, None] * design))
    solution = information @ (design.T @ (weights * values))
    residual = values - design @ solution
    df = len(used) - int(np.linalg.matrix_rank(design))
    variance = float(weights @ residual**2) / df if df > 0 else math.inf
    n = len(index)
    return _Fit(index, solution[:n].tolist(), (variance * information[:n, :n]).tolist(), float(df))


def _shares(fit: _Fit, config: str, rule: Rule) -> dict[int, float]:
    shares: dict[int, float] = defaultdict(float)
    for place in rule.weights:
        at = fit.index.get((config, _class(place, rule)))
        if at is not None:
            shares[at] += rule.share(place)
    return shares


def _score(fit: _Fit, config: str, rule: Rule) -> float:
    return math.fsum(share * fit.values[at] for at, share in _shares(fit, config, rule).items())


def _contrast(fit: _Fit, one: str, other: str, rule: Rule) -> float:
    shares = defaultdict(float, _shares(fit, one, rule))
    for at, share in _shares(fit, other, rule).items():
        shares[at] -= share
    return math.fsum(
        left * right * fit.covariance[i][j]
        for i, left in shares.items()
        for j, right in shares.items()
        if left and right
    )


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
    effects: dict[tuple[str, int], list[float]] = defaultdict(list)
    for key, group in cells.items():
        for boot, value in group:
            effects[key[0], boot].append(value - means[key])
    boots: dict[str, list[float]] = defaultdict(list)
    inside, free = 0.0, 0.0
    for (config, _), found in effects.items():
        middle = math.fsum(found) / len(found)
        boots[config].append(middle)
        inside += math.fsum((value - middle) ** 2 for value in found)
    free = sum(len(group) - 1 for group in cells.values()) - sum(len(known) - 1 for known in boots.values())
    between = math.fsum(math.fsum(e * e for e in known) for known in boots.values() if len(known) > 1)
    seen = sum(len(known) - 1 for known in boots.values())
    return _Rest(
        means,
        {key: len(group) for key, group in cells.items()},
        {config: len(known) for config, known in boots.items()},
        dict(shares),
        _with_prior(between, seen, BOOT_SPREAD),
        _with_prior(inside, max(free, 0), REST_SPREAD),
    )


def _with_prior(squares: float, df: float, spread: float) -> Variance:
    return Variance((squares + PRIOR_DF * spread * spread) / (df + PRIOR_DF), df + PRIOR_DF)
