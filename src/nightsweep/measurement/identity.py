"""rate = N * acceptance length / step time: numbers of different counters that must agree, within what may part them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nightsweep.measurement.values import DecodeNumbers, RawWindow, RequestTiming
from nightsweep.units import MonotonicSeconds

EVERY_STEP = 0.98
"""Share of steps and streams that must draft for the acceptance length to make the rate."""
FLOOR = 0.01
"""What the engine's own rounding and scheduling may part, beside readings, edges and prefills."""
EDGE_STEPS = 2.0


@dataclass(frozen=True)
class RateIdentity:
    """How far the identity is off, and what is to be said of it; no note when it holds or cannot be asked.

    Attributes:
        facts: `identity_residual` (N * acceptance length / step time against the decode rate), `identity_gap_residual` (the
            same by the inter-token histogram), `identity_allowed`: shares of the decode rate. Without the last the check could
            not be made.
    """

    facts: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


def rate_identity(
    raw: RawWindow,
    numbers: DecodeNumbers,
    *,
    opened: MonotonicSeconds,
    closed: MonotonicSeconds,
    held_back: bool = False,
) -> RateIdentity:
    """Return the residuals of the identity rate.

    What may part the two sides: the uncertainty of both readings, a step at each edge, and the time in which streams waited
    for their first token, when steps run without them. With drafting in every step the acceptance length makes the rate;
    where not every step drafts (n-gram, suffix), it does not, and tokens per step and stream do. Of streams that were held back
    on their way nobody knows how long they waited on the engine: the residual is told, and the check is not made.
    """
    if not numbers.decode_rate or not numbers.steps or numbers.step_time is None:
        return RateIdentity()
    allowed = (
        FLOOR
        + (numbers.relative_uncertainty or 0.0)
        + EDGE_STEPS / numbers.steps
        + waiting_share(raw.requests, concurrency=raw.concurrency, opened=opened, closed=closed)
    )
    facts, notes = {} if held_back else {"identity_allowed": allowed}, []
    slots = numbers.steps * raw.concurrency
    if numbers.acceptance_length is not None and numbers.drafts:
        rate = raw.concurrency * numbers.acceptance_length / numbers.step_time
        facts["identity_residual"] = residual = rate / numbers.decode_rate - 1.0
        if not held_back and numbers.drafts >= EVERY_STEP * slots and abs(residual) > allowed:
            notes.append(_told("streams x acceptance length / step time", rate, numbers.decode_rate, allowed=allowed))
    by_gaps = numbers.facts.get("identity_rate")
    if by_gaps is not None:
        facts["identity_gap_residual"] = by_gaps / numbers.decode_rate - 1.0
    return RateIdentity(facts, "; ".join(notes))


def waiting_share(
    requests: tuple[RequestTiming, ...], *, concurrency: int, opened: MonotonicSeconds, closed: MonotonicSeconds
) -> float:
    """Return the share of stream time between opening and closing in which a stream had a request and no token yet."""
    waited = 0.0
    for one in requests:
        until = closed if one.first_token is None else one.first_token
        waited += max(0.0, min(until, closed) - max(one.sent, opened))
    return waited / (concurrency * (closed - opened))


def _told(what: str, rate: float, counted: float, *, allowed: float) -> str:
    return (
        f"{what} gives {rate:.1f} tokens/s, the token counter {counted:.1f}: they differ by {abs(rate / counted - 1.0):.1%}, "
        f"and {allowed:.1%} is what edges and prefills explain"
    )
