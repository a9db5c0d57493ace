"""Do the intervals, verdicts and pooled rates keep their word? Asked on simulated truth, where it is known.

A night is made of configs, boots and cells with the noise that tuning reports had: acceptance scatters with the content that is
drawn, by 12 to 27% at one stream and less with the root of the streams; boots differ in step time; part of the content is the
same for every config, because all draw the same prompts. What the product then says is held against what is true.

    python -m benchmarks.calibration [--nights 200] [--seed 20261129]
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from statistics import NormalDist

from benchmarks.common import Figure, Section, table, write
from nightsweep.analysis.comparing import BETTER, SAME, UNDECIDED, WORSE, compare
from nightsweep.analysis.intervals import interval_of, noise_of
from nightsweep.analysis.pooled import TREND_LEVEL, observed, pooled_rates, pooled_ratio
from nightsweep.analysis.values import WindowRow
from nightsweep.units import Seconds

START = datetime(2026, 11, 29, 22, 30, tzinfo=UTC)
SEED = 20261129
STREAMS = (1, 2, 4, 8, 16)
TEMPERATURES = (0.7, 1.0)


@dataclass(frozen=True)
class World:
    """What is true, and how it scatters.

    Attributes:
        cv: Acceptance at one stream, as a ratio; at n streams it is that over the root of n.
        boot_spread: Of step time from boot to boot, as a ratio.
        common: Share of the variance of acceptance that comes with the prompts, and so is the same for all configs.
        gap: Rate of each config over that of the one before, less 1.
        shift: Change of acceptance length from one stream to the most, as a ratio.
        cold: Every window is of a boot of its own; `boots` is of no account then.
    """

    configs: int = 8
    boots: int = 3
    repeats: int = 3
    cv: float = 0.2
    boot_spread: float = 0.02
    common: float = 0.0
    gap: float = 0.05
    shift: float = 0.0
    cold: bool = False

    def rate(self, config: int, streams: int) -> float:
        """The true decode rate in tokens / second."""
        return streams * self.acceptance(config, streams) / self.step(streams)

    def acceptance(self, config: int, streams: int) -> float:
        """The true acceptance length."""
        trend = self.shift * math.log2(streams) / math.log2(STREAMS[-1])
        return float(3.0 * (1 + self.gap) ** config * (1 + trend))

    def step(self, streams: int) -> float:
        """The true step time in seconds."""
        return 0.12 * (1 + 0.02 * streams)


def night(world: World, chance: random.Random) -> list[WindowRow]:
    """Return a night's windows, all clean."""
    boots = {
        (config, boot): 1 + chance.gauss(0, world.boot_spread)
        for config in range(world.configs)
        for boot in range(world.boots)
    }
    content = {
        (streams, temperature, repeat): chance.gauss(0, 1)
        for streams in STREAMS
        for temperature in TEMPERATURES
        for repeat in range(world.repeats)
    }
    rows: list[WindowRow] = []
    for config in range(world.configs):
        for (streams, temperature, repeat), shared in content.items():
            own = math.sqrt(world.common) * shared + math.sqrt(1 - world.common) * chance.gauss(0, 1)
            boot = repeat % world.boots
            if world.cold:
                boot = world.boots + len(rows)
                boots[config, boot] = 1 + chance.gauss(0, world.boot_spread)
            length = world.acceptance(config, streams) * _lognormal(own, cv=world.cv / math.sqrt(streams))
            step = world.step(streams) * boots[config, boot] * (1 + chance.gauss(0, 0.002))
            rows.append(_window(len(rows), config, boot, (streams, temperature, repeat), length=length, step=step))
    return rows


def _lognormal(normal: float, *, cv: float) -> float:
    """Return a factor with mean 1 and this coefficient of variation."""
    sigma = math.sqrt(math.log1p(cv * cv))
    return math.exp(sigma * normal - sigma * sigma / 2)


def _window(
    number: int, config: int, boot: int, cell: tuple[int, float, int], *, length: float, step: float
) -> WindowRow:
    streams, temperature, repeat = cell
    return WindowRow(
        window_id=number,
        sweep_id=1,
        sweep_name="night",
        boot_id=config * 10_000 + boot,
        boot_round=boot,
        config_id=config,
        config=f"config {config}",
        config_fingerprint=f"config {config}",
        concurrency=streams,
        temperature=Decimal(str(temperature)),
        repeat=repeat,
        attempt=1,
        started=START + timedelta(minutes=number),
        flags=(),
        conditions="one",
        box="box",
        simulated=True,
        engine_version=None,
        seconds=Seconds(40.0),
        decode_rate=streams * length / step,
        acceptance_length=length,
        acceptance_rate=None,
        positions=None,
        step_time=Seconds(step),
        tokens_per_step_and_stream=length,
        ttft_p50=None,
        tpot_p50=None,
        e2e_p50=None,
    )


