"""What the client saw in a window, as distributions in seconds.

A time belongs to the window when the moments that make it lie inside. Long requests seldom begin and end in one
window, so
TTFT and end-to-end are of few and short ones (`n` says how many); TPOT takes the part of every request that lies
inside.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import fsum
from operator import sub

from nightsweep.measurement.values import Percentiles, RequestTiming
from nightsweep.units import MonotonicSeconds

MIN_CUT_TOKENS = 8
"""A request that the window cuts counts for TPOT only with this many tokens inside: fewer are mostly edge."""


def percentiles(samples: Iterable[float]) -> Percentiles | None:
    """Return the distribution of samples; None when there are none.

    Quantiles interpolate linearly between the two nearest samples (Hyndman and Fan's type 7).
    """
    ordered = sorted(samples)
    if not ordered:
        return None
    return Percentiles(
        n=len(ordered),
        mean=fsum(ordered) / len(ordered),
        p50=_quantile(ordered, 0.5),
        p90=_quantile(ordered, 0.9),
        p99=_quantile(ordered, 0.99),
        minimum=ordered[0],
        maximum=ordered[-1],
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def ttfts(
    requests: Iterable[RequestTiming], *, opened: MonotonicSeconds, closed: MonotonicSeconds
) -> tuple[float, ...]:
    """Return first token - sent of requests that were sent and had their first token inside the window.

    The first token is the first chunk of any generated kind: content, reasoning or tool call; a role chunk is none.
    """
    return tuple(
        request.first_token - request.sent
        for request in requests
        if request.first_token is not None and request.sent >= opened and request.first_token <= closed
    )


def e2es(requests: Iterable[RequestTiming], *, opened: MonotonicSeconds, closed: MonotonicSeconds) -> tuple[float, ...]:
    """Return ended - sent of requests that were sent and ended by themselves inside the window."""
    return tuple(
        request.ended - request.sent
        for request in requests
        if request.ended is not None and request.sent >= opened and _finished_inside(request, closed=closed)
    )


def tpots(
    requests: Iterable[RequestTiming], *, opened: MonotonicSeconds, closed: MonotonicSeconds
) -> tuple[float, ...]:
    """Return TPOT by request.

    A request whose first token and end lie inside: (E2E - TTFT) / (output tokens - 1). One that the window cuts: time
    between its first and last chunk inside / tokens that came after that first chunk; needs continuous usage.
    """
    found = []
    for request in requests:
        value = _whole_tpot(request, opened=opened, closed=closed)
        if value is None:
            value = _cut_tpot(request, opened=opened, closed=closed)
        if value is not None:
            found.append(value)
    return tuple(found)


def _finished_inside(request: RequestTiming, *, closed: MonotonicSeconds) -> bool:
    ended = request.ended
    return ended is not None and ended <= closed and not request.cancelled and request.error is None


def _whole_tpot(request: RequestTiming, *, opened: MonotonicSeconds, closed: MonotonicSeconds) -> float | None:
    first, ended, tokens = request.first_token, request.ended, request.completion_tokens
    if first is None or ended is None or tokens is None or tokens < 2:
        return None
    if first < opened or not _finished_inside(request, closed=closed):
        return None
    return (ended - first) / (tokens - 1)


def _cut_tpot(request: RequestTiming, *, opened: MonotonicSeconds, closed: MonotonicSeconds) -> float | None:
    stamps, counts = request.chunk_at, request.chunk_tokens
    if counts is None:
        return None
    first, last = bisect_left(stamps, opened), bisect_right(stamps, closed) - 1
    if last <= first:
        return None
    tokens = counts[last] - counts[first]
    return (stamps[last] - stamps[first]) / tokens if tokens >= MIN_CUT_TOKENS else None


def chunk_gaps(
    requests: Iterable[RequestTiming], *, opened: MonotonicSeconds, closed: MonotonicSeconds
) -> tuple[float, ...]:
    """Return times between neighbouring chunks of a request, both inside the window.

    A chunk may hold several tokens under speculation: this is not the time of a token. Chunks that came in one read
    of the
    socket are 0 apart.
    """
    gaps: list[float] = []
    for request in requests:
        stamps = request.chunk_at
        inside = stamps[bisect_left(stamps, opened) : bisect_right(stamps, closed)]
        gaps.extend(map(sub, inside[1:], inside))
    return tuple(gaps)
