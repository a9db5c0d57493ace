"""The short form of `python -m benchmarks.calibration`: what is said of uncertainty holds on simulated truth."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import fmean

from benchmarks.calibration import PLAIN, SHIFTED, measured, night, rms
from nightsweep.analysis.comparing import BETTER
from nightsweep.analysis.intervals import noise_of
from nightsweep.analysis.pooled import observed, pooled_rates, pooled_ratio

WORLD = replace(PLAIN, configs=6)


def test_intervals_hold_the_truth_as_often_as_they_say_and_pooling_pays() -> None:
    tally = measured(replace(WORLD, common=0.3), nights=40, seed=3)
    assert 0.93 <= tally.coverage("plain") <= 0.97
    assert 0.91 <= tally.coverage("pooled, one stream") <= 0.99
    assert 0.93 <= tally.coverage("ratio") <= 0.99
    assert rms(tally.pooled_errors) <= 0.4 * rms(tally.plain_errors)
    assert abs(sum(tally.pooled_errors) / len(tally.pooled_errors)) < 0.01


def test_the_scatter_of_boots_is_found_without_bias_and_claims_no_more_than_it_knows() -> None:
    chance = random.Random(7)
    nights = [noise_of([observed(row, row.decode_rate or 0.0) for row in night(PLAIN, chance)]) for _ in range(60)]
    assert (
        abs(fmean(noise.between or 0.0 for noise in nights) / 0.02**2 - 1) < 0.45
    )  # weights that are guessed made it twice
    known = [noise.of(16, 0.7) for noise in nights]
    values = [one.value for one in known if one is not None]
    spread = fmean((value / fmean(values) - 1) ** 2 for value in values)
    claimed = fmean(1 / one.df for one in known if one is not None)
    assert claimed > 0.6 * spread / 2, (
        "2 / df is the squared scatter of a variance: boots' effects follow precise windows"
    )


def test_prompts_that_both_drew_fall_out_of_a_pooled_ratio() -> None:
    chance = random.Random(8)
    widths: dict[float, list[float]] = {0.0: [], 0.8: []}
    for common, found in widths.items():
        for _ in range(25):
            rates = pooled_rates(night(replace(PLAIN, common=common, boot_spread=0.0), chance))
            single = {one.config_fingerprint: one for one in rates if (one.streams, one.temperature) == (1, 0.7)}
            ratio = pooled_ratio(single["config 0"], single["config 1"])
            found += [] if ratio is None else [math.log(ratio.high / ratio.low)]
    assert fmean(widths[0.8]) < 0.8 * fmean(widths[0.0])


def test_better_is_seldom_wrong_and_often_said_where_it_is_true() -> None:
    equal = measured(replace(WORLD, gap=0.0), nights=40, seed=4)
    assert equal.wrong_tables / equal.tables <= 0.125  # 5% of 40 tables, and two standard errors
    apart = measured(replace(WORLD, gap=0.3, cv=0.12), nights=10, seed=4)
    assert apart.verdicts[BETTER] > 60
    assert not sum(apart.wrong.values())


def test_a_planted_shift_of_acceptance_is_caught_and_no_shift_is_seldom_refused() -> None:
    shifts = dict(SHIFTED)
    caught = measured(shifts["CV 12%, acceptance +5% from 1 to 16 streams, n=3"], nights=12, seed=5)
    assert caught.refused / caught.groups > 0.9
    calm = measured(WORLD, nights=40, seed=6)
    assert calm.refused / calm.groups < 0.4