# --- what is counted -------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """Counts over nights; see `Summary` for what is made of them."""

    covered: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    nightly: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    wrong_tables: int = 0
    wrong_better: int = 0
    tables: int = 0
    refused: int = 0
    groups: int = 0
    plain_errors: list[float] = field(default_factory=list)
    pooled_errors: list[float] = field(default_factory=list)
    least_seen: list[float] = field(default_factory=list)

    def interval(self, what: str, low: float | None, high: float | None, truth: float) -> None:
        """Count one interval."""
        if low is not None and high is not None:
            self.asked[what] += 1
            self.covered[what] += low <= truth <= high
            here = self.nightly[what, self.tables]
            here[0] += low <= truth <= high
            here[1] += 1

    def coverage(self, what: str) -> float:
        """Share of intervals that held the truth."""
        return self.covered[what] / self.asked[what] if self.asked[what] else math.nan

    def coverage_error(self, what: str, *, at: float | None = None) -> float:
        """Standard error of that share: nights are independent of each other, the intervals of one night are not.

        Args:
            at: The share that would be true: one near 1 that was found by luck has too small an error of its own.
        """
        share = self.coverage(what)
        squares = math.fsum((held - share * of) ** 2 for (name, _), (held, of) in self.nightly.items() if name == what)
        found = math.sqrt(squares) / self.asked[what] if self.asked[what] else math.nan
        if at is None or not 0 < share < 1:
            return found
        return found * math.sqrt(at * (1 - at) / (share * (1 - share)))


def measured(world: World, *, nights: int, seed: int) -> Tally:
    """Return the counts of that many nights."""
    chance, tally = random.Random(seed), Tally()
    for _ in range(nights):
        rows = night(world, chance)
        _cells(rows, world, tally)
        _pooled(rows, world, tally)
        _verdicts(rows, world, tally)
    return tally


def _cells(rows: Sequence[WindowRow], world: World, tally: Tally) -> None:
    observations = [observed(row, row.decode_rate or 0.0) for row in rows]
    noise = noise_of(observations)
    groups = defaultdict(list)
    for row, one in zip(rows, observations, strict=True):
        groups[row.config_id, row.concurrency, row.temperature].append(one)
    for (config, streams, _), group in groups.items():
        found = interval_of(group, noise)
        truth = world.rate(config, streams)
        if found is not None:
            tally.interval("plain", found.low, found.high, truth)
            if streams == 1:
                tally.interval("plain, one stream", found.low, found.high, truth)
                tally.plain_errors.append(found.mean / truth - 1)


def _pooled(rows: Sequence[WindowRow], world: World, tally: Tally) -> None:
    found = pooled_rates(rows)
    single = {one.config_fingerprint: one for one in found if one.streams == 1 and one.temperature == TEMPERATURES[0]}
    for one in found:
        config = int(one.config_fingerprint.split()[1])
        if one.streams == 1:
            tally.groups += 1
            tally.refused += not one.pooling.allowed
            if one.pooling.least_seen is not None:
                tally.least_seen.append(one.pooling.least_seen)
        if one.rate is not None and one.streams == 1:
            truth = world.rate(config, 1)
            tally.interval("pooled, one stream", one.rate.low, one.rate.high, truth)
            tally.pooled_errors.append(one.rate.mean / truth - 1)
    ratio = pooled_ratio(single["config 0"], single["config 1"])
    if ratio is not None:
        tally.interval("pooled ratio", ratio.low, ratio.high, world.rate(1, 1) / world.rate(0, 1))


def _verdicts(rows: Sequence[WindowRow], world: World, tally: Tally) -> None:
    sides = [
        [observed(row, row.decode_rate or 0.0) for row in rows if row.config_id in wanted]
        for wanted in ((0,), (1,), range(2, world.configs))
    ]
    found = compare(sides[0], sides[1], family=sides[2])
    for one in found:
        tally.interval("ratio", one.low, one.high, 1 + world.gap)
        tally.verdicts[one.verdict] += 1
        tally.wrong[one.verdict] += _is_wrong(one.verdict, world.gap, same_within=one.same_within)
    tally.tables += 1
    tally.wrong_better += world.gap <= 0 and any(one.verdict == BETTER for one in found)
    tally.wrong_tables += any(_is_wrong(one.verdict, world.gap, same_within=one.same_within) for one in found)


