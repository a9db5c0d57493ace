"""Student's, Fisher's and the normal distribution, without a library: importing one costs a third of a second at every question.

Source:
    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.5.8 and 26.7: the incomplete beta function by its continued
    fraction (evaluated after W. J. Lentz, Applied Optics 15, 1976). Checked against SciPy in the unit tests.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_TINY = 1e-300
_CLOSE = 1e-15
_MOST_TERMS = 10_000


def beta_share(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b); `a` and `b` are positive, `x` from 0 to 1."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - beta_share(b, a, 1.0 - x)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(front) * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1.0 / _apart(1.0 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _apart(1.0 + term * d)
            c = _apart(1.0 + term / c)
            found *= c * d
        if abs(c * d - 1.0) < _CLOSE:
            break
    return found


def _apart(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def normal_below(z: float) -> float:
    """Return the chance of a standard normal value below `z`."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def normal_quantile(share: float) -> float:
    """Return the standard normal value that `share` of them are below; `share` lies between 0 and 1."""
    return NormalDist().inv_cdf(share)


def student_below(df: float, t: float) -> float:
    """Return the chance of a Student value below `t`; infinite `df` is the normal distribution."""
    if math.isinf(df):
        return normal_below(t)
    if t * t < df:  # from the middle outwards: what lies between 0 and a small `t` is lost in 1 - tail
        return 0.5 + math.copysign(0.5 * beta_share(0.5, df / 2, t * t / (df + t * t)), t)
    tail = 0.5 * beta_share(df / 2, 0.5, df / (df + t * t))
    return tail if t < 0 else 1.0 - tail


@lru_cache(maxsize=4096)
def student_quantile(df: float, share: float) -> float:
    """Return the Student value that `share` of them are below; `share` lies between 0 and 1."""
    if math.isinf(df):
        return normal_quantile(share)
    if share < 0.5:
        return -student_quantile(df, 1.0 - share)
    log_front = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    t = max(normal_quantile(share), 0.0)
    for _ in range(1000):  # from below, Newton's steps never pass the root: the distribution bends down on this side
        density = math.exp(log_front - (df + 1) / 2 * math.log1p(t * t / df))
        step = (share - student_below(df, t)) / density
        t += step
        if abs(step) <= 1e-12 * max(1.0, t):
            break
    return t


def fisher_above(above: float, below: float, f: float) -> float:
    """Return the chance of an F value above `f`, with the degrees of freedom of its numerator (`above`) and denominator."""
    if f <= 0:
        return 1.0
    return beta_share(below / 2, above / 2, below / (below + above * f))
