"""Our own distributions against SciPy's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.analysis.distributions import (
    fisher_above,
    normal_below,
    normal_quantile,
    student_below,
    student_quantile,
)

DF = st.floats(min_value=1.0, max_value=5000.0)


@given(DF, st.floats(min_value=-40.0, max_value=40.0))
def test_student_s_distribution_is_scipy_s(df: float, t: float) -> None:
    from scipy.special import stdtr

    assert student_below(df, t) == pytest.approx(float(stdtr(df, t)), rel=1e-8, abs=1e-14)


@given(DF, st.floats(min_value=0.001, max_value=0.9999))
def test_student_s_quantile_is_scipy_s(df: float, share: float) -> None:
    from scipy.special import stdtrit

    assert student_quantile(df, share) == pytest.approx(float(stdtrit(df, share)), rel=1e-7, abs=1e-9)


@given(st.integers(min_value=1, max_value=200), DF, st.floats(min_value=0.0, max_value=50.0))
def test_fisher_s_tail_is_scipy_s(above: int, below: float, f: float) -> None:
    from scipy.special import fdtrc

    assert fisher_above(above, below, f) == pytest.approx(float(fdtrc(above, below, f)), rel=1e-7, abs=1e-13)


def test_without_end_of_freedom_it_is_the_normal_distribution() -> None:
    assert student_quantile(math.inf, 0.975) == pytest.approx(1.959963984540054)
    assert student_below(math.inf, -1.959963984540054) == pytest.approx(0.025)
    assert normal_below(normal_quantile(0.8)) == pytest.approx(0.8)
