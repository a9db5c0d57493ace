"""How full a window was: stream time in flight, the probe's own tokens inside, and the engine's own samples."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import fsum

from nightsweep.measurement.values import OccupancySample, RequestTiming
from nightsweep.units import MonotonicSeconds, Ratio, Seconds, Tokens


def in_flight(requests: Iterable[RequestTiming], *, opened: MonotonicSeconds, closed: MonotonicSeconds) -> Seconds:
    """Return stream-seconds in flight between opening and closing: each request from sent to its end (or the closing)."""
    total = 0.0
    for request in requests:
        end = closed if request.ended is None else min(request.ended, closed)
        total += max(0.0, end - max(request.sent, opened))
    return Seconds(total)


def occupancy(
    requests: Iterable[RequestTiming], *, concurrency: int, opened: MonotonicSeconds, closed: MonotonicSeconds
) -> Ratio:
    """Return stream time in flight / (concurrency * window); 1.0 is full."""
    return Ratio(in_flight(requests, opened=opened, closed=closed) / (concurrency * (closed - opened)))


def own_tokens(
    requests: Iterable[RequestTiming], *, opened: MonotonicSeconds, closed: MonotonicSeconds
) -> Tokens | None:
    """Return the probe's own output tokens that arrived in the window; None when one request did not tell.

    Nothing is interpolated: the cumulative count of the last chunk at or before each edge counts. A request without
    continuous usage can be counted only when it lies wholly inside (its final usage) or wholly outside.
    """
    total = 0
    for request in requests:
        tokens = _tokens_inside(request, opened=opened, closed=closed)
        if tokens is None:
            return None
        total += tokens
    return Tokens(total)


def _tokens_inside(request: RequestTiming, *, opened: MonotonicSeconds, closed: MonotonicSeconds) -> int | None:
    stamps = request.chunk_at
    if not stamps or stamps[-1] <= opened or stamps[0] > closed:
        return 0
    if request.chunk_tokens is not None:
        return _count_at(request.chunk_tokens, stamps, closed) - _count_at(request.chunk_tokens, stamps, opened)
    wholly_inside = stamps[0] > opened and stamps[-1] <= closed
    return request.completion_tokens if wholly_inside else None


def late_tokens(requests: Iterable[RequestTiming], *, closed: MonotonicSeconds, settled: MonotonicSeconds) -> Tokens:
    """Return the probe's own tokens stamped after the closing that the engine may have made before it.

    A client that got no processor for a while stamps late: what had come to its sockets meanwhile it reads in one go, several
    events at one moment. So a stream's first read after the closing counts when it holds more than one event, and so does
    whatever came until `settled`, when the closing page itself was there and read. Without continuous usage nothing counts.
    """
    return Tokens(sum(_late(request, closed=closed, settled=settled) for request in requests))


def _late(request: RequestTiming, *, closed: float, settled: float) -> int:
    stamps, counts = request.chunk_at, request.chunk_tokens
    first = bisect_right(stamps, closed)
    if counts is None or first == len(stamps):
        return 0
    burst = bisect_right(stamps, stamps[first])
    last = max(bisect_right(stamps, settled), burst if burst > first + 1 else first)
    return counts[last - 1] - (counts[first - 1] if first else 0) if last > first else 0


def _count_at(counts: Sequence[int], stamps: Sequence[float], edge: float) -> int:
    arrived = bisect_right(stamps, edge)
    return counts[arrived - 1] if arrived else 0


def running_above(samples: Iterable[OccupancySample], *, concurrency: int) -> int:
    """Return in how many samples the engine ran more requests than the probe has streams."""
    return sum(sample.running is not None and sample.running > concurrency for sample in samples)


def queued_share(samples: Sequence[OccupancySample]) -> Ratio | None:
    """Return the share of samples in which requests waited in the engine's queue; None when it never told."""
    told = [sample.waiting for sample in samples if sample.waiting is not None]
    return Ratio(sum(waiting > 0 for waiting in told) / len(told)) if told else None


def mean_waiting(samples: Iterable[OccupancySample]) -> float | None:
    """Return the mean number of requests in the engine's queue; None when it never told."""
    told = [sample.waiting for sample in samples if sample.waiting is not None]
    return fsum(told) / len(told) if told else None


def mean_running(samples: Iterable[OccupancySample]) -> float | None:
    """Return the mean of the engine's running requests over the samples; None when it never told."""
    told = [sample.running for sample in samples if sample.running is not None]
    return sum(told) / len(told) if told else None
