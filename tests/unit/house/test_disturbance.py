"""The arithmetic of the disturbance benchmark: blocks, differences, intervals."""

from __future__ import annotations

import random

import pytest

from benchmarks.disturbance import POLL, Given, Segment, block_of, differences, figure_of
from benchmarks.intervals import of_mean, of_median, student_t


@pytest.mark.parametrize(("freedom", "quantile"), [(4, 2.776), (9, 2.262), (23, 2.069), (100, 1.984)])
def test_the_quantile_of_t_is_that_of_the_tables(freedom: int, quantile: float) -> None:
    assert student_t(freedom) == pytest.approx(quantile, rel=0.005)


def test_a_block_reads_the_same_both_ways_and_the_next_one_begins_with_the_other() -> None:
    assert block_of(("off", "probe"), number=0) == ("off", "probe", "probe", "off")
    assert block_of(("off", "probe"), number=1) == ("probe", "off", "off", "probe")


def test_every_segment_holds_as_many_of_the_readings_of_an_ordinary_window() -> None:
    assert POLL == 2.0, "docs/measurement.md says what one reading costs, and how often it is taken"
    assert Given(model="any").seconds % POLL == 0


def a_block(*rates: float, cpu: float | None = None) -> list[Segment]:
    arms = block_of(("off", "probe"), number=0)
    return [Segment(arm, rate, None, cpu) for arm, rate in zip(arms, rates, strict=True)]


def test_an_even_drift_is_no_difference() -> None:
    assert differences([a_block(100.0, 110.0, 121.0, 133.1)], "probe", of="rate") == pytest.approx([0.0], abs=1e-9)


def test_a_difference_is_what_the_engine_would_be_faster_by() -> None:
    assert differences([a_block(102.0, 100.0, 100.0, 102.0)], "probe", of="rate") == pytest.approx([2.0])
    costs = [Segment(arm, 1.0, None, 0.03 if arm == "probe" else 0.02) for arm in block_of(("off", "probe"), number=0)]
    assert differences([costs], "probe", of="cpu") == pytest.approx([50.0])


def test_what_was_not_told_is_no_figure() -> None:
    blocks = [a_block(100.0, 100.0, 100.0, 100.0)] * 8
    assert differences(blocks, "probe", of="cpu") == []
    assert figure_of(blocks, "probe", of="cpu", seconds=2.0) is None


def noisy_blocks(*, spread: float, count: int) -> list[list[Segment]]:
    chance = random.Random(3)
    return [a_block(*(base * (1 + chance.gauss(0, spread)) for base in (100.3, 100, 100, 100.3))) for _ in range(count)]


def test_a_restless_machine_is_not_judged_and_a_quiet_one_is() -> None:
    quiet = figure_of(noisy_blocks(spread=0.003, count=24), "probe", of="rate", seconds=2.0)
    restless = figure_of(noisy_blocks(spread=0.1, count=24), "probe", of="rate", seconds=2.0)
    assert quiet is not None
    assert restless is not None
    assert (quiet.target, restless.target) == (0.5, None)
    assert quiet.value == pytest.approx(0.3, abs=0.25)
    assert "too restless" in restless.note


def test_one_spoilt_block_moves_the_mean_and_not_the_median() -> None:
    samples = [0.1, 0.2, 0.15, 0.12, 0.18, 0.16, 0.11, 40.0]
    assert of_mean(samples).value > 5
    assert of_median(samples).value == pytest.approx(0.155)
    assert of_mean(samples).low < 0 < of_mean(samples).high
