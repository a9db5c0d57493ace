"""What the engine says of single requests' drafts, against what its counters say of everybody's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from nightsweep.measurement.values import RequestAcceptance, RequestTiming
from nightsweep.units import MonotonicSeconds

FEW_REQUESTS = 4
"""Fewer requests tell no error of their mean."""
SIGMAS = 4.0
LEAST_DIFFERENCE = 0.02
"""Acceptance lengths closer than this share of each other are the same for every purpose."""


@dataclass(frozen=True)
class OwnAcceptance:
    """Acceptance length over requests' own numbers, with the standard error that the spread between requests gives.

    Attributes:
        rate: accepted / draft tokens; None when a request did not tell both.
        positions: Accepted at i / drafts; None when a request did not tell. Shape: (most accepted,), position 0 first.
        source: The field of the answers.
    """

    length: float
    standard_error: float | None
    requests: int
    drafts: int
    source: str
    rate: float | None = None
    positions: tuple[float, ...] | None = None


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
    ended = [
        one.acceptance
        for one in requests
        if one.acceptance is not None
        and one.ended is not None
        and opened <= one.ended <= closed
        and not one.cancelled
        and one.acceptance.drafts
        and one.acceptance.accepted_tokens is not None
    ]
    told = [(float(one.accepted_tokens or 0), float(one.drafts or 0)) for one in ended]
    drafts = sum(count for _, count in told)
    if not drafts:
        return None
    accepted = sum(count for count, _ in told)
    proposed = [one.draft_tokens for one in ended]
    return OwnAcceptance(
        length=1.0 + accepted / drafts,
        standard_error=_error(told, ratio=accepted / drafts, drafts=drafts),
        requests=len(told),
        drafts=round(drafts),
        source=ended[0].source,
        rate=accepted / sum(filter(None, proposed)) if all(proposed) else None,
        positions=_positions([one.histogram for one in ended]),
    )


def _positions(histograms: Sequence[tuple[int, ...] | None]) -> tuple[float, ...] | None:
    known = [histogram for histogram in histograms if histogram]
    if not known or len(known) < len(histograms):
        return None
    summed = tuple(sum(counts) for counts in zip_longest(*known, fillvalue=0))
    return positions_of(RequestAcceptance(source="", histogram=summed))


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
