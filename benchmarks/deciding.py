"""Does a decision find the best config with less measuring than the fixed grid? Asked on nights whose truth is known.

A night has eight configs, the best of them ahead of the next by 2 to 10%, the others up to 12% behind that one. Acceptance
scatters with the content that is drawn, by 12 to 27% at one stream and less with the root of the streams; a share of that comes
with the prompts, and is the same for all configs; boots differ in step time. Both ways spend nights of the same truth: the rule
asks for rounds (`nightsweep.analysis.deciding`), the grid measures every cell three times, in one boot of each config or in
three, and takes the best mean. A pick is right when it is the best config, or within 1% of it.

Beside them stand nights on which what pooling takes for granted does not hold: acceptance of half of the configs leans one way
with the concurrency, and that of the others the other way.

    python -m benchmarks.deciding [--nights 500] [--seed 7041776]
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.common import Figure, Section, table, write
from nightsweep.analysis.deciding import final_standings, next_round
from nightsweep.analysis.racing import Rule, Run
from nightsweep.plan.opening import Place

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices of twenty rows: threads only wait for each other

SEED = 7041776
"""Not one that the rule's own tests or its tuning saw."""
NIGHTS = 500
CONFIGS = tuple(f"c{number}" for number in range(8))
PLACES: tuple[Place, ...] = tuple((streams, degree) for streams in (1, 2, 4, 8, 16) for degree in (0.7, 1.0))
REPEATS = 3
COMMON = (0.0, 0.3, 0.7)
"""Share of the variance of acceptance that comes with the prompts."""
WITHIN = 1.01
WINDOW, BOOT = 44.0, 30.0 + 20.0
"""Seconds: a window of 40 s with what is around it; a boot's warm-up and its stop, without the cold start."""
COLD_STARTS = (60.0, 360.0)
"""Seconds: a small model, and the published 27B one."""


@dataclass
class Night:
    """A night with a known truth.

    Attributes:
        score: Logarithm of each config's true rate, up to what all have in common.
        cv: Acceptance at one stream, as a ratio; at n streams it is that over the root of n.
        common: Share of its variance that comes with the prompts.
        boot_spread: Of step time from boot to boot, as a ratio.
        tilt: Of one config in two, how its acceptance changes from one stream to the most, as a ratio; 0 is what pooling assumes.
    """

    chance: random.Random
    score: Mapping[str, float]
    cv: float
    common: float
    boot_spread: float = 0.005
    tilt: float = 0.0
    prompts: dict[tuple[Place, int], float] = field(default_factory=dict)
    boots: int = 0

    def boot(self, config: str, wanted: Sequence[tuple[Place, int]]) -> Iterator[Run]:
        """Yield the windows of one boot: places and draws in order."""
        self.boots += 1
        effect = self.chance.gauss(0, self.boot_spread)
        for place, draw in wanted:
            shared = self.prompts.setdefault((place, draw), self.chance.gauss(0, 1))
            luck = math.sqrt(self.common) * shared + math.sqrt(1 - self.common) * self.chance.gauss(0, 1)
            leaning = self.tilt * (0.5 - math.log2(place[0]) / 4) * (1 if int(config[1:]) % 2 else -1)
            length = 3.0 * math.exp(self.score[config] + leaning + self.cv / math.sqrt(place[0]) * luck)
            step = 0.12 * (1 + 0.02 * place[0]) * math.exp(effect + self.chance.gauss(0, 0.002))
            yield Run(config, self.boots, place, draw, place[0] * length / step, length)

    def right(self, pick: str) -> bool:
        """Return whether a pick is the best config, or near enough to it."""
        return self.score[pick] >= max(self.score.values()) - math.log(WITHIN)


def a_night(chance: random.Random, *, common: float, tilt: float = 0.0, boot_spread: float = 0.005) -> Night:
    """Return a night; its gaps and noise are drawn."""
    top = math.log1p(chance.uniform(0.02, 0.10))
    scores = [0.0, -top, *(-top - chance.uniform(0, 0.12) for _ in CONFIGS[2:])]
    chance.shuffle(scores)
    score = dict(zip(CONFIGS, scores, strict=True))
    return Night(chance, score, cv=chance.uniform(0.12, 0.27), common=common, boot_spread=boot_spread, tilt=tilt)


@dataclass(frozen=True)
class Spent:
    """What a way to choose found, and what it took."""

    right: bool
    windows: int
    boots: int

    def seconds(self, cold_start: float) -> float:
        """Measuring time with all boots."""
        return self.windows * WINDOW + self.boots * (cold_start + BOOT)


def decided(night: Night, rule: Rule) -> Spent:
    """Spend a night by the rule."""
    runs: list[Run] = []
    drawn: dict[tuple[str, Place], int] = defaultdict(int)
    while (asked := next_round(runs, CONFIGS, rule)) is not None:
        for config, places in asked.places.items():
            wanted = []
            for place in places:
                wanted.append((place, drawn[config, place]))
                drawn[config, place] += 1
            runs += night.boot(config, wanted)
    pick = final_standings(runs, CONFIGS, rule)[0].config
    return Spent(night.right(pick), len(runs), len({run.boot for run in runs}))