def _is_wrong(verdict: str, gap: float, *, same_within: float) -> bool:
    return (
        (verdict == BETTER and gap <= 0)
        or (verdict == WORSE and gap >= 0)
        or (verdict == SAME and abs(math.log1p(gap)) > math.log1p(same_within) + 1e-9)
    )


def rms(values: Sequence[float]) -> float:
    """Root mean square."""
    return math.sqrt(math.fsum(value * value for value in values) / len(values)) if values else math.nan


# --- worlds and figures ----------------------------------------------------------------------------------------------

PLAIN = World()
WORLDS: tuple[tuple[str, World], ...] = (
    ("CV 20%", PLAIN),
    ("CV 12%", replace(PLAIN, cv=0.12)),
    ("CV 27%", replace(PLAIN, cv=0.27)),
    ("half of it common to all configs", replace(PLAIN, common=0.5)),
    ("boots differ by 5%", replace(PLAIN, boot_spread=0.05)),
    ("two boots, six repeats", replace(PLAIN, boots=2, repeats=6)),
    ("two configs", replace(PLAIN, configs=2, repeats=6)),
    ("no gap", replace(PLAIN, gap=0.0)),
    ("gap 2%", replace(PLAIN, gap=0.02)),
    ("gap 10%", replace(PLAIN, gap=0.1)),
    ("one boot each, boots do not differ", replace(PLAIN, boots=1, boot_spread=0.0)),
    ("two configs, two boots, six windows", replace(PLAIN, configs=2, boots=2, repeats=6)),
    ("three configs", replace(PLAIN, configs=3)),
    ("two configs, half of it common to both", replace(PLAIN, configs=2, repeats=6, common=0.5)),
    ("every window of its own boot", replace(PLAIN, cold=True)),
    ("two configs, every window of its own boot", replace(PLAIN, configs=2, cold=True)),
)
EQUAL: tuple[tuple[str, World], ...] = tuple(
    (name, replace(world, gap=0.0)) for name, world in WORLDS if "gap" not in name
)
"""The same noise without any difference: how often is one told all the same?"""
BLIND = ("one boot each, boots differ by 2%", replace(PLAIN, boots=1, gap=0.0))
"""What cannot be seen is in no interval: shown without a target."""
SHIFTED: tuple[tuple[str, World], ...] = tuple(
    (
        f"CV {cv:.0%}, acceptance {shift:+.0%} from 1 to 16 streams, n={repeats}",
        replace(PLAIN, cv=cv, shift=shift, repeats=repeats),
    )
    for cv in (0.12, 0.2, 0.27)
    for shift, repeats in ((0.05, 3), (0.05, 6), (-0.1, 3))
)


def sections(*, nights: int = 200, seed: int = SEED) -> Iterator[Section]:
    """Yield one section for intervals and verdicts of each world, and one for the test of pooling."""
    for place, (name, world) in enumerate((*WORLDS, BLIND)):
        many = nights * 4 if world.gap == 0 else nights  # false verdicts are rare
        tally = measured(world, nights=many, seed=seed + place)  # worlds of one seed would share their luck
        yield Section(name=name, figures=tuple(_figures(tally, judged=name != BLIND[0])))
    yield Section(name="tables of equal configs", figures=tuple(_equal(nights=nights * 4, seed=seed + 100)))
    yield Section(name="power of the test of pooling", figures=tuple(_power(nights=nights, seed=seed)))


def measure(*, nights: int = 100) -> Section:
    """Return all figures as one section."""
    return _whole(list(sections(nights=nights)))


def _whole(found: Sequence[Section]) -> Section:
    figures = (replace(figure, name=f"{one.name}: {figure.name}") for one in found for figure in one.figures)
    return Section("calibration", tuple(figures))


