"""Whether the stream reached the probe as the engine sent it. Client-side times of one that did not are nobody's."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nightsweep.measurement.values import DecodeNumbers, RequestTiming
from nightsweep.units import MonotonicSeconds

FEW_CHUNKS = 8
"""Fewer chunks of a stream tell nothing."""
BURST = 3.0
"""Chunks to a network read, in the mean over streams, from which on something collects them on the way."""
HIDDEN_STEPS = 4
"""A first chunk with the tokens of so many steps was not sent when the first token was there."""
CHANCE = 0.03
"""Share of one request's tokens that its first read may hold by chance: a busy client reads late; its rate is off by as much."""
MOST = 0.5
"""Share of the requests that must show it."""

TIMES = ("ttft", "tpot", "e2e", "chunk_gap")
BUFFERED = (
    "the stream came in bursts (a buffering proxy, or a machine too busy): client-side times are not the engine's"
)
HELD_BACK = (
    "no chunk came in the whole window, with {count} under way all of it: something on the way holds streams "
    "back; client-side times are not the engine's"
)
UNTOLD = "which of the engine's tokens are the probe's cannot be told of streams that are held back on their way"
ALONE = (
    "the stream was held back on its way (a buffering proxy, or a machine too busy): its first {count} tokens came in one "
    "read, so that neither the first token's time nor the time after it is the engine's; measure without what holds it back"
)
UNCHECKED = (
    "not checked: how long streams waited on the engine cannot be told of streams that are held back on their way"
)
HIDDEN = "the first chunk holds the tokens of many steps: TTFT is not the engine's"


@dataclass(frozen=True)
class Delivery:
    """How a window's streams arrived.

    Attributes:
        note: What is to be said of it; "" when they arrived as they were sent.
        lost: Client-side times that are not the engine's.
        chunks_per_read: In the mean; None with too few chunks.
        held_back: Tokens that the engine made may be on their way still: they cannot be counted against its own.
    """

    note: str = ""
    lost: tuple[str, ...] = ()
    chunks_per_read: float | None = None
    held_back: bool = False


def delivery(
    requests: Sequence[RequestTiming],
    *,
    opened: MonotonicSeconds,
    closed: MonotonicSeconds,
    num_speculative_tokens: int | None,
) -> Delivery:
    """Return how the streams arrived that had chunks in the window.

    An engine sends one event per step and request. Events that arrive together in one read of the socket have one stamp: now
    and then that is chance (a busy client reads late), as a rule it is something on the way that collects them, up to the whole
    answer.
    """
    seen = [one for one in requests if one.chunk_at and one.chunk_at[-1] >= opened and one.chunk_at[0] <= closed]
    ratios = [len(one.chunk_at) / len(set(one.chunk_at)) for one in seen if len(one.chunk_at) >= FEW_CHUNKS]
    mean = sum(ratios) / len(ratios) if ratios else None
    if mean is not None and mean >= BURST and sum(ratio >= BURST for ratio in ratios) > MOST * len(ratios):
        return Delivery(f"{BUFFERED} ({mean:.0f} chunks to a network read)", TIMES, mean, held_back=True)
    silent = _silent(requests, opened=opened, closed=closed)
    if silent:
        return Delivery(HELD_BACK.format(count=f"{silent} request{'s' * (silent > 1)}"), TIMES, held_back=True)
    hidden = _hidden(seen, k=num_speculative_tokens)
    if hidden is not None:
        return Delivery(f"{HIDDEN} ({hidden} tokens)", ("ttft",), mean)
    return Delivery(chunks_per_read=mean)


def held_back_alone(request: RequestTiming, *, num_speculative_tokens: int | None) -> str | None:
    """Return why the times of one request alone are not the engine's; None when its stream came as it was sent.

    A rate of one request is made of the client's times only, so that one read with more than a few steps' tokens at its start,
    or with all of its chunks, voids it.
    """
    stamps = request.chunk_at
    if not stamps:
        return None
    first = bisect_right(stamps, stamps[0])
    tokens = first if request.chunk_tokens is None else request.chunk_tokens[first - 1]
    if first == len(stamps):  # the whole answer
        tokens = max(tokens, request.completion_tokens or 0)
    steps = HIDDEN_STEPS * (1 + (num_speculative_tokens or 0))
    if tokens > max(steps, CHANCE * (request.completion_tokens or 0)) or 1 < len(stamps) == first:
        return ALONE.format(count=tokens)
    found = delivery(
        (request,),
        opened=request.sent,
        closed=MonotonicSeconds(stamps[-1]),
        num_speculative_tokens=num_speculative_tokens,
    )
    return found.note or None


def _silent(requests: Sequence[RequestTiming], *, opened: float, closed: float) -> int:
    """Return how many requests were under way all the time, where no chunk of any came; 0 where one did."""
    if any(bisect_left(one.chunk_at, opened) < bisect_right(one.chunk_at, closed) for one in requests):
        return 0
    return sum(one.sent <= opened and (one.ended is None or one.ended >= closed) for one in requests)


def _hidden(requests: Sequence[RequestTiming], *, k: int | None) -> int | None:
    """Return the tokens of a usual first chunk when they are too many for it; needs continuous usage."""
    firsts = sorted(one.chunk_tokens[0] for one in requests if one.chunk_tokens)
    most = HIDDEN_STEPS * (1 + (k or 0))
    if not firsts or sum(count > most for count in firsts) <= MOST * len(firsts):
        return None
    return firsts[len(firsts) // 2]


def without_times(numbers: DecodeNumbers, found: Delivery) -> DecodeNumbers:
    """Return the numbers without what cannot be told of such a delivery, each with the reason."""
    if not found.lost:
        return numbers
    reasons: Mapping[str, str] = dict.fromkeys(found.lost, found.note)
    if found.held_back:
        reasons = {**reasons, **dict.fromkeys(("own_tokens", "foreign_tokens"), UNTOLD), "identity_allowed": UNCHECKED}
    lost = set(found.lost)
    return replace(
        numbers,
        own_tokens=None if found.held_back else numbers.own_tokens,
        foreign_tokens=None if found.held_back else numbers.foreign_tokens,
        ttft=None if "ttft" in lost else numbers.ttft,
        tpot=None if "tpot" in lost else numbers.tpot,
        e2e=None if "e2e" in lost else numbers.e2e,
        chunk_gap=None if "chunk_gap" in lost else numbers.chunk_gap,
        unavailable={**numbers.unavailable, **reasons},
    )