def fixed_grid(night: Night, *, boots: int) -> Spent:
    """Measure every cell `REPEATS` times, and take the best geometric mean of the cells' means."""
    rates: dict[tuple[str, Place], list[float]] = defaultdict(list)
    for turn in range(boots):
        for config in CONFIGS:
            wanted = [(place, draw) for draw in range(turn, REPEATS, boots) for place in PLACES]
            for run in night.boot(config, wanted):
                rates[config, run.place].append(run.rate)
    means = {c: math.fsum(math.log(statistics.fmean(rates[c, place])) for place in PLACES) for c in CONFIGS}
    pick = max(means, key=lambda config: means[config])
    return Spent(night.right(pick), len(CONFIGS) * len(PLACES) * REPEATS, boots * len(CONFIGS))


@dataclass(frozen=True)
class Found:
    """All nights of one kind, by the rule and by the grid with its repeats in one boot and in as many as repeats."""

    rule: Sequence[Spent]
    grid: Sequence[Spent]
    grid_of_boots: Sequence[Spent]


def played(
    *, nights: int, seed: int, common: float, tilt: float = 0.0, boot_spread: float = 0.005, pooled: bool = True
) -> Found:
    """Play nights of one kind, each with its own seed, so that all ways spend the same truth."""
    rule = Rule(dict.fromkeys(PLACES, 1.0), incumbent=CONFIGS[0], pooled=pooled)
    ways: tuple[list[Spent], list[Spent], list[Spent]] = ([], [], [])
    for number in range(nights):
        for way, into in enumerate(ways):
            chance = random.Random(f"{seed}/{common}/{tilt}/{number}")
            night = a_night(chance, common=common, tilt=tilt, boot_spread=boot_spread)
            night.chance.seed(f"{seed}/{common}/{tilt}/{number}/{way}")
            into.append(decided(night, rule) if way == 0 else fixed_grid(night, boots=1 if way == 1 else REPEATS))
    return Found(*ways)


def share(spent: Sequence[Spent]) -> float:
    """Return the share of right picks, in percent."""
    return 100 * statistics.fmean(one.right for one in spent)


def figures(found: Found, what: str) -> Iterator[Figure]:
    """Yield the figures of one kind of night."""
    n = f"{len(found.rule)} nights"
    missed, beside = 100 - share(found.rule), 100 - share(found.grid_of_boots)
    yield Figure(
        f"wrong picks, {what}", "%", missed, target=5.0001, beside=beside, beside_name="grid n=3 in three boots", note=n
    )
    windows = [float(one.windows) for one in found.rule]
    grid = float(found.grid[0].windows)
    ninth = statistics.quantiles(windows, n=10)[-1]
    yield Figure(
        f"windows, {what}",
        "windows",
        statistics.fmean(windows),
        target=grid / 3 + 1e-9,
        beside=grid,
        beside_name="grid n=3",
        note=f"mean; nine in ten took at most {ninth:.0f}; wrong picks of the grid in one boot: {100 - share(found.grid):.1f}%",
    )
    yield Figure(
        f"boots, {what}",
        "boots",
        statistics.fmean(one.boots for one in found.rule),
        beside=float(found.grid_of_boots[0].boots),
        beside_name="grid n=3 in three boots",
    )
    for cold in COLD_STARTS:
        mine = statistics.fmean(one.seconds(cold) for one in found.rule)
        alone, of_boots = found.grid[0].seconds(cold), found.grid_of_boots[0].seconds(cold)
        yield Figure(
            f"time with boots of {cold:.0f} s, {what}",
            "s",
            mine,
            beside=of_boots,
            beside_name="grid n=3 in three boots",
            note=f"{mine / of_boots:.2f} of the grid in three boots, {mine / alone:.2f} of the grid in one boot ({alone:.0f} s)",
        )


def measure(*, nights: int = NIGHTS, seed: int = SEED) -> Section:
    """Return all figures; the nights are shared out over the shares of common noise."""
    each = math.ceil(nights / len(COMMON))
    kinds = [played(nights=each, seed=seed, common=common) for common in COMMON]
    whole = Found(
        [one for kind in kinds for one in kind.rule],
        [one for kind in kinds for one in kind.grid],
        [one for kind in kinds for one in kind.grid_of_boots],
    )
    found = list(figures(whole, "all"))
    for common, kind in zip(COMMON, kinds, strict=True):
        found += list(figures(kind, f"{100 * common:.0f}% of the noise common"))[:2]
    for tilt, pooled in ((0.0, False), (0.03, True), (0.1, True), (0.1, False)):
        nights_found = played(nights=each, seed=seed, common=0.3, tilt=tilt, pooled=pooled)
        what = f"acceptance leans {100 * tilt:.0f}% with concurrency, {'' if pooled else 'pooled: false'}".rstrip(", ")
        found += [replace(one, target=None) for one in list(figures(nights_found, what))[:2]]
    for spread in (0.01, 0.02):
        rough = played(nights=each, seed=seed, common=0.3, boot_spread=spread)
        what = f"boots that differ by {100 * spread:.0f}%"
        found += [replace(one, target=None) for one in list(figures(rough, what))[:2]]
    return Section(name="deciding", figures=tuple(found), facts={"nights": 3 * each, "seed": seed})


def main() -> int:
    """Print and keep the figures."""
    parser = argparse.ArgumentParser(description="The rule of a decision against the fixed grid.")
    parser.add_argument("--nights", type=int, default=NIGHTS)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    section = measure(nights=given.nights, seed=given.seed)
    write(section)
    print(table((section,)))
    return 1 if any(figure.met is False for figure in section.figures) else 0


if __name__ == "__main__":
    sys.exit(main())
