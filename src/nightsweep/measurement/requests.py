"""What the engine says of single requests' drafts, against what its counters say of everybody's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nightsweep.measurement.values import RequestAcceptance, RequestTiming
from nightsweep.units import MonotonicSeconds

FEW_REQUESTS = 4
"""Fewer requests tell no error of their mean."""
SIGMAS = 4.0
LEAST_DIFFERENCE = 0.02
"""Acceptance lengths closer than this share of each other are the same for every purpose."""


@dataclass(frozen=True)
class OwnAcceptance:
    """Acceptance length over requests' own numbers, with the standard error that the spread between requests gives."""

    length: float
    standard_error: float | None
    requests: int
    drafts: int


def positions_of(told: RequestAcceptance) -> tuple[float, ...] | None:
    """Return accepted at i / drafts, from the counts of drafts by accepted tokens; None without them.

    Shape: (most accepted,), position 0 first.
    """
    counts = told.histogram
    if not counts or not sum(counts):
        return None
    drafts = sum(counts)
    return tuple(sum(counts[i + 1 :]) / drafts for i in range(len(counts) - 1))


def own_acceptance(
    requests: Iterable[RequestTiming], *, opened: MonotonicSeconds, closed: MonotonicSeconds
) -> OwnAcceptance | None:
    """Return the acceptance length of requests that ended in the window, from their own numbers; None when none told.

    Numbers are of whole requests, also of one that began before the window. The error is that of a ratio of two means over
    requests.
    """
    told = [
        (float(one.acceptance.accepted_tokens), float(one.acceptance.drafts))
        for one in requests
        if one.acceptance is not None
        and one.acceptance.drafts
        and one.acceptance.accepted_tokens is not None
        and one.ended is not None
        and opened <= one.ended <= closed
        and not one.cancelled
    ]
    drafts = sum(count for _, count in told)
    if not drafts:
        return None
    ratio = sum(accepted for accepted, _ in told) / drafts
    return OwnAcceptance(
        length=1.0 + ratio,
        standard_error=_error(told, ratio=ratio, drafts=drafts),
        requests=len(told),
        drafts=round(drafts),
    )


def _error(told: Sequence[tuple[float, float]], *, ratio: float, drafts: float) -> float | None:
    if len(told) < FEW_REQUESTS:
        return None
    squares = math.fsum((accepted - ratio * count) ** 2 for accepted, count in told)
    return math.sqrt(squares * len(told) / (len(told) - 1)) / drafts


def disagreement(own: OwnAcceptance | None, *, counted: float | None, drafts: float | None) -> str | None:
    """Return why the counters' acceptance length is not that of the probe's own requests; None when it may well be.

    Args:
        counted: From the counters, which hold everybody's traffic.
        drafts: In the window, by the counters.
    """
    if own is None or own.standard_error is None or counted is None or not drafts:
        return None
    error = own.standard_error * math.sqrt(1.0 + own.drafts / drafts)
    difference = abs(counted - own.length)
    if difference <= max(SIGMAS * error, LEAST_DIFFERENCE * own.length):
        return None
    return (
        f"the counters give an acceptance length of {counted:.3f}, the probe's own {own.requests} requests "
        f"{own.length:.3f} +- {error:.3f}: others' drafts are among the counted ones"
    )
