"""Acceptance where an engine has no counters of drafts (SGLang): from the best of what it tells, and never mixed."""

from __future__ import annotations

from dataclasses import dataclass

from nightsweep.engine.values import Dialect, Unavailable
from nightsweep.measurement.rates import delta
from nightsweep.measurement.requests import own_acceptance
from nightsweep.measurement.values import RawWindow, Reading

FEW_DRAFTS = 200
"""Verification steps of ended requests below which a gauge of the last interval says as much."""

GAUGE, STATE = "acceptance_length_gauge", "acceptance_length_state_gauge"


@dataclass(frozen=True)
class Elsewhere:
    """Acceptance of a window, not from counters of drafts.

    Attributes:
        length: With the bonus token.
        positions: Accepted at i / drafts. Shape: (num_speculative_tokens,), position 0 first.
        source: Where it is from, and of which steps.
    """

    length: float
    source: str
    rate: float | None = None
    positions: tuple[float, ...] | None = None


def elsewhere(
    raw: RawWindow, before: Reading, after: Reading, *, dialect: Dialect, num_speculative_tokens: int | None
) -> Elsewhere | None:
    """Return the acceptance from the first of these that the engine tells; None when it tells none.

    The probe's own requests, each by its own numbers (nobody else's traffic can touch them); counters that move when a request
    ends; a gauge of the engine's last interval; its state, which is a mean since the boot and so of other cells, too.
    """
    return (
        _by_own_requests(raw, before, after, k=num_speculative_tokens)
        or _by_ended_requests(before, after, dialect=dialect)
        or _by_gauge(after, dialect=dialect)
        or _by_state(after)
    )


def _by_own_requests(raw: RawWindow, before: Reading, after: Reading, *, k: int | None) -> Elsewhere | None:
    own = own_acceptance(raw.requests, opened=before.at, closed=after.at)
    if own is None or own.drafts < FEW_DRAFTS:
        return None
    positions = own.positions
    if positions is not None and k is not None:
        positions = (*positions[:k], *(0.0 for _ in range(k - len(positions))))
    source = f"{own.source} of {own.requests} requests of the probe that ended in the window, whole"
    return Elsewhere(own.length, source, rate=own.rate, positions=positions)


def _by_ended_requests(before: Reading, after: Reading, *, dialect: Dialect) -> Elsewhere | None:
    """Return (tokens - requests) / verify calls: each request's first token is the prefill's.

    Source:
        SGLang `sglang:generation_tokens_total`, `sglang:num_requests_total` and `sglang:spec_verify_calls_total` (0.5.13+), which
        move when a request ends.
    """
    names = ("generation_tokens_finished", "requests_finished", "spec_verify_calls_finished")
    tokens, requests, calls = (delta(before, after, name) for name in names)
    if tokens is None or requests is None or not calls or calls < FEW_DRAFTS or tokens <= requests:
        return None
    listed = " and ".join(_named(dialect, name) for name in names)
    return Elsewhere((tokens - requests) / calls, f"{listed} (whole requests that ended in the window)")


def _by_gauge(after: Reading, *, dialect: Dialect) -> Elsewhere | None:
    value = after.values.get(GAUGE)
    if value is None or value < 1.0:
        return None
    told = f"{_named(dialect, GAUGE)} (gauge: mean over the engine's last interval in the window)"
    return Elsewhere(value, told)


def _by_state(after: Reading) -> Elsewhere | None:
    value = after.values.get(STATE)
    if value is None or value < 1.0:
        return None
    return Elsewhere(
        value,
        "/server_info avg_spec_accept_length (mean since the boot or the last flush of the cache, not of the window)",
    )


def _named(dialect: Dialect, counter: str) -> str:
    entry = dialect.series.get(counter)
    if entry is None or isinstance(entry, Unavailable):
        return counter
    return " or ".join(series.name for series in entry)
