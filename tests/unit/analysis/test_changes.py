"""Changes of level in a series of boots."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ruptures import KernelCPD
from ruptures.costs import CostL2

from nightsweep.analysis.changes import FEWEST, LEVEL, SHORTEST, _best_split, changes_in, too_few


def noise(seed: int, n: int, *, level: float = 100.0, sd: float = 3.0) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(level, sd) for _ in range(n)]


def test_a_planted_change_is_found_where_it_is_with_both_levels() -> None:
    (change,) = changes_in(noise(1, 9) + noise(2, 7, level=115.0))
    assert change.index == 9
    assert (change.points_before, change.points_after) == (9, 7)
    assert change.ratio == pytest.approx(1.15, abs=0.03)
    assert change.p <= LEVEL


def test_two_changes_are_found() -> None:
    series = noise(3, 10) + noise(4, 10, level=130.0) + noise(5, 10, level=90.0)
    assert [change.index for change in changes_in(series)] == [10, 20]


def test_chance_makes_a_change_as_often_as_the_level_says() -> None:
    found = sum(bool(changes_in(noise(seed, 14))) for seed in range(100, 200))
    assert found <= 11, "of 100 series without a change; 5 are expected, 11 in one of 100 tries"


def test_few_boots_say_nothing_however_far_apart_they_are() -> None:
    assert changes_in([10.0] * 3 + [20.0] * 4) == []
    assert too_few(7) == "too few boots to tell a change from chance: 7 of at least 8"
    assert too_few(FEWEST) is None


def test_a_level_series_and_equal_values_have_no_change() -> None:
    assert changes_in([5.0] * 20) == []


def test_the_same_series_always_gives_the_same_answer() -> None:
    series = noise(7, 8) + noise(8, 8, level=104.0)
    assert changes_in(series) == changes_in(series)


@pytest.mark.parametrize("seed", range(25))
def test_the_best_split_is_the_one_that_a_library_of_change_points_finds(seed: int) -> None:
    part = np.asarray(
        noise(seed, FEWEST + 3 * seed) + noise(seed + 500, seed % 4, level=100.0 + seed), dtype=np.float64
    )
    series = part.reshape(-1, 1)
    (place, end) = KernelCPD(kernel="linear", min_size=SHORTEST).fit(series).predict(n_bkps=1)
    cost = CostL2().fit(series)
    gain = cost.sum_of_costs([end]) - cost.sum_of_costs([place, end])
    at, found = _best_split(part)
    assert at == place
    assert found == pytest.approx(gain, rel=1e-9)
