"""The short form of `python -m benchmarks.calibration`: what is said of uncertainty holds on simulated truth."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.calibration import PLAIN, SHIFTED, measured, rms
from nightsweep.analysis.comparing import BETTER

WORLD = replace(PLAIN, configs=6)


def test_intervals_hold_the_truth_as_often_as_they_say_and_pooling_pays() -> None:
    tally = measured(replace(WORLD, common=0.3), nights=40, seed=3)
    assert 0.93 <= tally.coverage("plain") <= 0.97
    assert 0.91 <= tally.coverage("pooled, one stream") <= 0.99
    assert 0.93 <= tally.coverage("ratio") <= 0.99
    assert rms(tally.pooled_errors) <= 0.4 * rms(tally.plain_errors)
    assert abs(sum(tally.pooled_errors) / len(tally.pooled_errors)) < 0.01


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