def _figures(tally: Tally, *, judged: bool) -> Iterator[Figure]:
    for what in ("plain", "plain, one stream", "pooled, one stream", "ratio", "pooled ratio"):
        n = tally.asked[what]
        if n == 0:
            continue
        off = abs(tally.coverage(what) - 0.95)
        error = tally.coverage_error(what)
        note = f"covers {tally.coverage(what):.1%} ± {error:.1%} of {n:,}"
        slack = 2 * tally.coverage_error(what, at=0.97)  # so many nights tell their coverage only so well
        yield Figure(f"95% interval, {what}: off by", "ratio", off, target=0.02 + slack if judged else None, note=note)
    calls = tally.verdicts[BETTER] + tally.verdicts[WORSE] + tally.verdicts[SAME]
    wrong = sum(tally.wrong.values()) / tally.tables / max(1, len(STREAMS) * len(TEMPERATURES))
    said = ", ".join(f"{name} {tally.verdicts[name]}" for name in (BETTER, WORSE, SAME, UNDECIDED))
    yield Figure(
        "wrong verdicts of all cells", "ratio", wrong, target=0.05 if judged else None, note=f"{said}; {calls} calls"
    )
    chance = 2 * math.sqrt(0.05 * 0.95 / tally.tables)  # two standard errors of a share of so many tables
    better = tally.wrong_better / tally.tables
    yield Figure("tables with a wrong `better`", "ratio", better, target=0.05 if judged else None)
    tables = tally.wrong_tables / tally.tables
    yield Figure(
        "tables with a wrong verdict",
        "ratio",
        tables,
        target=0.05 + chance if judged else None,
        note="10 cells a table",
    )
    ratio = rms(tally.pooled_errors) / rms(tally.plain_errors)
    yield Figure("standard error of pooled over plain, one stream", "ratio", ratio, target=0.4 if judged else None)
    bias = abs(math.fsum(tally.pooled_errors) / max(1, len(tally.pooled_errors)))
    yield Figure("bias of the pooled rate", "ratio", bias, target=0.005 if judged else None)
    yield Figure("pooling refused where it is right", "ratio", tally.refused / tally.groups, note="level 20% by trend")


def _equal(*, nights: int, seed: int) -> Iterator[Figure]:
    """Yield how often a table of ten cells says `better` or `worse` of configs that are the same."""
    for place, (name, world) in enumerate(EQUAL):
        chance, tally = random.Random(seed + place), Tally()
        for _ in range(nights):
            _verdicts(night(world, chance), world, tally)
        wrong, better = tally.wrong_tables / tally.tables, tally.wrong_better / tally.tables
        error = math.sqrt(wrong * (1 - wrong) / tally.tables)
        note = f"± {error:.1%}; `better` in {better:.1%}; of {tally.tables:,} tables of 10 cells"
        yield Figure(f"a difference told: {name}", "ratio", wrong, target=0.05 + 2 * error, note=note)


def _power(*, nights: int, seed: int) -> Iterator[Figure]:
    for name, world in SHIFTED:
        tally = measured(world, nights=max(20, nights // 2), seed=seed)
        least = sorted(tally.least_seen)[len(tally.least_seen) // 2]
        note = f"a change of {least:.1%} would be seen in 8 of 10 nights"
        refused = tally.refused / tally.groups
        yield Figure(
            f"pooling let through: {name}",
            "ratio",
            1 - refused,
            beside=1 - best_power(world),
            beside_name="by the best test of that level",
            note=note,
        )


def best_power(world: World) -> float:
    """Return how often a trend would be seen by a test of the same level that knows every variance: none can do better.

    Source:
        Weighted least squares of log acceptance on log2(streams), a level for each config and temperature; the estimate is
        normal, and its two-sided test is the uniformly most powerful unbiased one (Lehmann, Romano, Testing Statistical
        Hypotheses, 4.4).
    """
    weights = [world.repeats * streams / world.cv**2 for streams in STREAMS]
    at = [math.log2(streams) for streams in STREAMS]
    mean = math.fsum(w * x for w, x in zip(weights, at, strict=True)) / math.fsum(weights)
    information = math.fsum(w * (x - mean) ** 2 for w, x in zip(weights, at, strict=True))
    standardised = abs(world.shift) / at[-1] * math.sqrt(information * world.configs * len(TEMPERATURES))
    normal = NormalDist()
    edge = normal.inv_cdf(1 - TREND_LEVEL / 2)
    return normal.cdf(standardised - edge) + normal.cdf(-standardised - edge)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; exit code 1 when a figure misses its target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=200, help="simulated nights of each world")
    parser.add_argument("--seed", type=int, default=SEED)
    asked = parser.parse_args(arguments)
    found = []
    for section in sections(nights=asked.nights, seed=asked.seed):
        found.append(section)
        print(table([section]), flush=True)
    whole = _whole(found)
    write(whole)
    return int(any(figure.met is False for figure in whole.figures))


if __name__ == "__main__":
    sys.exit(main())
