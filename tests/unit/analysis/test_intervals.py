"""Intervals: what they hold, what widens them, and when there are none."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.analysis.intervals import Variance, combined, interval_of, noise_of, quantile

from .observations import seen

RATES = st.lists(st.floats(min_value=1.0, max_value=1000.0), min_size=2, max_size=8)


@given(RATES, st.floats(min_value=0.01, max_value=100.0))
def test_an_interval_is_of_the_same_width_in_every_unit(rates: list[float], factor: float) -> None:
    plain = interval_of(seen(rates), noise_of(seen(rates)))
    scaled = [rate * factor for rate in rates]
    other = interval_of(seen(scaled), noise_of(seen(scaled)))
    assert plain is not None
    assert other is not None
    assert other.low == pytest.approx(plain.low * factor, abs=1e-6 * other.mean)
    assert other.high == pytest.approx(plain.high * factor, abs=1e-6 * other.mean)


@given(RATES)
def test_an_interval_holds_its_mean_and_does_not_hang_on_the_order(rates: list[float]) -> None:
    found = interval_of(seen(rates), noise_of(seen(rates)))
    turned = interval_of(seen(rates[::-1]), noise_of(seen(rates[::-1])))
    assert found is not None
    assert turned is not None
    assert found.low <= found.mean <= found.high
    assert turned.low == pytest.approx(found.low, abs=1e-9 * found.mean)


def test_one_window_and_nothing_to_know_its_noise_by_has_no_interval() -> None:
    assert interval_of(seen([20.0]), noise_of(seen([20.0]))) is None
    assert interval_of([], noise_of(seen([20.0, 21.0]))) is None


def test_a_lone_window_has_the_noise_of_its_like() -> None:
    others = [one for k in "abcd" for one in seen([20.0, 21.0, 19.0], config=k)]
    found = interval_of(seen([30.0], config="lone"), noise_of([*others, *seen([30.0], config="lone")]))
    assert found is not None
    assert found.n == 1
    assert found.low < 28.6 < 31.4 < found.high  # 5% of scatter, one window


def test_windows_of_one_boot_do_not_make_up_for_boots() -> None:
    boots = {"a": (0.9, 1.1), "b": (1.08, 0.94), "c": (0.95, 1.06), "d": (1.1, 0.93)}
    quiet = (0.99, 1.0, 1.01, 1.0)
    night = [
        one
        for config, pair in boots.items()
        for number, effect in enumerate(pair)
        for one in seen([20.0 * effect * value for value in quiet], config=config, boots=(number,))
    ]
    noise = noise_of(night)
    assert noise.between == pytest.approx(0.0113, rel=0.35)
    two, one = (
        interval_of([x for x in night if x.config == "a" and x.boot in chosen], noise) for chosen in ((0, 1), (0,))
    )
    assert two is not None
    assert one is not None
    assert one.n == 4
    assert one.se > 0.08  # four windows that scatter by 1%, and the boot's luck all the same
    assert two.se == pytest.approx(one.se / math.sqrt(2), rel=0.1)


def test_windows_that_are_each_of_a_boot_of_their_own_have_both_noises_in_one() -> None:
    runs = [*seen([158.70, 158.97], config="a", boots=(1, 2)), *seen([176.72, 176.87], config="b", boots=(3, 4))]
    found = interval_of(runs[:2], noise_of(runs))
    assert found is not None
    assert found.boot_spread_known
    assert found.low < 158.835 < found.high
    assert found.high - found.low < 2.0


def test_with_one_boot_of_everything_the_interval_says_that_boots_are_not_in_it() -> None:
    found = interval_of(seen([20.0, 21.0, 22.0]), noise_of(seen([20.0, 21.0, 22.0])))
    assert found is not None
    assert not found.boot_spread_known


def test_what_few_draws_have_in_common_is_found_without_bias() -> None:
    chance, found, errors = random.Random(7041776), list[float](), list[float]()
    for _ in range(150):
        night = []
        for streams in (1, 2, 4, 8, 16):
            content = [chance.gauss(0, 1) for _ in range(3)]
            scatter = 0.2 / math.sqrt(streams)
            for config in "abcdefgh":
                own = [math.sqrt(0.5) * (shared + chance.gauss(0, 1)) for shared in content]
                night += seen([20.0 * math.exp(scatter * one) for one in own], config=config, streams=streams)
        noise = noise_of(night)
        found.append(noise.common)
        errors.append(noise.common_se)
    mean = math.fsum(found) / len(found)
    assert mean == pytest.approx(0.5, abs=0.05)  # a share of each class's own noise would be 0.39
    assert statistics.stdev(found) == pytest.approx(math.fsum(errors) / len(errors), rel=0.25)


def test_noise_that_comes_with_the_prompts_is_seen_and_costs_degrees_of_freedom() -> None:
    content = (0.8, 1.0, 1.2, 0.9, 1.1, 0.85, 1.15, 1.05)
    same = [
        one
        for k in range(8)
        for one in seen([20.0 * c * (1 + 0.002 * k * (-1) ** i) for i, c in enumerate(content)], config=f"{k}")
    ]
    apart = [one for k in range(8) for one in seen([20.0 * content[(i + k) % 8] for i in range(8)], config=f"{k}")]
    assert noise_of(same).common > 0.8
    assert (
        noise_of(apart).common <= 0.0
    )  # an estimate without bias: by chance also below 0, never by more than a draw's share
    alike, other = noise_of(same).of(1, 0.7), noise_of(apart).of(1, 0.7)
    assert alike is not None
    assert other is not None
    assert alike.value == pytest.approx(other.value, rel=0.1)
    assert alike.df < other.df / 4  # eight configs that saw the same prompts are one


@pytest.mark.parametrize(("df", "expected"), [(math.inf, 1.959964), (2.0, 4.302653), (10.0, 2.228139)])
def test_the_quantile_is_student_s(df: float, expected: float) -> None:
    assert quantile(0.95, df) == pytest.approx(expected, abs=1e-5)


def test_degrees_of_freedom_of_a_sum_are_satterthwaite_s() -> None:
    se, df = combined([Variance(4.0, 4.0), Variance(1.0, 9.0)])
    assert se == pytest.approx(math.sqrt(5.0))
    assert df == pytest.approx(25.0 / (16.0 / 4.0 + 1.0 / 9.0))
    assert combined([Variance(0.0, 3.0)]) == (0.0, math.inf)
