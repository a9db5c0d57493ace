"""Pooled rates: beside the plain mean, only where the data allow it, and honest on what the test could see."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from benchmarks.calibration import PLAIN, World, night
from nightsweep.analysis.pooled import pooled_rates, pooled_ratio
from nightsweep.analysis.pooled_shown import pooled_cells, pooled_cells_table, with_interval
from nightsweep.analysis.pooled_shown import tested as said
from nightsweep.analysis.values import WindowRow

from .builders import a_window

QUIET = replace(PLAIN, cv=0.02, configs=4, repeats=4, boots=2)


def a_night(world: World = QUIET, *, seed: int = 1) -> list[WindowRow]:
    return night(world, random.Random(seed))


def test_a_pooled_rate_is_near_the_truth_and_surer_than_one_stream_alone() -> None:
    world = replace(QUIET, cv=0.2)
    found = [one for one in pooled_rates(a_night(world)) if one.streams == 1]
    assert all(one.rate is not None for one in found)
    for one in found:
        assert one.rate is not None
        truth = world.rate(int(one.config_fingerprint.split()[1]), 1)
        assert one.rate.mean == pytest.approx(truth, rel=0.1)
        assert one.rate.se < 0.2 / 2 * 0.4  # of the plain mean of four windows: 10%


def test_acceptance_that_goes_with_the_batch_is_not_pooled_and_the_reason_is_said() -> None:
    found = pooled_rates(a_night(replace(QUIET, shift=0.05)))
    assert not any(one.pooling.allowed for one in found)
    assert all(one.rate is None for one in found)
    assert "acceptance" in said(found[0])
    assert with_interval(found[0], digits=1) == "not pooled"


def test_the_smallest_change_that_would_be_seen_is_less_with_less_noise() -> None:
    quiet, loud = (pooled_rates(a_night(replace(QUIET, cv=cv)))[0].pooling.least_seen for cv in (0.02, 0.2))
    assert quiet is not None
    assert loud is not None
    assert quiet < 0.02 < loud
    assert "may go unseen" in said(next(one for one in pooled_rates(a_night()) if one.pooling.allowed))


def test_one_concurrency_is_nothing_to_pool() -> None:
    rows = [row for row in a_night() if row.concurrency == 4]
    assert {one.pooling.reason for one in pooled_rates(rows)} == {"one concurrency only: there is nothing to pool"}


def test_single_windows_at_two_concurrencies_lack_a_spread_and_not_a_concurrency() -> None:
    rows = [next(row for row in a_night() if row.concurrency == streams) for streams in (1, 8)]
    (reason,) = {one.pooling.reason for one in pooled_rates(rows)}
    assert reason is not None
    assert reason.startswith("how far single runs lie apart is not known")


def test_flagged_and_control_windows_and_engines_without_speculation_are_in_no_pool() -> None:
    rows = a_night()
    before = pooled_rates(rows)
    odd = [
        rows[0]._replace(window_id=9001, decode_rate=900.0, flags=("foreign_load",)),
        rows[0]._replace(window_id=9002, decode_rate=900.0, boot_round=1000),
        a_window(window_id=9003, acceptance_length=None, decode_rate=900.0),
    ]
    assert pooled_rates([*rows, *odd]) == before


def test_a_ratio_of_pooled_rates_needs_both() -> None:
    found = pooled_rates(a_night())
    assert pooled_ratio(found[0], None) is None
    ratio = pooled_ratio(found[0], found[0])
    assert ratio is not None
    assert ratio.ratio == 1.0
    assert ratio.low < 1.0 < ratio.high


def test_the_pooled_rate_stands_beside_the_plain_mean_with_its_run_count() -> None:
    table = pooled_cells_table(pooled_cells(a_night()), title="Pooled")
    first = table.groups[0].rows[0].values
    assert first[4] == "4"
    assert "–" in first[5]
    assert "SIMULATED" in table.caption


def test_windows_that_were_not_asked_for_tell_the_noise_and_are_in_no_pooled_rate() -> None:
    rows = a_night()
    asked = [row for row in rows if row.repeat < 2]
    found = pooled_cells(asked, family=rows)
    sizes = {(plain.n, pooled.rate.n, pooled.rate.mean) for _, plain, pooled in found if pooled.rate is not None}
    assert {(n, pooled) for n, pooled, _ in sizes} == {(2, len({row.concurrency for row in rows}) * 2)}
    table = pooled_cells_table(found, title="Pooled")
    place = [column.heading for column in table.columns].index("of windows")
    assert table.groups[0].rows[0].values[place] == f"{found[0][2].rate.n} in 2 boots"  # type: ignore[union-attr]
